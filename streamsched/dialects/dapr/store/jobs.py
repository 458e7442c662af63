"""Jobs of an app, as the tasks of its queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.dialects.dapr.codec.export import ExportedLine, JobCounters
from streamsched.domain.errors import InvalidError, NotFoundError, storable_text
from streamsched.domain.tasks.identity import TaskLane, task_id
from streamsched.domain.tasks.registration import RegistrationVerdict
from streamsched.domain.tasks.task import TaskRequest, TaskState
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.sql import Select, queries
from streamsched.store.tasks.queues import stored_queue
from streamsched.store.tasks.registration import check_registrations, register, stored_state

_SQL: Final = queries("jobs", "streamsched.dialects.dapr.store")
#: The most jobs of one message, and of one import.
MOST_JOBS: Final = 100_000
#: Jobs ended by one statement, and restored.
_AT_ONCE: Final = 500
#: Jobs read at a time: other requests are answered between two batches.
_SHOWN: Final = 200
#: Exports and imports at a time in one process, and the longest, in seconds: each holds a connection, however slow its
#: client is.
_FEW: Final = 2
_LONGEST_S: Final = 600.0


class _JobRow(NamedTuple):
    id: str
    key: str
    data: bytes
    state: str
    due_at: datetime
    planned_at: datetime
    next_at: datetime
    fired: int
    failures: int
    skipped: int
    unhandled: int
    created_at: datetime
    error: str
    until: datetime | None
    in_flight: bool
    last_at: datetime | None


class _JobKey(NamedTuple):
    id: str
    lane_id: str


_GET: Final = Select(_SQL["get"], _JobRow)
_LIST: Final = Select(_SQL["list"], _JobRow)
_SOME: Final = Select(_SQL["some"], _JobKey)
_STAGED: Final = Select(_SQL["staged"], ExportedLine)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTask:
    """The task of a job that has not ended.

    Attributes:
        content: the job (`codec.dapr.stored`).
        last_at: planned time of the tick before (UTC); None: there was none.
        error: of the last attempt.
    """

    task: str
    name: str
    content: bytes
    state: TaskState
    counters: JobCounters
    last_at: datetime | None
    error: str


class _ExistError(Exception):
    """Rolls an import back."""


class DaprJobStore:
    """All methods raise `UnavailableError` when PostgreSQL is unavailable."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._few = asyncio.Semaphore(_FEW)

    async def get(self, queue: str, name: str) -> JobTask:
        """The stored task of a job.

        Raises:
            NotFoundError: there is no such job.
        """
        with translate_errors():
            row = await _GET.fetchrow(self._pool, task_id(TaskLane(queue, name), name))
        if row is None:
            raise NotFoundError("job", name)
        return _job(row)

    async def snapshot(self, queue: str, prefix: str) -> AsyncIterator[Sequence[JobTask]]:
        """The jobs whose names begin with a prefix, by name, all at one moment, in batches. It holds a connection until
        it ends; few go on at a time.
        """
        with translate_errors():
            async with (
                asyncio.timeout(_LONGEST_S),
                self._few,
                self._pool.acquire() as connection,
                connection.transaction(readonly=True),
            ):
                async for rows in _LIST.batches(connection, _SHOWN, queue, prefix):
                    yield [_job(row) for row in rows]

    async def delete(self, queue: str, name: str, reason: str, *, now: datetime) -> bool:
        """Ends a job in any state; False without one."""
        lane = TaskLane(queue, name)
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                return await _end(connection, [task_id(lane, name)], [lane.id], reason, now) > 0

    async def delete_prefix(self, queue: str, prefix: str, reason: str, *, now: datetime) -> int:
        """Ends the jobs whose names begin with a prefix; returns how many. Not at one moment: call it again after an
        error.
        """
        ended = 0
        while True:
            with translate_errors():
                async with self._pool.acquire() as connection, connection.transaction():
                    found = await _SOME.fetch(connection, queue, prefix, _AT_ONCE)
                    tasks, lanes = [each.id for each in found], [each.lane_id for each in found]
                    ended += await _end(connection, tasks, lanes, reason, now)
            if len(found) < _AT_ONCE:
                return ended

    async def restore(
        self,
        queue: str,
        staged: AsyncIterator[Sequence[ExportedLine]],
        read: Callable[[Sequence[ExportedLine]], Sequence[tuple[TaskRequest, JobCounters]]],
        *,
        now: datetime,
    ) -> tuple[int, Sequence[str]]:
        """Stores exported jobs with their counters, all or none. They are first set aside as they come, and then read
        in the order in which their lanes are locked; `read` may take its time.

        Returns how many were stored, and the names of those that exist already: then nothing was stored.

        Raises:
            NotFoundError: there is no such queue.
            InvalidError: a job is invalid, or there are more than `MOST_JOBS`; also whatever `staged` raises.
        """
        known: list[str] = []
        count = 0
        try:
            with translate_errors():
                async with asyncio.timeout(_LONGEST_S), self._few:
                    policy = (await stored_queue(self._pool, queue)).queue.policy
                    async with self._pool.acquire() as connection, connection.transaction():
                        count = await _stage(connection, queue, staged)
                        async for lines in _STAGED.batches(connection, _AT_ONCE):
                            part = await asyncio.to_thread(read, lines)
                            requests = [request for request, _ in part]
                            checked = check_registrations(policy, queue, requests, now)
                            found = await register(connection, policy, checked, now)
                            known += [
                                request.key
                                for request, each in zip(requests, found, strict=True)
                                if each.verdict is RegistrationVerdict.EXISTS
                            ]
                            await _restore(connection, [each.task for each in found], [each for _, each in part])
                        if known:
                            raise _ExistError
        except _ExistError:
            return 0, sorted(known)
        return count, ()


