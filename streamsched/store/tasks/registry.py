"""`ports.tasks.registry.TaskRegistry` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import asyncpg

from streamsched.codec import event as event_codec
from streamsched.codec.tasks.event import end_event
from streamsched.domain.errors import ConflictError, IllegalTransitionError, NotFoundError, storable_text
from streamsched.domain.tasks.identity import TaskLane
from streamsched.domain.tasks.task import TaskFact, TaskRequest, TaskState, advance
from streamsched.domain.tasks.why import LaneHead, TaskReason, waiting_reasons
from streamsched.log.topics import public_topic
from streamsched.ports.outbox import OutboxRecord
from streamsched.ports.tasks.queues import COUNTED
from streamsched.ports.tasks.registry import LaneRecord, RegisteredTask, TaskRecord
from streamsched.store.catalog import history, outbox
from streamsched.store.connections import NEWEST, Connection, Executor, translated
from streamsched.store.sql import queries
from streamsched.store.tasks.queues import PostgresQueueStore, stored_queue
from streamsched.store.tasks.registration_batches import RegistrationBatches

_SQL: Final = queries("tasks/registry")
_OLDEST: Final = (datetime.min.replace(tzinfo=UTC), "")


class PostgresTaskRegistry:
    """See `ports.tasks.registry.TaskRegistry`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._queues = PostgresQueueStore(pool)
        self._registrations = RegistrationBatches(pool)

    async def register(self, queue: str, requests: Sequence[TaskRequest], *, now: datetime) -> Sequence[RegisteredTask]:
        return await self._registrations.register(queue, requests, now)

    async def get(self, task: str) -> TaskRecord:
        with translated():
            return await _found(self._pool, task)

    async def ends(self, task: str, *, limit: int) -> Sequence[TaskRecord]:
        with translated():
            return [_ended(row) for row in await self._pool.fetch(_SQL["ends"], task, limit)]

    async def live(
        self, queue: str, *, lane: str | None, after: tuple[datetime, str] | None, limit: int
    ) -> Sequence[TaskRecord]:
        asked, scope = ("page", queue) if lane is None else ("lane_page", TaskLane(queue, lane).id)
        with translated():
            rows = await self._pool.fetch(_SQL[asked], scope, *(after or _OLDEST), limit)
            ids = [row["id"] for row in rows]
            found = {row["id"]: _live(row) for row in await self._pool.fetch(_SQL["live"], ids)}
        return [found[task] for task in ids if task in found]

    async def scheduled(
        self, queue: str, *, first: tuple[datetime, str, str], before: datetime, limit: int
    ) -> Sequence[TaskRecord]:
        due_at, lane, key = first
        with translated():
            rows = await self._pool.fetch(_SQL["scheduled"], queue, due_at, before, lane, key, limit)
            ids = [row["id"] for row in rows]
            found = {row["id"]: _live(row) for row in await self._pool.fetch(_SQL["live"], ids)}
        return [found[task] for task in ids if task in found]

    async def data(self, tasks: Sequence[str]) -> Mapping[str, bytes]:
        with translated():
            return {row["id"]: bytes(row["data"]) for row in await self._pool.fetch(_SQL["data"], list(tasks))}

    async def ended(self, queue: str, *, after: tuple[datetime, str] | None, limit: int) -> Sequence[TaskRecord]:
        with translated():
            rows = await self._pool.fetch(_SQL["ended_page"], queue, *(after or NEWEST), limit)
        return [_ended(row) for row in rows]

    async def why(self, task: str, *, now: datetime) -> tuple[TaskRecord, tuple[TaskReason, ...]]:
        found = await self.get(task)
        if found.state.terminal:
            return found, ()
        with translated():
            lane = TaskLane(found.queue, found.lane).id
            row = await self._pool.fetchrow(_SQL["head"], lane, COUNTED)
            position = (found.state is TaskState.WAITING, found.due_at, found.key)
            before = await self._pool.fetchval(_SQL["before"], lane, *position, COUNTED)
        if row is None:  # it ended meanwhile
            return await self.get(task), ()
        record = await self._queues.get(found.queue)
        reasons = waiting_reasons(
            record.queue, _head(row), in_flight=record.in_flight, before=before, now=now, task=task
        )
        return found, reasons

    async def lane(self, queue: str, name: str, *, now: datetime) -> LaneRecord:
        lane = TaskLane(queue, name)
        record = await self._queues.get(queue)
        with translated():
            row = await self._pool.fetchrow(_SQL["head"], lane.id, COUNTED)
            if row is None:
                return LaneRecord(queue, name, await self._pool.fetchval(_SQL["partition"], lane.id), None, 0, ())
        head = _head(row)
        reasons = waiting_reasons(record.queue, head, in_flight=record.in_flight, before=0, now=now)
        return LaneRecord(queue, name, row["partition"], head, row["waiting"], reasons)

    async def cancel(self, task: str, reason: str, *, now: datetime) -> TaskRecord:
        return await self._end(task, TaskFact.CANCELLED, TaskState.CANCELLED, reason, now)

    async def drop(self, task: str, reason: str, *, now: datetime) -> TaskRecord:
        return await self._end(task, TaskFact.DROPPED, TaskState.DROPPED, reason, now)

    async def move(self, task: str, due_at: datetime, reason: str, *, now: datetime) -> TaskRecord:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                found = await _locked(connection, task)
                if found.state is TaskState.IN_FLIGHT or found.state.terminal:
                    raise ConflictError(f"task '{task}' is {found.state}; one that waits can be moved")
                await connection.execute(_SQL["move"], task, due_at)
                await _changed(connection, found, "task.moved", reason, now)
                return await _found(connection, task)

    async def _end(self, task: str, fact: TaskFact, state: TaskState, reason: str, now: datetime) -> TaskRecord:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                found = await _locked(connection, task)
                if found.state is state and found.final:
                    return found
                try:
                    advance(found.state, fact)
                except IllegalTransitionError as exc:
                    hint = "; drop it instead" if fact is TaskFact.CANCELLED and not found.state.terminal else ""
                    raise ConflictError(f"task '{task}' is {found.state}{hint}") from exc
                await _announce(connection, found, state, reason, now)
                await connection.execute(_SQL["end"], task, now, state, storable_text(reason))
                await _changed(connection, found, f"task.{state.lower()}", reason, now)
                return await _found(connection, task)


