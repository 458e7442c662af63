"""`ports.tasks.delivery.DeliveryStore` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, assert_never

import asyncpg
import orjson
import structlog

from streamsched.codec import event as event_codec
from streamsched.codec.tasks.task import options_from_json
from streamsched.domain.constraints.pace import BucketLevel
from streamsched.domain.errors import InvalidError, storable_text
from streamsched.domain.limits import as_stored
from streamsched.domain.tasks.attempt import (
    Acknowledged,
    AttemptEnd,
    AttemptFailed,
    Interrupted,
    StartedTask,
    TaskEnds,
    TaskRetries,
    TaskTicks,
    WorkerLost,
)
from streamsched.domain.tasks.queue import startable, taken
from streamsched.domain.tasks.recurrence import MOST_REPEATS
from streamsched.domain.tasks.task import TaskState
from streamsched.log.topics import public_topic
from streamsched.ports.outbox import OutboxRecord
from streamsched.ports.tasks.delivery import DeliveryKey, EndedAttempt, SkippedTicks
from streamsched.ports.tasks.queues import QueueVersion
from streamsched.store.catalog import outbox
from streamsched.store.connections import Connection, translated
from streamsched.store.sql import fetch_value, queries

log = structlog.get_logger()

_SQL: Final = queries("tasks/delivery")


class PostgresDeliveryStore:
    """See `ports.tasks.delivery.DeliveryStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def fence(
        self, epochs: Mapping[int, int], *, now: datetime, held: Sequence[StartedTask] = ()
    ) -> frozenset[int]:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                rows = await connection.fetch(_SQL["fence"], list(epochs), list(epochs.values()))
                taken_over = [row["partition"] for row in rows]
                mine = (
                    [each.id for each in held],
                    [each.generation for each in held],
                    [each.started_at for each in held],
                )
                freed = await connection.fetch(_SQL["recover"], taken_over, now, *mine)
        if freed:
            log.info("tasks.recovered", tasks=len(freed))
        return frozenset(taken_over)

    async def next_ready(self, queues: Sequence[str], partitions: Sequence[int]) -> Sequence[tuple[str, datetime]]:
        with translated():
            rows = await self._pool.fetch(_SQL["next_ready"], list(queues), list(partitions))
        return [(row["name"], row["ready_at"]) for row in rows]

    async def start(
        self, queue: QueueVersion, epochs: Mapping[int, int], *, limit: int, most_bytes: int, now: datetime
    ) -> Sequence[StartedTask]:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                limited = queue.queue.policy.limited
                asked = _SQL["lock_limited_queue" if limited else "lock_queue"]
                row = await connection.fetchrow(asked, queue.queue.name)
                if row is None or row["paused"] or row["version"] != queue.version:
                    return []
                level = None if row["tokens"] is None else BucketLevel(row["tokens"], row["tokens_at"])
                allowed = await _allowed(connection, queue, level, now) if limited else None
                limit = limit if allowed is None else min(limit, allowed)
                if limit <= 0:
                    return []
                locked = await connection.fetch(
                    _SQL["lock_due"], list(epochs), list(epochs.values()), queue.queue.name, now, limit
                )
                lanes = [each["id"] for each in locked]
                if not lanes:
                    return []
                started = [
                    _started(each, now) for each in await connection.fetch(_SQL["start"], lanes, now, most_bytes)
                ]
                left = taken(queue.queue.policy, level, len(started), now)
                if left is not None:
                    await connection.execute(_SQL["take_tokens"], queue.queue.name, left.left, left.at)
                return started

    async def store(self, ended: Sequence[EndedAttempt], epochs: Mapping[int, int], *, now: datetime) -> int:
        tasks = [each.task for each in ended]
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                rows = await connection.fetch(
                    _SQL["lock_ended"],
                    *(list(epochs), list(epochs.values())),
                    *([t.lane_id for t in tasks], [t.id for t in tasks], [t.generation for t in tasks]),
                    [t.started_at for t in tasks],
                )
                lanes = {row["id"] for row in rows}
                mine = [each for each in ended if each.task.lane_id in lanes]
                if not mine:
                    return 0
                writes = _Writes(now)
                for each in mine:
                    writes.add(each)
                over = await writes.execute(connection)
                events = [each.event for each in mine if each.event is not None and each.task.id in over]
                records = [OutboxRecord(public_topic(e.fact), e.key, event_codec.encode(e)) for e in events]
                await outbox.copy(connection, records)
                await connection.execute(_SQL["free_lanes"], sorted(lanes), now)
                return len(mine)

    async def outdated(self, keys: Sequence[DeliveryKey]) -> frozenset[DeliveryKey]:
        with translated():
            rows = await self._pool.fetch(
                _SQL["outdated"], [key.task for key in keys], [key.generation for key in keys]
            )
        return frozenset(DeliveryKey(row["id"], row["generation"]) for row in rows)


async def _allowed(connection: Connection, queue: QueueVersion, level: BucketLevel | None, now: datetime) -> int | None:
    policy = queue.queue.policy
    in_flight = 0
    if policy.max_in_flight is not None:
        in_flight = await fetch_value(connection, _SQL["in_flight"], int, queue.queue.name, policy.max_in_flight)
    return startable(policy, in_flight, level, now)


def _started(row: Any, now: datetime) -> StartedTask:
    """The task. Options that this release cannot read are left out: the task is delivered once and then ends."""
    recurrence = retry = None
    try:
        with as_stored():
            recurrence, retry = options_from_json(row["options"])
    except InvalidError as exc:
        log.error("tasks.options_unreadable", task=row["id"], path=exc.path, reason=exc.reason)
    return StartedTask(
        id=row["id"],
        queue=row["queue"],
        lane=row["lane"],
        lane_id=row["lane_id"],
        partition=row["partition"],
        key=row["key"],
        generation=row["generation"],
        due_at=row["due_at"],
        planned_at=row["planned_at"],
        fired=row["fired"],
        failures=row["failures"],
        losses=row["losses"],
        started_at=now,
        data=bytes(row["data"]),
        content_type=row["content_type"],
        recurrence=recurrence,
        retry=retry,
    )


class _Writes:
    """What ended attempts write, as the columns of set-wise statements."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._ends: list[tuple[object, ...]] = []
        self._retries: list[tuple[object, ...]] = []
        self._ticks: list[tuple[object, ...]] = []

    def add(self, ended: EndedAttempt) -> None:
        task, at, attempt = ended.task, ended.end.at, _attempt_json(ended)
        key = (task.id, task.generation)
        match ended.after:
            case TaskEnds(state=state, reason=reason):
                self._ends.append((*key, state, reason, at, attempt))
            case TaskRetries(at=next_at, failures=failures, losses=losses, reason=reason):
                self._retries.append((*key, next_at, task.planned_at, failures, losses, reason, attempt, task.skipped))
            case TaskTicks(planned_at=planned_at, fired=fired, state=state, reason=reason):
                fired = min(fired, MOST_REPEATS)  # it is counted no further
                unhandled = int(isinstance(ended.end, Acknowledged) and not ended.end.handled)
                counts = (task.skipped, unhandled)
                self._ticks.append((*key, planned_at, fired, state, reason, at, task.planned_at, attempt, *counts))
            case SkippedTicks(planned_at=None):
                self._ends.append((*key, TaskState.EXPIRED, "no tick is left", self._now, attempt))
            case SkippedTicks(planned_at=planned_at, ticks=ticks):
                self._ticks.append((*key, planned_at, task.fired, "", "", at, task.planned_at, attempt, ticks, 0))
            case _:
                assert_never(ended.after)

    async def execute(self, connection: Connection) -> set[str]:
        """Returns the ids of tasks that ended, or whose tick ended, by this."""
        over: set[str] = set()
        for name, rows in (("end_tasks", self._ends), ("retry_tasks", self._retries), ("tick_tasks", self._ticks)):
            if rows:
                found = await connection.fetch(_SQL[name], *(list(column) for column in zip(*rows, strict=True)))
                over.update(row["id"] for row in found)
        return over


def _attempt_json(ended: EndedAttempt) -> str:
    """The attempt as an element of `tasks.attempts`."""
    task, end = ended.task, ended.end
    content = {
        "attempt": task.attempt,
        "startedAt": task.started_at.isoformat(),
        "endedAt": end.at.isoformat(),
        "result": _result(end),
        "reason": storable_text(end.detail if isinstance(end, Acknowledged) else end.reason),
    }
    return orjson.dumps(content).decode()


def _result(end: AttemptEnd) -> str:
    match end:
        case Acknowledged():
            return "succeeded"
        case AttemptFailed():
            return "failed"
        case WorkerLost():
            return "lost"
        case Interrupted():
            return "interrupted"
        case _:
            assert_never(end)
