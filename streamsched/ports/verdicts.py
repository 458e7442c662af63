"""The verdicts of events: the stored copy of topic `verdicts`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from streamsched.domain.events.lateness import OnLate
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.schedule import ScheduleRecord
from streamsched.domain.signals.finding import Finding
from streamsched.domain.signals.verdict import Verdict
from streamsched.ports.intake import IntakeStore

#: The findings of one record.
Page = Sequence[Finding]


class VerdictStore(IntakeStore[Page], Protocol):
    """Stores pages for a limited time."""

    async def forget(self, *, before: datetime) -> int:
        """Drops the findings of days (UTC) that ended before then; returns the number of days.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...


@dataclass(frozen=True, slots=True)
class ConsumingJob:
    """The job that consumed an event.

    Attributes:
        joined: the job into which a COALESCED one was coalesced.
        runs: ids of its runs, or of the job it was coalesced into, first attempt first.
        run_state: of the last run; None without any.
    """

    job: str
    state: JobState
    reason: str
    joined: str | None
    runs: tuple[str, ...]
    run_state: RunState | None = None


@dataclass(frozen=True, slots=True)
class CurrentSchedule:
    """A schedule at present.

    Attributes:
        progress: the accumulation of this generation, `domain.fold.explain` as JSON; None before the first event.
    """

    record: ScheduleRecord
    progress: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class EventTrace:
    """The trace of an event.

    Attributes:
        findings: oldest first, up to the limit of the query.
        consuming_jobs: for each finding the job that has consumed the event since, or None.
        schedules: those of the findings; one that does not exist is missing.
        listeners: for each event key without a listener at the time, the schedules that listen to it now.
        behind: how many records of topic `verdicts` (one for each turn) are not stored yet.
    """

    event: str
    findings: Sequence[Finding]
    consuming_jobs: Sequence[ConsumingJob | None]
    schedules: Mapping[ScheduleRef, CurrentSchedule]
    listeners: Mapping[str, Sequence[CurrentSchedule]]
    behind: int


@dataclass(frozen=True, slots=True)
class VerdictTotal:
    """How often a schedule gave a verdict, of all time; `late`: the policy applied to late events."""

    verdict: Verdict
    late: OnLate | None
    total: int
    last_at: datetime


class EventTraces(Protocol):
    """Reads traces for API, CLI and UI."""

    async def listeners(self, keys: Sequence[str]) -> Mapping[str, Sequence[CurrentSchedule]]:
        """For each event key the schedules that listen to it, enabled or not; a key for which too many schedules would
        have to be examined is missing.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...

    async def totals(self, schedule: ScheduleRef) -> Sequence[VerdictTotal]:
        """The schedule's verdict counts, ordered by name.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...

    async def follow(self, event: str, *, source: str | None = None, limit: int = 100) -> EventTrace:
        """The trace of an event, of any source when none is given. An unknown event has no findings.

        Raises:
            UnavailableError: PostgreSQL or the log is unavailable.
        """
        ...
