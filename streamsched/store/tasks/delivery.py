"""The delivery of tasks: what an owner of lanes reads and writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple, assert_never

import orjson
import structlog

from streamsched.codec import event as event_codec
from streamsched.domain.constraints.pace import BucketLevel
from streamsched.domain.errors import InvalidError, storable_text
from streamsched.domain.events.event import Event
from streamsched.domain.tasks.attempt import (
    Acknowledged,
    AfterAttempt,
    AttemptEnd,
    AttemptFailed,
    Interrupted,
    StartedTask,
    TaskEnds,
    TaskRetries,
    TaskTicks,
    WorkerLost,
)
from streamsched.domain.tasks.queue import count_startable, take_tokens
from streamsched.domain.tasks.recurrence import MOST_REPEATS
from streamsched.domain.tasks.task import TaskState
from streamsched.log.topics import public_topic
from streamsched.ports.outbox import OutboxRecord
from streamsched.store.catalog import outbox
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.sql import Select, fetch_value, queries
from streamsched.store.tasks.queues import QueueVersion
from streamsched.wire.task_requests import options_from_json

log = structlog.get_logger()

_SQL: Final = queries("tasks/delivery")


class DeliveryKey(NamedTuple):
    """A task in flight. A task that was registered again has another generation."""

    task: str
    generation: int


class _ReadyQueue(NamedTuple):
    name: str
    ready_at: datetime


class _LockedQueue(NamedTuple):
    paused: bool
    version: int
    tokens: float | None
    tokens_at: datetime | None

    @property
    def level(self) -> BucketLevel | None:
        """Of the rate's bucket; None before its first use."""
        return None if self.tokens is None or self.tokens_at is None else BucketLevel(self.tokens, self.tokens_at)


class _StartedRow(NamedTuple):
    id: str
    queue: str
    lane: str
    lane_id: str
    partition: int
    key: str
    generation: int
    due_at: datetime
    planned_at: datetime
    fired: int
    failures: int
    losses: int
    options: Mapping[str, Any] | None
    data: bytes
    content_type: str


_NEXT_READY: Final = Select(_SQL["next_ready"], _ReadyQueue)
_LOCK_QUEUE: Final = Select(_SQL["lock_queue"], _LockedQueue)
_LOCK_LIMITED_QUEUE: Final = Select(_SQL["lock_limited_queue"], _LockedQueue)
_START: Final = Select(_SQL["start"], _StartedRow)
_OUTDATED: Final = Select(_SQL["outdated"], DeliveryKey)


@dataclass(frozen=True, slots=True)
class SkippedTicks:
    """So many missed ticks are skipped: the next one is planned for `planned_at` (UTC); None: none is left."""

    planned_at: datetime | None
    ticks: int


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """An attempt that ended, with what follows. `event`: published in the same transaction."""

    task: StartedTask
    end: AttemptEnd
    after: AfterAttempt | SkippedTicks
    event: Event | None = None


class DeliveryStore:
    """Writes are guarded by the epochs of partitions: of a partition that a later owner has fenced, nothing is
    written. All methods raise `UnavailableError` when PostgreSQL is unavailable.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def fence(
        self, epochs: Mapping[int, int], *, now: datetime, held: Sequence[StartedTask] = ()
    ) -> frozenset[int]:
        """Takes partitions under these epochs, and returns those of which no later owner exists. What is in flight in
        them, except what this owner holds, waits again as the head of its lane, without having used up an attempt.
        Idempotent.
        """
        with translate_errors():
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

    async def read_next_ready(self, queues: Sequence[str], partitions: Sequence[int]) -> Sequence[tuple[str, datetime]]:
        """For each queue that has waiting lanes in these partitions, when the first one is ready; soonest first."""
        with translate_errors():
            return await _NEXT_READY.fetch(self._pool, list(queues), list(partitions))

    async def start(
        self, queue: QueueVersion, epochs: Mapping[int, int], *, limit: int, most_bytes: int, now: datetime
    ) -> Sequence[StartedTask]:
        """Starts the heads of at most `limit` lanes, as far as the queue's cap and rate allow: one for each lane, none
        before it is due. In each partition those that are ready longest go first; one partition has at most about
        twice its even share. Nothing when the queue is paused or was changed. The data of all has at most
        `most_bytes`, or there is one task.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                limited = queue.queue.policy.is_limited
                lock = _LOCK_LIMITED_QUEUE if limited else _LOCK_QUEUE
                row = await lock.fetchrow(connection, queue.queue.name)
                if row is None or row.paused or row.version != queue.version:
                    return []
                level = row.level
                allowed = await _count_startable(connection, queue, level, now) if limited else None
                limit = limit if allowed is None else min(limit, allowed)
                if limit <= 0:
                    return []
                locked = await connection.fetch(
                    _SQL["lock_due"], list(epochs), list(epochs.values()), queue.queue.name, now, limit
                )
                lanes = [each["id"] for each in locked]
                if not lanes:
                    return []
                started = [_started_task(each, now) for each in await _START.fetch(connection, lanes, now, most_bytes)]
                left = take_tokens(queue.queue.policy, level, len(started), now)
                if left is not None:
                    await connection.execute(_SQL["take_tokens"], queue.queue.name, left.left, left.at)
                return started

    async def store(self, ended: Sequence[EndedAttempt], epochs: Mapping[int, int], *, now: datetime) -> int:
        """Stores what follows from ended attempts and frees their lanes; all or none. Returns how many were this
        owner's. The end of an older registration frees the lane and changes nothing else; that of an earlier start of
        the same task does nothing.
        """
        tasks = [each.task for each in ended]
        with translate_errors():
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

    async def outdated_keys(self, keys: Sequence[DeliveryKey]) -> frozenset[DeliveryKey]:
        """Those of the tasks in flight that ended by hand or were registered again."""
        with translate_errors():
            outdated = await _OUTDATED.fetch(self._pool, [key.task for key in keys], [key.generation for key in keys])
        return frozenset(outdated)


async def _count_startable(
    connection: Connection, queue: QueueVersion, level: BucketLevel | None, now: datetime
) -> int | None:
    policy = queue.queue.policy
    in_flight = 0
    if policy.max_in_flight is not None:
        in_flight = await fetch_value(connection, _SQL["in_flight"], int, queue.queue.name, policy.max_in_flight)
    return count_startable(policy, in_flight, level, now)


def _started_task(row: _StartedRow, now: datetime) -> StartedTask:
    """The task. Options that this release cannot read are left out: the task is delivered once and then ends."""
    recurrence = retry = None
    try:
        recurrence, retry = options_from_json(row.options)
    except InvalidError as exc:
        log.error("tasks.options_unreadable", task=row.id, path=exc.path, reason=exc.reason)
    return StartedTask(
        id=row.id,
        queue=row.queue,
        lane=row.lane,
        lane_id=row.lane_id,
        partition=row.partition,
        key=row.key,
        generation=row.generation,
        due_at=row.due_at,
        planned_at=row.planned_at,
        fired=row.fired,
        failures=row.failures,
        losses=row.losses,
        data=row.data,
        content_type=row.content_type,
        started_at=now,
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
        "startedAt": task.started_at,
        "endedAt": end.at,
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
