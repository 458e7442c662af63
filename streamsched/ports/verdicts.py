"""What became of events: the copy of topic `verdicts` that people ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from streamsched.domain.finding import Finding
from streamsched.domain.job import JobState
from streamsched.domain.lateness import OnLate
from streamsched.domain.names import ScheduleRef
from streamsched.domain.run import RunState
from streamsched.domain.verdict import Verdict
from streamsched.ports.catalog import ScheduleRecord
from streamsched.ports.intake import IntakeStore

#: What one record tells.
Page = Sequence[Finding]


class VerdictStore(IntakeStore[Page], Protocol):
    """Where pages are kept, for a time."""

    async def forget(self, *, before: datetime) -> int:
        """Drops what was found on days (UTC) that ended before then; how many days.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ...


@dataclass(frozen=True, slots=True)
class Taker:
    """The job that took an event with it.

    Attributes:
        joined: the job a COALESCED one joined.
        runs: ids of its runs, first attempt first; of the job it joined when it joined one.
        run_state: of the last of them; None without any.
    """

    job: str
    state: JobState
    reason: str
    joined: str | None
    runs: tuple[str, ...]
    run_state: RunState | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """A schedule as it stands now.

    Attributes:
        progress: how far this generation's accumulation is, `domain.explain` as JSON; None before anything came.
    """

    record: ScheduleRecord
    progress: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Trail:
    """All that is known of an event.

    Attributes:
        findings: oldest first; at most as many as were asked for.
        takers: beside each finding the job that took the event since, None where there is none.
        standings: the schedules of the findings; one that is unknown is missing.
        listeners: of each event key that nobody listened to, the schedules that would hear it now if they are enabled.
        behind: how many records of the log, each of one turn, have not been taken into the table yet.
    """

    event: str
    findings: Sequence[Finding]
    takers: Sequence[Taker | None]
    standings: Mapping[ScheduleRef, Standing]
    listeners: Mapping[str, Sequence[Standing]]
    behind: int


@dataclass(frozen=True, slots=True)
class Total:
    """How often a schedule has given a verdict at all; `late`: to events that its policy did this with."""

    verdict: Verdict
    late: OnLate | None
    total: int
    last_at: datetime


class Trails(Protocol):
    """What people ask."""

    async def listeners(self, keys: Sequence[str]) -> Mapping[str, Sequence[Standing]]:
        """For each event key the schedules that want it, enabled or not; a key about which nobody can tell at a
        bearable price is missing.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ...

    async def totals(self, schedule: ScheduleRef) -> Sequence[Total]:
        """The schedule's verdicts so far, in order of their names.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ...

    async def follow(self, event: str, *, source: str | None = None, limit: int = 100) -> Trail:
        """What became of an event, of any source when none is named. One that was never seen has no findings.

        Raises:
            UnavailableError: PostgreSQL or the log is away.
        """
        ...
