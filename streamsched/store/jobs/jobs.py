"""Jobs as the API, CLI and UI read and command them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.domain.history import HistoryEntry
from streamsched.domain.jobs.job import JobCommand, JobState
from streamsched.domain.names import AppRef, ScheduleRef
from streamsched.ports.reports import UnreadDeletion
from streamsched.store.connections import NEWEST, Pool, translate_errors
from streamsched.store.events.event_traces import read_totals
from streamsched.store.jobs.job_record import JobRecord, JobRow, add_outcomes, job_record
from streamsched.store.jobs.snapshot import JobSnapshot, read_snapshot
from streamsched.store.server.reports import read_deletions
from streamsched.store.sql import Select, queries
from streamsched.wire.schedules import VerdictTotal

_SQL: Final = queries("jobs/jobs")


#: Most jobs of a span that are read, and counted.
MOST_OF_SPAN: Final = 1000


class SatisfiedJob(NamedTuple):
    """What a span tells of a job, without its events. `state` is a `JobState`."""

    id: str
    state: str
    reason: str
    satisfied_at: datetime
    joined: str | None


_GET: Final = Select(_SQL["get"], JobRow)
_RECENT: Final = Select(_SQL["recent"], JobRow)
_SATISFIED: Final = Select(_SQL["satisfied"], SatisfiedJob)
_CHANGES: Final = Select(_SQL["changes"], HistoryEntry)


@dataclass(frozen=True, slots=True)
class ScheduleSpan:
    """The activity of a schedule in a span of time.

    Attributes:
        jobs: those satisfied in it, oldest first, the newest thousand at most.
        changes: of the schedule, from its creation to the end of the span, oldest first, the newest 500.
        verdict_counts: of all time.
        deletions: what was deleted from the log in it before it was read, of all topics, the newest first.
    """

    jobs: Sequence[SatisfiedJob]
    changes: Sequence[HistoryEntry]
    verdict_counts: Sequence[VerdictTotal]
    deletions: Sequence[UnreadDeletion] = ()


class JobStore:
    """Reads and commands for API, CLI and UI."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get(self, job: str) -> JobRecord:
        """The job, waiting or in the history.

        Raises:
            NotFoundError: no such job.
        """
        with translate_errors():
            row = await _GET.fetchrow(self._pool, job)
            if row is None:
                raise NotFoundError("job", job)
            return (await add_outcomes(self._pool, [job_record(row)]))[0]

    async def list_recent(
        self,
        *,
        schedule: ScheduleRef | None = None,
        app: AppRef | None = None,
        namespace: str | None = None,
        states: Sequence[JobState] = (),
        limit: int = 100,
        before: tuple[datetime, str] | None = None,
    ) -> Sequence[JobRecord]:
        """The newest jobs first; of all schedules, apps, namespaces and states where none is named; older than
        `before` (time of creation and id of a job), when given.
        """
        filters = (schedule and str(schedule), list(states), limit, str(app) if app else namespace)
        with translate_errors():
            rows = await _RECENT.fetch(self._pool, *filters, *(before or NEWEST))
            return await add_outcomes(self._pool, [job_record(row) for row in rows])

    async def command(self, job: str, command: JobCommand | None, reason: str, *, now: datetime) -> JobRecord:
        """Sets or replaces the command of a waiting job; None removes it. `reason` (who and why) is written to its
        history.

        Raises:
            NotFoundError: no such job.
            ConflictError: it no longer waits for constraints; nothing changed.
        """
        action = f"job.{command or 'release'}_ordered"
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await _GET.fetchrow(connection, job)
                if row is None:
                    raise NotFoundError("job", job)
                await connection.execute(_SQL["lock_program"], row.program)
                if await connection.fetchrow(_SQL["tell"], job, command, reason, now, action) is None:
                    raise ConflictError(f"job '{job}' waits for no constraint any more")
                return job_record(await _GET.fetch_one(connection, job))

    async def span(self, schedule: ScheduleRef, *, since: datetime, until: datetime) -> ScheduleSpan:
        """The activity of a schedule between these (UTC, both included); empty for an unknown one."""
        name = str(schedule)
        with translate_errors():
            async with (
                self._pool.acquire() as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                jobs = await _SATISFIED.fetch(connection, name, since, until, MOST_OF_SPAN)
                changes = await _CHANGES.fetch(connection, name, until)
                verdict_counts = await read_totals(connection, schedule)
                deletions = await read_deletions(connection, since, until)
        return ScheduleSpan(jobs[::-1], changes[::-1], verdict_counts, deletions)

    async def snapshot(self, job: str) -> JobSnapshot:
        """The job with all that explains its state, read at one moment.

        Raises:
            NotFoundError: no such job.
        """
        with translate_errors():
            async with (
                self._pool.acquire() as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                return await read_snapshot(connection, job)