async def _stage(connection: Connection, queue: str, staged: AsyncIterator[Sequence[ExportedLine]]) -> int:
    """Copies jobs into a table of the transaction; returns how many."""
    await connection.execute(_SQL["stage"])
    count = 0
    async for batch in staged:
        count += len(batch)
        if count > MOST_JOBS:
            raise InvalidError("$", f"has more than {MOST_JOBS} jobs; import those of one prefix at a time")
        records = [(each.position, TaskLane(queue, each.name).id, each.name, each.line) for each in batch]
        await connection.copy_records_to_table("imported_jobs", records=records)
    return count


async def _restore(connection: Connection, tasks: Sequence[str], counters: Sequence[JobCounters]) -> None:
    await connection.execute(
        _SQL["restore"],
        list(tasks),
        [each.planned_at for each in counters],
        [each.next_at for each in counters],
        [each.fired for each in counters],
        [each.failures for each in counters],
        [each.created_at for each in counters],
        [each.skipped for each in counters],
        [each.unhandled for each in counters],
    )


async def _end(connection: Connection, tasks: Sequence[str], lanes: Sequence[str], reason: str, now: datetime) -> int:
    await connection.fetch(_SQL["lock_lanes"], lanes)
    ended = await connection.fetch(_SQL["end"], tasks, now, storable_text(reason))
    if ended:
        await connection.execute(_SQL["check_lanes"], lanes, now)
        await connection.execute("SELECT pg_notify('tasks', '')")
    return len(ended)


def _job(row: _JobRow) -> JobTask:
    return JobTask(
        task=row.id,
        name=row.key,
        content=row.data,
        state=stored_state(row.state, in_flight=row.in_flight),
        counters=JobCounters(
            due_at=row.due_at,
            planned_at=row.planned_at,
            next_at=row.next_at,
            fired=row.fired,
            failures=row.failures,
            created_at=row.created_at,
            until=row.until,
            skipped=row.skipped,
            unhandled=row.unhandled,
        ),
        last_at=row.last_at,
        error=row.error,
    )
