"""What pages read about events and runs beside the services of the API, each at a bounded cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final, NamedTuple, Protocol

from streamsched.domain.jobs.run import RunState
from streamsched.domain.signals.verdict import Verdict

#: Runs of a day that are counted.
COUNTED_RUNS: Final = 1000
#: Bytes of a job's events above which they are not read for the key matrix.
LARGEST_CONSUMED: Final = 100_000


class EventVerdicts(NamedTuple):
    """How many verdicts of one kind an event has."""

    event: str
    source: str
    verdict: Verdict
    number: int


class ConsumedEvents(NamedTuple):
    """A job with what it used up. `ready` as `codec.records.launch` writes it; None when it is too large."""

    job: str
    ready: Mapping[str, Any] | None


class RunDay(NamedTuple):
    """Runs that were created on a day (UTC), by state, at most `COUNTED_RUNS`."""

    day: date
    states: Mapping[RunState, int]


class MissedDeadline(NamedTuple):
    """A job that missed a deadline; `missed` are sentences."""

    job: str
    missed: Sequence[str]
    at: datetime


class ActivityReads(Protocol):
    """Each method is one statement, and raises UnavailableError without PostgreSQL. `namespace` None: all of them."""

    async def verdicts(self, events: Sequence[str]) -> Sequence[EventVerdicts]:
        """The verdicts of events with these ids."""
        ...

    async def late(self, schedules: Sequence[str], events: Sequence[str]) -> frozenset[tuple[str, str]]:
        """Which of these events came late for which of these schedules: pairs of schedule and event, whose id is cut to
        `domain.signals.finding.KNOWN_BY` characters.
        """
        ...

    async def consumed(self, schedule: str, *, limit: int) -> Sequence[ConsumedEvents]:
        """The newest jobs of a schedule that have not left for the history, newest first."""
        ...

    async def run_days(self, *, program: str | None, namespace: str | None, days: Sequence[date]) -> Sequence[RunDay]:
        """The runs of each of these days: of a program, else of a namespace."""
        ...

    async def missed(self, *, namespace: str | None, limit: int) -> Sequence[MissedDeadline]:
        """Jobs that missed a deadline, among the newest `ports.web.page_reads.SEARCHED_RUNS`, newest first."""
        ...
