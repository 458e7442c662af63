"""What the pages read beside the services of the API: counts and strips over many rows, each at a bounded cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState

#: How many of the newest runs are searched for failures.
SEARCHED_RUNS: Final = 2000


@dataclass(frozen=True, slots=True)
class WorkCounts:
    """Numbers of an installation, or of one namespace.

    Attributes:
        running: runs with a process.
        ready: admitted jobs and runs that wait for a process.
        waiting: jobs that wait for their constraints.
        ended: runs of the last 24 hours that ended, among the newest `SEARCHED_RUNS`; `failed`: those that did not
            complete, without those killed by request.
        schedules: by state: `enabled`, `paused`, `disabled`, `error` (the last in addition to one of the others).
    """

    running: int
    ready: int
    waiting: int
    ended: int
    failed: int
    schedules: Mapping[str, int]


class FailedRun(NamedTuple):
    """A run that failed or was lost."""

    run: str
    program: str
    state: RunState
    reason: str
    ended_at: datetime


class WaitingJob(NamedTuple):
    """A job that waits for its constraints. `reason`: of its last check."""

    job: str
    schedule: str | None
    program: str | None
    reason: str
    since: datetime


class StripEntry(NamedTuple):
    """A job of a schedule with its last run, None while it has none."""

    job: str
    job_state: JobState
    run: str | None
    run_state: RunState | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


#: Differs from an earlier one when something has changed in between.
DataVersion = tuple[int, int]


class PageReads(Protocol):
    """Each method is one statement, and raises UnavailableError without PostgreSQL. `namespace` None: all of them."""

    async def counts(self, *, namespace: str | None, now: datetime) -> WorkCounts: ...

    async def oldest_waiting(self, *, namespace: str | None, limit: int) -> Sequence[WaitingJob]:
        """The jobs that wait longest, oldest first."""
        ...

    async def recent_failures(self, *, namespace: str | None, limit: int) -> Sequence[FailedRun]:
        """Failed and lost runs among the newest `SEARCHED_RUNS`, newest first."""
        ...

    async def search(
        self, *, namespace: str | None, text: str, states: Sequence[str], after: str, limit: int
    ) -> Sequence[str]:
        """Ids of schedules whose id or program contains `text`, in any case; ordered by id, after the id `after`."""
        ...

    async def strips(self, schedules: Sequence[str], *, limit: int) -> Mapping[str, Sequence[StripEntry]]:
        """The newest jobs of each schedule, oldest first; schedules without jobs are missing."""
        ...

    async def version(self) -> DataVersion:
        """Changes with every decision about a schedule, job or run, and with every copied event."""
        ...
