"""`ports.dapr.jobs.DaprJobStore` on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import Any, Final

import asyncpg

from streamsched.codec.dapr.export import ExportedLine, JobCounters
from streamsched.domain.errors import InvalidError, NotFoundError, storable_text
from streamsched.domain.tasks.identity import TaskLane, task_id
from streamsched.domain.tasks.registration import RegistrationVerdict
from streamsched.domain.tasks.task import TaskRequest, TaskState
from streamsched.ports.dapr.jobs import MOST_JOBS, JobTask
from streamsched.store.connections import Connection, translated
from streamsched.store.sql import queries
from streamsched.store.tasks.queues import stored_queue
from streamsched.store.tasks.registration import checked, register

_SQL: Final = queries("dapr/jobs")
#: Jobs ended by one statement, and restored.
_AT_ONCE: Final = 500
#: Jobs read at a time: other requests are answered between two batches.
_SHOWN: Final = 200
#: Exports and imports at a time in one process, and the longest, in seconds: each holds a connection, however slow its
#: client is.
_FEW: Final = 2
_LONGEST_S: Final = 600.0


class _ExistError(Exception):
    """Rolls an import back."""


class PostgresDaprJobs:
    """See `ports.dapr.jobs.DaprJobStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._few = asyncio.Semaphore(_FEW)

    async def get(self, queue: str, name: str) -> JobTask:
        with translated():
            row = await self._pool.fetchrow(_SQL["get"], task_id(TaskLane(queue, name), name))
        if row is None:
            raise NotFoundError("job", name)
        return _job(row)

    async def snapshot(self, queue: str, prefix: str) -> AsyncIterator[Sequence[JobTask]]:
        with translated():
            async with (
                asyncio.timeout(_LONGEST_S),
                self._few,
                self._pool.acquire() as connection,
                connection.transaction(readonly=True),
            ):
                cursor = await connection.cursor(_SQL["list"], queue, prefix)
                while rows := await cursor.fetch(_SHOWN):
                    yield [_job(row) for row in rows]

    async def delete(self, queue: str, name: str, reason: str, *, now: datetime) -> bool:
        lane = TaskLane(queue, name)
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                return await _end(connection, [task_id(lane, name)], [lane.id], reason, now) > 0

    async def delete_prefix(self, queue: str, prefix: str, reason: str, *, now: datetime) -> int:
        ended = 0
        while True:
            with translated():
                async with self._pool.acquire() as connection, connection.transaction():
                    rows = await connection.fetch(_SQL["some"], queue, prefix, _AT_ONCE)
                    tasks, lanes = [row["id"] for row in rows], [row["lane_id"] for row in rows]
                    ended += await _end(connection, tasks, lanes, reason, now)
            if len(rows) < _AT_ONCE:
                return ended

    async def restore(
        self,
        queue: str,
        staged: AsyncIterator[Sequence[ExportedLine]],
        read: Callable[[Sequence[ExportedLine]], Sequence[tuple[TaskRequest, JobCounters]]],
        *,
        now: datetime,
    ) -> tuple[int, Sequence[str]]:
        known: list[str] = []
        count = 0
        try:
            with translated():
                async with asyncio.timeout(_LONGEST_S), self._few:
                    policy = (await stored_queue(self._pool, queue)).queue.policy
                    async with self._pool.acquire() as connection, connection.transaction():
                        count = await _stage(connection, queue, staged)
                        cursor = await connection.cursor(_SQL["staged"])
                        while rows := await cursor.fetch(_AT_ONCE):
                            lines = [ExportedLine(row["position"], row["name"], bytes(row["line"])) for row in rows]
                            part = await asyncio.to_thread(read, lines)
                            requests = [request for request, _ in part]
                            found = await register(connection, policy, checked(policy, queue, requests, now), now)
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


def _job(row: Any) -> JobTask:
    return JobTask(
        task=row["id"],
        name=row["key"],
        content=bytes(row["data"]),
        state=TaskState.IN_FLIGHT if row["in_flight"] else TaskState(row["state"]),
        counters=JobCounters(
            due_at=row["due_at"],
            planned_at=row["planned_at"],
            next_at=row["next_at"],
            fired=row["fired"],
            failures=row["failures"],
            created_at=row["created_at"],
            until=row["until"],
            skipped=row["skipped"],
            unhandled=row["unhandled"],
        ),
        last_at=row["last_at"],
        error=row["error"],
    )
