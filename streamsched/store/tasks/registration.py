"""Registers tasks in one transaction: see `ports.tasks.registry.TaskRegistry.register`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import orjson

from streamsched.codec.json.reading import anchored
from streamsched.codec.tasks.task import options_to_json
from streamsched.domain.errors import InvalidError
from streamsched.domain.limits import later
from streamsched.domain.tasks.identity import TaskLane
from streamsched.domain.tasks.queue import MOST_TASKS, QueuePolicy, WebhookTarget
from streamsched.domain.tasks.registration import KnownTask, RegistrationVerdict, first_due, registered
from streamsched.domain.tasks.task import TaskRequest, TaskState
from streamsched.ports.tasks.registry import RegisteredTask
from streamsched.store.connections import Connection
from streamsched.store.sql import queries
from streamsched.store.tasks.queues import stored_queue

_SQL: Final = queries("tasks/registration")
#: Owners are woken for tasks that are due within this time; they find the others by themselves.
SOON: Final = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class _Incoming:
    """A registration with what follows from it alone."""

    request: TaskRequest
    lane: TaskLane
    id: str
    due_at: datetime


def checked(
    policy: QueuePolicy,
    queue: str,
    requests: Sequence[TaskRequest],
    now: datetime,
    *,
    most: int = MOST_TASKS,
    changes: bool = False,
) -> list[_Incoming]:
    """The registrations with their ids and due times. `changes`: they are those of a webhook, whose queue takes no
    others.

    Raises:
        InvalidError, InvalidDefinitionError: with the path `$[index]…` of the first that is refused.
    """
    if isinstance(policy.target, WebhookTarget) and not changes:
        raise InvalidError("$.queue", f"'{queue}' is the queue of a webhook, which takes only changes of jobs and runs")
    if len(requests) > most:
        raise InvalidError("$", f"must have at most {most} tasks but has {len(requests)}")
    incoming: list[_Incoming] = []
    for index, request in enumerate(requests):
        with anchored(f"$[{index}]"):
            lane, task = policy.id_of(queue, request)
            incoming.append(_Incoming(request, lane, task, first_due(policy, request, now)))
    return incoming


async def register(
    connection: Connection, policy: QueuePolicy, incoming: Sequence[_Incoming], now: datetime
) -> list[RegisteredTask]:
    """Stores registrations within the caller's transaction."""
    if not incoming:
        return []
    await _lock_lanes(connection, incoming)
    known = await _known(connection, incoming, later(now, -policy.dedupe))
    verdicts: list[RegistrationVerdict] = []
    stored: dict[str, _Incoming] = {}
    states = {task: each for task, (each, _) in known.items()}
    for each in incoming:
        verdict = registered(policy, each.request, states[each.id], now)
        verdicts.append(verdict)
        if verdict.stored:
            stored[each.id] = each
            states[each.id] = KnownTask(TaskState.WAITING)
    generations = await _store(connection, list(stored.values()), now)
    if any(each.due_at <= later(now, SOON) for each in stored.values()):
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
    found: list[tuple[QueuePolicy, list[_Incoming]]] = []
    for queue, requests in by_queue.items():
        policy = (await stored_queue(connection, queue)).queue.policy
        found.append((policy, checked(policy, queue, requests, now, most=len(requests), changes=changes)))
    await _lock_lanes(connection, [each for _, incoming in found for each in incoming])
    for policy, incoming in found:
        await register(connection, policy, incoming, now)


async def _lock_lanes(connection: Connection, incoming: Sequence[_Incoming]) -> None:
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


async def _known(
    connection: Connection, incoming: Sequence[_Incoming], since: datetime
) -> Mapping[str, tuple[KnownTask, int | None]]:
    """What is known of each id, with the generation of the live task."""
    ids = list(dict.fromkeys(each.id for each in incoming))
    rows = await connection.fetch(_SQL["known"], ids, [since] * len(ids))
    return {row["id"]: (KnownTask(_state(row), row["ended_at"]), row["generation"]) for row in rows}


def _state(row: Any) -> TaskState | None:
    if row["in_flight"]:
        return TaskState.IN_FLIGHT
    return None if row["state"] is None else TaskState(row["state"])


async def _store(connection: Connection, stored: Sequence[_Incoming], now: datetime) -> Mapping[str, int]:
    if not stored:
        return {}
    options = [options_to_json(each.request.recurrence, each.request.retry) for each in stored]
    rows = await connection.fetch(
        _SQL["store"],
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
    return {row["id"]: row["generation"] for row in rows}
