"""Registers tasks in one transaction: see `TaskRegistry.register`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import orjson

from streamsched.codec.json.reading import prefix_errors
from streamsched.domain.errors import InvalidError
from streamsched.domain.limits import add_duration
from streamsched.domain.tasks.identity import TaskLane
from streamsched.domain.tasks.queue import MOST_TASKS, QueuePolicy, WebhookTarget
from streamsched.domain.tasks.registration import KnownTask, RegistrationVerdict, first_due_at, judge_registration
from streamsched.domain.tasks.task import TaskRequest, TaskState
from streamsched.store.connections import Connection
from streamsched.store.sql import Select, queries
from streamsched.store.tasks.queues import stored_queue
from streamsched.wire.task_requests import options_to_json

_SQL: Final = queries("tasks/registration")
#: Owners are woken for tasks that are due within this time; they find the others by themselves.
SOON: Final = timedelta(seconds=10)


class _KnownRow(NamedTuple):
    id: str
    state: str | None
    generation: int | None
    in_flight: bool
    ended_at: datetime | None


class _StoredRow(NamedTuple):
    id: str
    generation: int


_KNOWN: Final = Select(_SQL["known"], _KnownRow)
_STORE: Final = Select(_SQL["store"], _StoredRow)


@dataclass(frozen=True, slots=True)
class RegisteredTask:
    """What became of one registration. `generation`: of the task that is live now; None: it has ended."""

    task: str
    verdict: RegistrationVerdict
    generation: int | None


@dataclass(frozen=True, slots=True)
class CheckedRegistration:
    """A registration with what follows from it alone."""

    request: TaskRequest
    lane: TaskLane
    id: str
    due_at: datetime


def check_registrations(
    policy: QueuePolicy,
    queue: str,
    requests: Sequence[TaskRequest],
    now: datetime,
    *,
    most: int = MOST_TASKS,
    changes: bool = False,
) -> list[CheckedRegistration]:
    """The registrations with their ids and due times. `changes`: they are those of a webhook, whose queue takes no
    others.

    Raises:
        InvalidError, InvalidDefinitionError: with the path `$[index]…` of the first that is refused.
    """
    if isinstance(policy.target, WebhookTarget) and not changes:
        raise InvalidError("$.queue", f"'{queue}' is the queue of a webhook, which takes only changes of jobs and runs")
    if len(requests) > most:
        raise InvalidError("$", f"must have at most {most} tasks but has {len(requests)}")
    incoming: list[CheckedRegistration] = []
    for index, request in enumerate(requests):
        with prefix_errors(f"$[{index}]"):
            lane, task = policy.id_of(queue, request)
            incoming.append(CheckedRegistration(request, lane, task, first_due_at(policy, request, now)))
    return incoming


async def register(
    connection: Connection, policy: QueuePolicy, incoming: Sequence[CheckedRegistration], now: datetime
) -> list[RegisteredTask]:
    """Stores registrations within the caller's transaction."""
    if not incoming:
        return []
    await _lock_lanes(connection, incoming)
    known = await _read_known(connection, incoming, add_duration(now, -policy.dedupe))
    verdicts: list[RegistrationVerdict] = []
    stored: dict[str, CheckedRegistration] = {}
    states = {task: each for task, (each, _) in known.items()}
    for each in incoming:
        verdict = judge_registration(policy, each.request, states[each.id], now)
        verdicts.append(verdict)
        if verdict.is_stored:
            stored[each.id] = each
            states[each.id] = KnownTask(TaskState.WAITING)
    generations = await _store(connection, list(stored.values()), now)
    if any(each.due_at <= add_duration(now, SOON) for each in stored.values()):
        await connection.execute(_SQL["notify"])
    return [
        RegisteredTask(each.id, verdict, generations.get(each.id, known[each.id][1]))
        for each, verdict in zip(incoming, verdicts, strict=True)
    ]


async def enqueue(
    connection: Connection, tasks: Sequence[tuple[str, TaskRequest]], now: datetime, *, changes: bool = False
) -> None:
    """Stores tasks of any queues within the caller's transaction. All lanes are locked first, in the order of ids.
    `changes`: they are those of webhooks.

    Raises:
        NotFoundError: there is no such queue.
        InvalidError: a task cannot be stored.
    """
    by_queue: dict[str, list[TaskRequest]] = {}
    for queue, request in tasks:
        by_queue.setdefault(queue, []).append(request)
    found: list[tuple[QueuePolicy, list[CheckedRegistration]]] = []
    for queue, requests in by_queue.items():
        policy = (await stored_queue(connection, queue)).queue.policy
        found.append((policy, check_registrations(policy, queue, requests, now, most=len(requests), changes=changes)))
    await _lock_lanes(connection, [each for _, incoming in found for each in incoming])
    for policy, incoming in found:
        await register(connection, policy, incoming, now)


async def _lock_lanes(connection: Connection, incoming: Sequence[CheckedRegistration]) -> None:
    lanes: dict[str, tuple[TaskLane, datetime]] = {}
    for each in incoming:
        lane_id = each.lane.id
        first = lanes.get(lane_id)
        lanes[lane_id] = (each.lane, each.due_at if first is None else min(first[1], each.due_at))
    await connection.execute(
        _SQL["lock_lanes"],
        list(lanes),
        [lane.queue for lane, _ in lanes.values()],
        [lane.name for lane, _ in lanes.values()],
        [ready_at for _, ready_at in lanes.values()],
    )


async def _read_known(
    connection: Connection, incoming: Sequence[CheckedRegistration], since: datetime
) -> Mapping[str, tuple[KnownTask, int | None]]:
    """What is known of each id, with the generation of the live task."""
    ids = list(dict.fromkeys(each.id for each in incoming))
    rows = await _KNOWN.fetch(connection, ids, [since] * len(ids))
    return {
        row.id: (
            KnownTask(None if row.state is None else stored_state(row.state, in_flight=row.in_flight), row.ended_at),
            row.generation,
        )
        for row in rows
    }


def stored_state(state: str, *, in_flight: bool) -> TaskState:
    """Of a live task: whether it is in flight is said by its lane."""
    return TaskState.IN_FLIGHT if in_flight else TaskState(state)


async def _store(connection: Connection, stored: Sequence[CheckedRegistration], now: datetime) -> Mapping[str, int]:
    if not stored:
        return {}
    options = [options_to_json(each.request.recurrence, each.request.retry) for each in stored]
    rows = await _STORE.fetch(
        connection,
        [each.id for each in stored],
        [each.lane.id for each in stored],
        [each.lane.queue for each in stored],
        [each.lane.name for each in stored],
        [each.request.key for each in stored],
        [each.due_at for each in stored],
        [None if each is None else orjson.dumps(each).decode() for each in options],
        [each.request.data for each in stored],
        [each.request.content_type for each in stored],
        [each.request.enqueued_at or now for each in stored],
    )
    return dict(rows)