async def _locked(connection: Connection, task: str) -> TaskRecord:
    """The task, with its lane locked if it is live."""
    lane = await connection.fetchval(_SQL["lane_of"], task)
    if lane is not None:
        await connection.fetchrow(_SQL["lock_lane"], lane)
    return await _found(connection, task)


async def _announce(connection: Connection, task: TaskRecord, state: TaskState, reason: str, now: datetime) -> None:
    """Publishes the end of a task, if its queue announces ends."""
    ends = (await stored_queue(connection, task.queue)).queue.policy.ends
    if ends is None:
        return
    rows = await connection.fetch(_SQL["data"], [task.id])
    names = {"task": task.id, "queue": task.queue, "lane": task.lane, "key": task.key}
    token = f"{task.id}.{task.generation}.{task.fired}"
    data, reason = bytes(rows[0]["data"]), storable_text(reason)
    event = end_event(ends, names, token=token, data=data, state=state, reason=reason, at=now)
    await outbox.copy(connection, [OutboxRecord(public_topic(event.fact), event.key, event_codec.encode(event))])


async def _changed(connection: Connection, task: TaskRecord, action: str, reason: str, now: datetime) -> None:
    """Records a command; its lane is checked at once."""
    await connection.execute(_SQL["check_lane"], TaskLane(task.queue, task.lane).id, now)
    await history.record(connection, "task", task.id, action, storable_text(reason), at=now)
    await connection.execute("SELECT pg_notify('tasks', '')")


async def _found(executor: Executor, task: str) -> TaskRecord:
    row = await executor.fetchrow(_SQL["live"], [task])
    if row is not None:
        return _live(row)
    row = await executor.fetchrow(_SQL["ends"], task, 1)
    if row is None:
        raise NotFoundError("task", task)
    return _ended(row)


def _live(row: Any) -> TaskRecord:
    return TaskRecord(
        id=row["id"],
        queue=row["queue"],
        lane=row["lane"],
        key=row["key"],
        state=_state(row),
        due_at=row["due_at"],
        next_at=row["next_at"],
        generation=row["generation"],
        fired=row["fired"],
        failures=row["failures"],
        losses=row["losses"],
        interruptions=row["interruptions"],
        created_at=row["created_at"],
        reason=row["error"],
        options=row["options"],
        bytes=row["bytes"],
        attempts=row["attempts"],
    )


def _ended(row: Any) -> TaskRecord:
    record = row["record"]
    return TaskRecord(
        id=row["id"],
        queue=row["queue"],
        lane=row["lane"],
        key=row["key"],
        state=TaskState(row["state"]),
        due_at=row["due_at"],
        next_at=None,
        generation=record["generation"],
        fired=record["fired"],
        failures=record["failures"],
        losses=record.get("losses", 0),
        interruptions=record["interruptions"],
        created_at=datetime.fromisoformat(record["createdAt"]),
        reason=record["reason"],
        options=record["options"],
        bytes=record["bytes"],
        attempts=record["attempts"],
        ended_at=row["at"],
        final=row["final"],
    )


def _head(row: Any) -> LaneHead:
    return LaneHead(
        task=row["id"],
        key=row["key"],
        state=_state(row),
        next_at=row["next_at"],
        failures=row["failures"],
        losses=row["losses"],
        error=row["error"],
    )


def _state(row: Any) -> TaskState:
    return TaskState.IN_FLIGHT if row["in_flight"] else TaskState(row["state"])
