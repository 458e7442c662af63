"""`ports.dapr.jobs.DaprJobStore` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import asyncpg

from streamsched.codec.dapr.export import JobCounters
from streamsched.domain.errors import ConflictError, NotFoundError, storable_text
from streamsched.domain.tasks.identity import TaskLane, task_id
from streamsched.domain.tasks.registration import RegistrationVerdict
from streamsched.domain.tasks.task import TaskRequest, TaskState
from streamsched.ports.dapr.jobs import MOST_JOBS, JobTask
from streamsched.store.connections import translated
from streamsched.store.sql import queries
from streamsched.store.tasks.queues import stored_queue
from streamsched.store.tasks.registration import checked, register

_SQL: Final = queries("dapr/jobs")
#: Jobs ended, or restored, by one statement.
_AT_ONCE: Final = 1000


class _ExistError(Exception):
    """Rolls an import back."""


class PostgresDaprJobs:
    """See `ports.dapr.jobs.DaprJobStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def get(self, queue: str, name: str) -> JobTask:
        with translated():
            row = await self._pool.fetchrow(_SQL["get"], task_id(TaskLane(queue, name), name))
        if row is None:
            raise NotFoundError("job", name)
        return _job(row)

    async def list(self, queue: str, prefix: str) -> Sequence[JobTask]:
        with translated():
            rows = await self._pool.fetch(_SQL["list"], queue, prefix, MOST_JOBS + 1)
        if len(rows) > MOST_JOBS:
            raise ConflictError(f"there are more than {MOST_JOBS} jobs; ask for those of a longer prefix")
        return [_job(row) for row in rows]

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
        self, queue: str, jobs: Sequence[tuple[TaskRequest, JobCounters]], *, now: datetime
    ) -> Sequence[str]:
        known: list[str] = []
        try:
            with translated():
                policy = (await stored_queue(self._pool, queue)).queue.policy
                async with self._pool.acquire() as connection, connection.transaction():
                    # By lane, as every transaction locks them.
                    ordered = sorted(jobs, key=lambda each: TaskLane(queue, each[0].key).id)
                    for start in range(0, len(ordered), _AT_ONCE):
                        part = ordered[start : start + _AT_ONCE]
                        requests = [request for request, _ in part]
                        found = await register(connection, policy, checked(policy, queue, requests, now), now)
                        known += [
                            request.key
                            for request, each in zip(requests, found, strict=True)
                            if each.verdict is RegistrationVerdict.EXISTS
                        ]
                        await _restore(connection, [each.task for each in found], [counters for _, counters in part])
                    if known:
                        raise _ExistError
        except _ExistError:
            return sorted(known)
        return ()


async def _restore(connection: Any, tasks: Sequence[str], counters: Sequence[JobCounters]) -> None:
    await connection.execute(
        _SQL["restore"],
        list(tasks),
        [each.planned_at for each in counters],
        [each.next_at for each in counters],
        [each.fired for each in counters],
        [each.failures for each in counters],
        [each.created_at for each in counters],
    )


async def _end(connection: Any, tasks: Sequence[str], lanes: Sequence[str], reason: str, now: datetime) -> int:
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
        ),
        last_at=row["last_at"],
        error=row["error"],
    )
