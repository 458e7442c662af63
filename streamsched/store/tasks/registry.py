"""Tasks for people and programs: registration, lists, commands, and why one waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, LiteralString, NamedTuple

from streamsched.codec import event as event_codec
from streamsched.codec.tasks.event import end_event
from streamsched.domain.errors import ConflictError, IllegalTransitionError, NotFoundError, storable_text
from streamsched.domain.tasks.identity import TaskLane
from streamsched.domain.tasks.task import TASK_STATES, TaskFact, TaskRequest, TaskState
from streamsched.domain.tasks.why import LaneHead, TaskReason, waiting_reasons
from streamsched.log.topics import public_topic
from streamsched.ports.outbox import OutboxRecord
from streamsched.store.catalog import history, outbox
from streamsched.store.connections import NEWEST, Connection, Executor, Pool, translate_errors
from streamsched.store.sql import Select, fetch_value, queries
from streamsched.store.tasks.queues import COUNTED, QueueStore, stored_queue
from streamsched.store.tasks.registration import RegisteredTask, stored_state
from streamsched.store.tasks.registration_batches import RegistrationBatches

_SQL: Final = queries("tasks/registry")
_OLDEST: Final = (datetime.min.replace(tzinfo=UTC), "")


class _LiveRow(NamedTuple):
    id: str
    queue: str
    lane: str
    key: str
    state: str
    due_at: datetime
    next_at: datetime
    generation: int
    fired: int
    failures: int
    losses: int
    interruptions: int
    options: Mapping[str, Any] | None
    bytes: int
    created_at: datetime
    error: str
    attempts: Sequence[Any]
    in_flight: bool


class _EndedRow(NamedTuple):
    at: datetime
    id: str
    queue: str
    lane: str
    key: str
    state: str
    final: bool
    due_at: datetime
    record: Mapping[str, Any]


class _HeadRow(NamedTuple):
    partition: int
    id: str
    key: str
    state: str
    next_at: datetime
    failures: int
    losses: int
    error: str
    in_flight: bool
    waiting: int


class _TaskData(NamedTuple):
    id: str
    data: bytes


_LIVE: Final = Select(_SQL["live"], _LiveRow)
_ENDS: Final = Select(_SQL["ends"], _EndedRow)
_ENDED_PAGE: Final = Select(_SQL["ended_page"], _EndedRow)
_HEAD: Final = Select(_SQL["head"], _HeadRow)
_DATA: Final = Select(_SQL["data"], _TaskData)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """A task, live or ended.

    Attributes:
        next_at: earliest start of its next attempt (UTC); None when it has ended.
        failures: failed attempts of this tick.
        created_at: when it was enqueued (UTC): of a record of a topic the time that its producer gave it.
        losses: deliveries of this tick whose worker was lost; they used up no attempt.
        interruptions: attempts that ended with their owner, or were given back; they used up none either.
        reason: of its end, or the error of the last attempt.
        options: recurrence and own retry policy, as JSON.
        bytes: size of the data.
        attempts: the latest attempts of this tick, oldest first, as JSON.
        ended_at: UTC; None while it is live.
        final: whether no further tick follows; False also while it is live.
    """

    id: str
    queue: str
    lane: str
    key: str
    state: TaskState
    due_at: datetime
    next_at: datetime | None
    generation: int
    fired: int
    failures: int
    losses: int
    interruptions: int
    created_at: datetime
    reason: str
    options: Mapping[str, Any] | None
    bytes: int
    attempts: Sequence[Any]
    ended_at: datetime | None = None
    final: bool = False

    @property
    def recurrence(self) -> Any:
        """As JSON."""
        return (self.options or {}).get("recurrence")

    @property
    def retry(self) -> Any:
        """Its own policy, as JSON."""
        return (self.options or {}).get("retry")


@dataclass(frozen=True, slots=True)
class LaneRecord:
    """A lane with its head; None when it has no task. `waiting`: its tasks, at most `COUNTED`."""

    queue: str
    name: str
    partition: int
    head: LaneHead | None
    waiting: int
    reasons: tuple[TaskReason, ...]


class TaskRegistry:
    """All methods raise `UnavailableError` when PostgreSQL is unavailable."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._queues = QueueStore(pool)
        self._registrations = RegistrationBatches(pool)

    async def register(self, queue: str, requests: Sequence[TaskRequest], *, now: datetime) -> Sequence[RegisteredTask]:
        """Stores tasks, all or none. Of several of the same identity the last one counts. Idempotent.

        Raises:
            NotFoundError: there is no such queue.
            InvalidError: a task is invalid or too far in the past; path `$[index]…`. There are more than `MOST_TASKS`.
        """
        return await self._registrations.register(queue, requests, now)

    async def get(self, task: str) -> TaskRecord:
        """The live task, else its newest end.

        Raises:
            NotFoundError: neither exists.
        """
        with translate_errors():
            return await _read_task(self._pool, task)

    async def ends(self, task: str, *, limit: int) -> Sequence[TaskRecord]:
        """The ends of its ticks and of earlier registrations, newest first."""
        with translate_errors():
            return [_ended_task(row) for row in await _ENDS.fetch(self._pool, task, limit)]

    async def live_tasks(
        self, queue: str, *, lane: str | None, after: tuple[datetime, str] | None, limit: int
    ) -> Sequence[TaskRecord]:
        """Tasks of a queue, or of a lane, that have not ended, by due time and id, after those of a task."""
        asked, scope = ("page", queue) if lane is None else ("lane_page", TaskLane(queue, lane).id)
        with translate_errors():
            return await self._read_live(_SQL[asked], scope, *(after or _OLDEST), limit)

    async def scheduled_tasks(
        self, queue: str, *, first: tuple[datetime, str, str], before: datetime, limit: int
    ) -> Sequence[TaskRecord]:
        """Tasks of a queue that have not ended and are due before `before`, in the order of due time, lane and key,
        from `first` on.
        """
        due_at, lane, key = first
        with translate_errors():
            return await self._read_live(_SQL["scheduled"], queue, due_at, before, lane, key, limit)

    async def _read_live(self, query: LiteralString, *args: object) -> Sequence[TaskRecord]:
        """The tasks whose ids the query gives, in its order; without those that end meanwhile."""
        ids = [row["id"] for row in await self._pool.fetch(query, *args)]
        found = {row.id: _live_task(row) for row in await _LIVE.fetch(self._pool, ids)}
        return [found[task] for task in ids if task in found]

    async def data(self, tasks: Sequence[str]) -> Mapping[str, bytes]:
        """The data of those of the tasks that have not ended."""
        with translate_errors():
            return dict(await _DATA.fetch(self._pool, list(tasks)))

    async def ended_tasks(self, queue: str, *, after: tuple[datetime, str] | None, limit: int) -> Sequence[TaskRecord]:
        """Ended tasks and ticks of a queue, newest first, after the end of a task."""
        with translate_errors():
            return [_ended_task(row) for row in await _ENDED_PAGE.fetch(self._pool, queue, *(after or NEWEST), limit)]

    async def explain(self, task: str, *, now: datetime) -> tuple[TaskRecord, tuple[TaskReason, ...]]:
        """A task with the reasons why it is not started; no reasons when it has ended.

        Raises:
            NotFoundError: there is no such task.
        """
        found = await self.get(task)
        if found.state.is_terminal:
            return found, ()
        with translate_errors():
            lane = TaskLane(found.queue, found.lane).id
            row = await _HEAD.fetchrow(self._pool, lane, COUNTED)
            position = (found.state is TaskState.WAITING, found.due_at, found.key)
            before = await fetch_value(self._pool, _SQL["before"], int, lane, *position, COUNTED)
        if row is None:  # it ended meanwhile
            return await self.get(task), ()
        record = await self._queues.get(found.queue)
        reasons = waiting_reasons(
            record.queue, _head(row), in_flight=record.in_flight, before=before, now=now, task=task
        )
        return found, reasons

    async def lane(self, queue: str, name: str, *, now: datetime) -> LaneRecord:
        """A lane and why it waits.

        Raises:
            NotFoundError: there is no such queue.
        """
        lane = TaskLane(queue, name)
        record = await self._queues.get(queue)
        with translate_errors():
            row = await _HEAD.fetchrow(self._pool, lane.id, COUNTED)
            if row is None:
                partition = await fetch_value(self._pool, _SQL["partition"], int, lane.id)
                return LaneRecord(queue, name, partition, None, 0, ())
        head = _head(row)
        reasons = waiting_reasons(record.queue, head, in_flight=record.in_flight, before=0, now=now)
        return LaneRecord(queue, name, row.partition, head, row.waiting, reasons)

    async def cancel(self, task: str, reason: str, *, now: datetime) -> TaskRecord:
        """Ends a task that was not started.

        Raises:
            NotFoundError: there is no such task.
            ConflictError: it was started, or has ended otherwise.
        """
        return await self._end(task, TaskFact.CANCELLED, TaskState.CANCELLED, reason, now)

    async def drop(self, task: str, reason: str, *, now: datetime) -> TaskRecord:
        """Ends a task in any state, also a stuck one. Its lane goes on; when it is in flight, after its delivery has
        been stopped. Idempotent.

        Raises:
            NotFoundError: there is no such task.
            ConflictError: it has ended otherwise.
        """
        return await self._end(task, TaskFact.DROPPED, TaskState.DROPPED, reason, now)

    async def move(self, task: str, due_at: datetime, reason: str, *, now: datetime) -> TaskRecord:
        """Gives a task another due time, and so another place in its lane; one that waits for its retry keeps its place
        and is tried again then. Its further ticks do not move.

        Raises:
            NotFoundError: there is no such task.
            ConflictError: it is in flight, or has ended.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                found = await _lock_task(connection, task)
                if found.state is TaskState.IN_FLIGHT or found.state.is_terminal:
                    raise ConflictError(f"task '{task}' is {found.state}; one that waits can be moved")
                await connection.execute(_SQL["move"], task, due_at)
                await _record_command(connection, found, "task.moved", reason, now)
                return await _read_task(connection, task)

    async def _end(self, task: str, fact: TaskFact, state: TaskState, reason: str, now: datetime) -> TaskRecord:
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                found = await _lock_task(connection, task)
                if found.state is state and found.final:
                    return found
                try:
                    TASK_STATES.advance(found.state, fact)
                except IllegalTransitionError as exc:
                    hint = "; drop it instead" if fact is TaskFact.CANCELLED and not found.state.is_terminal else ""
                    raise ConflictError(f"task '{task}' is {found.state}{hint}") from exc
                await _announce(connection, found, state, reason, now)
                await connection.execute(_SQL["end"], task, now, state, storable_text(reason))
                await _record_command(connection, found, f"task.{state.lower()}", reason, now)
                return await _read_task(connection, task)


async def _lock_task(connection: Connection, task: str) -> TaskRecord:
    """The task, with its lane locked if it is live."""
    lane = await connection.fetchval(_SQL["lane_of"], task)
    if lane is not None:
        await connection.execute(_SQL["lock_lane"], lane)
    return await _read_task(connection, task)


async def _announce(connection: Connection, task: TaskRecord, state: TaskState, reason: str, now: datetime) -> None:
    """Publishes the end of a task, if its queue announces ends."""
    ends = (await stored_queue(connection, task.queue)).queue.policy.ends
    if ends is None:
        return
    data = (await _DATA.fetch_one(connection, [task.id])).data
    names = {"task": task.id, "queue": task.queue, "lane": task.lane, "key": task.key}
    token = f"{task.id}.{task.generation}.{task.fired}"
    reason = storable_text(reason)
    event = end_event(ends, names, token=token, data=data, state=state, reason=reason, at=now)
    await outbox.copy(connection, [OutboxRecord(public_topic(event.fact), event.key, event_codec.encode(event))])


async def _record_command(connection: Connection, task: TaskRecord, action: str, reason: str, now: datetime) -> None:
    """Records a command; its lane is checked at once."""
    await connection.execute(_SQL["check_lane"], TaskLane(task.queue, task.lane).id, now)
    await history.record(connection, "task", task.id, action, storable_text(reason), at=now)
    await connection.execute("SELECT pg_notify('tasks', '')")


async def _read_task(executor: Executor, task: str) -> TaskRecord:
    """Live, or its newest end."""
    live = await _LIVE.fetchrow(executor, [task])
    if live is not None:
        return _live_task(live)
    ended = await _ENDS.fetchrow(executor, task, 1)
    if ended is None:
        raise NotFoundError("task", task)
    return _ended_task(ended)


def _live_task(row: _LiveRow) -> TaskRecord:
    fields = row._asdict()
    state = stored_state(fields.pop("state"), in_flight=fields.pop("in_flight"))
    return TaskRecord(state=state, reason=fields.pop("error"), **fields)


def _ended_task(row: _EndedRow) -> TaskRecord:
    record = row.record
    return TaskRecord(
        id=row.id,
        queue=row.queue,
        lane=row.lane,
        key=row.key,
        state=TaskState(row.state),
        due_at=row.due_at,
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
        ended_at=row.at,
        final=row.final,
    )


def _head(row: _HeadRow) -> LaneHead:
    return LaneHead(
        task=row.id,
        key=row.key,
        state=stored_state(row.state, in_flight=row.in_flight),
        next_at=row.next_at,
        failures=row.failures,
        losses=row.losses,
        error=row.error,
    )
