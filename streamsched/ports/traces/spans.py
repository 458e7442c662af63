"""Spans: which jobs and runs they are due of, and where they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from streamsched.domain.jobs.spans import EndedJob, EndedRun, TraceSpan


@dataclass(frozen=True, slots=True)
class DueSpans:
    """Jobs and runs that have ended and whose spans have not been sent.

    Attributes:
        unreadable: ids of jobs, and of runs, whose rows hold something else; no span can be made of them.
    """

    jobs: Sequence[EndedJob]
    runs: Sequence[EndedRun]
    unreadable: tuple[Sequence[str], Sequence[str]] = ((), ())

    @property
    def count(self) -> int:
        return len(self.jobs) + len(self.runs) + sum(map(len, self.unreadable))


class SpanStore(Protocol):
    """The jobs and runs of an installation, by their spans."""

    async def due(self, *, limit: int) -> DueSpans:
        """At most `limit` jobs and as many runs, those that ended first.

        Raises:
            UnavailableError: the database cannot be reached.
        """
        ...

    async def settle(self, due: DueSpans, *, sent: bool) -> None:
        """The spans of these are sent, or else dropped; those of unreadable rows are dropped. Idempotent.

        Raises:
            UnavailableError: the database cannot be reached.
        """
        ...

    async def drop_ended_before(self, before: datetime) -> int:
        """Drops the spans of jobs and runs that ended before then; how many jobs and runs there were.

        Raises:
            UnavailableError: the database cannot be reached.
        """
        ...


class SpanSender(Protocol):
    """Sends spans to a receiver of OpenTelemetry."""

    async def send(self, spans: Sequence[TraceSpan]) -> bool:
        """Whether the receiver accepted them. Takes at most as long as its timeout, and never raises for a receiver
        that is away.
        """
        ...
