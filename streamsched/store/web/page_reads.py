"""What the pages read beside the services of the API: counts and strips over many rows, each at a bounded cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from streamsched.store.connections import Pool, translate_errors
from streamsched.store.sql import Select, queries

#: How many of the newest runs are searched for failures.
SEARCHED_RUNS: Final = 2000
_DAY: Final = timedelta(days=1)


class WorkCounts(NamedTuple):
    """Numbers of an installation, or of one namespace.

    Attributes:
        running: runs with a process.
        ready: admitted jobs and runs that wait for a process.
        waiting: jobs that wait for their constraints.
        ended: runs of the last 24 hours that ended, among the newest `SEARCHED_RUNS`; `failed`: those that did not
            complete, without those killed by request.
        enabled, paused, disabled, error: schedules by state; the last in addition to one of the others.
    """

    running: int = 0
    ready: int = 0
    waiting: int = 0
    ended: int = 0
    failed: int = 0
    enabled: int = 0
    paused: int = 0
    disabled: int = 0
    error: int = 0


class FailedRun(NamedTuple):
    """A run that failed or was lost: its `state` is that of a `RunState`."""

    run: str
    program: str
    state: str
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
    """A job of a schedule (a `JobState`) with its last run (a `RunState`), None while it has none."""

    schedule: str
    job: str
    job_state: str
    created_at: datetime
    run: str | None
    run_state: str | None
    started_at: datetime | None
    ended_at: datetime | None


class DataVersion(NamedTuple):
    """Differs from an earlier one when something has changed in between: the first number grows with every decision,
    the second with every record that is copied from the log.
    """

    decisions: int
    copied: int


_SQL: Final = queries("web/page_reads")
_COUNTS: Final = Select(_SQL["counts"], WorkCounts)
_OLDEST_WAITING: Final = Select(_SQL["oldest_waiting"], WaitingJob)
_RECENT_FAILURES: Final = Select(_SQL["recent_failures"], FailedRun)
_STRIPS: Final = Select(_SQL["strips"], StripEntry)
_VERSION: Final = Select(_SQL["version"], DataVersion)


class PageReads:
    """Each method is one statement, and raises UnavailableError without PostgreSQL. `namespace` None: all of them."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def counts(self, *, namespace: str | None, now: datetime) -> WorkCounts:
        """What there is now, and what ended in the last 24 hours."""
        with translate_errors():
            return await _COUNTS.fetch_one(self._pool, id_prefix(namespace), now - _DAY, SEARCHED_RUNS)

    async def list_oldest_waiting(self, *, namespace: str | None, limit: int) -> Sequence[WaitingJob]:
        """The jobs that wait longest, oldest first."""
        with translate_errors():
            return await _OLDEST_WAITING.fetch(self._pool, id_prefix(namespace), limit)

    async def recent_failures(self, *, namespace: str | None, limit: int) -> Sequence[FailedRun]:
        """Failed and lost runs among the newest `SEARCHED_RUNS`, newest first."""
        with translate_errors():
            return await _RECENT_FAILURES.fetch(self._pool, id_prefix(namespace), SEARCHED_RUNS, limit)

    async def search(
        self, *, namespace: str | None, text: str, states: Sequence[str], after: str, limit: int
    ) -> Sequence[str]:
        """Ids of schedules whose id or program contains `text`, in any case; ordered by id, after the id `after`."""
        values = id_prefix(namespace), text.lower(), states, after, limit
        with translate_errors():
            return [schedule for (schedule,) in await self._pool.fetch(_SQL["search"], *values)]

    async def strips(self, schedules: Sequence[str], *, limit: int) -> Mapping[str, Sequence[StripEntry]]:
        """The newest jobs of each schedule, oldest first; schedules without jobs are missing."""
        found: defaultdict[str, list[StripEntry]] = defaultdict(list)
        with translate_errors():
            for row in await _STRIPS.fetch(self._pool, schedules, limit):
                found[row.schedule].append(row)
        return found

    async def version(self) -> DataVersion:
        """Changes with every decision about a schedule, job or run, and with every copied event."""
        with translate_errors():
            return await _VERSION.fetch_one(self._pool)


def id_prefix(namespace: str | None) -> str | None:
    """How the ids of a namespace begin; None: any."""
    return None if namespace is None else f"{namespace}."
