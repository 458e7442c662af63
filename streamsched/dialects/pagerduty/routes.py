"""PagerDuty's admin interface, on tasks of queue `scheduler` or of the one that parameter `queue` names; and a batch of
its tasks over HTTP. Errors are `{"errors": [text, …]}`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import wraps
from http import HTTPStatus
from typing import Annotated, Final, ParamSpec

from starlette.responses import Response

from streamsched.api.access.authorise import CallerDep, require
from streamsched.api.body import BodyBytes, decode_body
from streamsched.api.bounds.request_limits import TASKS
from streamsched.api.deps import ClockDep, QueuesDep, TaskPartitionsDep, TasksDep
from streamsched.api.rendering import json_response
from streamsched.api.routing.dialect import HttpDialect
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import ANYBODY, IN_QUERY, OPERATE_ALL, VIEW_ALL, Rule, Scope
from streamsched.codec.json.reading import Fields
from streamsched.codec.json.scalar import parse
from streamsched.dialects.pagerduty import schemas
from streamsched.dialects.pagerduty.codec import task as codec
from streamsched.dialects.pagerduty.codec.task import SCHEDULER, TOO_LATE, read_time
from streamsched.dialects.pagerduty.intake import check_identity, open_pagerduty_queue
from streamsched.dialects.pagerduty.views import task_view
from streamsched.domain.access.permission import Permission
from streamsched.domain.errors import (
    ConflictError,
    DecodeError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    StreamschedError,
)
from streamsched.domain.json_value import member_path
from streamsched.domain.tasks.queue import MOST_TASKS
from streamsched.store.tasks.queues import QueueStore
from streamsched.store.tasks.registry import TaskRegistry

_DIALECT: Final = HttpDialect(name="pagerduty", refusal=(schemas.PROBLEM, lambda text: {"errors": [text]}))
routes = Routes("/api/v1", "PagerDuty", _DIALECT)

#: The longest window of a list, and the most bytes of data in one answer.
_WINDOW: Final = timedelta(hours=8)
_MOST_BYTES: Final = 16 * 1024 * 1024
_DROPPED: Final = "Dropped"

QueueQuery = Annotated[str, Query(description="Queue of the task.")]
KeyQuery = Annotated[str, Query(description="`TaskKey(time,orderingId,uniquenessKey)`.")]
TimeQuery = Annotated[str, Query(description="UTC, as in `2016-02-09T01:41:12.959Z`.")]
OrderingQuery = Annotated[
    str, Query(alias="orderingId", description="Ordering id of the key, where commas in its ids leave this open.")
]
LimitQuery = Annotated[str, Query(description="Most tasks, from 1 to 1000.")]

_P = ParamSpec("_P")


def _answering_errors(route: Callable[_P, Awaitable[Response]]) -> Callable[_P, Awaitable[Response]]:
    """Answers errors as this interface does."""

    @wraps(route)
    async def answer(*arguments: _P.args, **named: _P.kwargs) -> Response:
        try:
            return await route(*arguments, **named)
        except StreamschedError as exc:
            return _refusal(_status(exc), str(exc))

    return answer


@routes.get("/status", "Status (PagerDuty)", may=ANYBODY, answers=schemas.STATUS)
async def status() -> Response:
    """200 while the process answers."""
    return json_response({"status": "OK"})


@routes.get("/task", "Get a task (PagerDuty)", may=VIEW_ALL, answers=schemas.TASK, conflict=True, missing=True)
@_answering_errors
async def get_task(
    queues: QueuesDep,
    tasks: TasksDep,
    partitions: TaskPartitionsDep,
    *,
    key: KeyQuery = "",
    ordering_id: OrderingQuery = "",
    queue: QueueQuery = SCHEDULER,
) -> Response:
    """The task with its attempts. 400 when the key cannot be read, 404 when there is no such task, 409 when its ids
    have commas and it may be that of several tasks. `data` is null when the task has ended.
    """
    task = await _id(queues, tasks, queue, key, ordering_id)
    found = await tasks.get(task)
    data = await tasks.data([task])
    count = (await partitions.get()).layout.partitions
    return json_response({"task": task_view(found, data.get(task), count), "errors": []})


@routes.get("/tasks", "List tasks (PagerDuty)", may=VIEW_ALL, answers=schemas.TASKS, missing=True)
@_answering_errors
async def list_tasks(
    tasks: TasksDep,
    queues: QueuesDep,
    partitions: TaskPartitionsDep,
    *,
    from_: Annotated[str, Query(alias="from", description="Earliest time, included.")] = "",
    to: TimeQuery = "",
    limit: LimitQuery = "",
    ordering_id: Annotated[str, Query(alias="fromOrderingId", description="Start at this ordering id.")] = "",
    uniqueness_key: Annotated[str, Query(alias="fromUniquenessKey", description="Start at this key.")] = "",
    queue: QueueQuery = SCHEDULER,
) -> Response:
    """Tasks that have not ended and are due in a window of at most 8 hours, in the order of their keys, from the given
    key on, which is included. `data` of all has at most 16 MiB, so there may be fewer than `limit`, but at least one.
    """
    missing = [name for name, text in (("from", from_), ("to", to), ("limit", limit)) if not text]
    if missing:
        raise DecodeError("$", f"{' and '.join(missing)} must be given")
    first, before = read_time(from_, "from"), read_time(to, "to")
    if first >= before:
        raise DecodeError("from", "must be before `to`")
    if before - first > _WINDOW:
        raise DecodeError("to", "must be at most 8 hours after `from`")
    if not (limit.isascii() and limit.isdigit() and len(limit) < 9 and 1 <= int(limit) <= MOST_TASKS):
        raise DecodeError("limit", f"must be a number from 1 to {MOST_TASKS}")
    if "\0" in ordering_id or "\0" in uniqueness_key:
        raise DecodeError("fromOrderingId", "must not contain NUL")
    await queues.get(queue)
    start = (first, ordering_id, uniqueness_key)
    found = list(await tasks.scheduled_tasks(queue, first=start, before=before, limit=int(limit)))
    size = 0
    for index, each in enumerate(found):
        size += each.bytes
        if index and size > _MOST_BYTES:
            del found[index:]
            break
    data = await tasks.data([each.id for each in found])
    count = (await partitions.get()).layout.partitions
    return json_response({"tasks": [task_view(each, data.get(each.id), count) for each in found], "errors": []})


@routes.put(
    "/task",
    "Drop a task (PagerDuty)",
    may=OPERATE_ALL,
    body=schemas.DROP,
    answers={204: ""},
    conflict=True,
    missing=True,
)
@_answering_errors
async def drop_task(
    body: BodyBytes,
    queues: QueuesDep,
    tasks: TasksDep,
    clock: ClockDep,
    *,
    key: KeyQuery = "",
    ordering_id: OrderingQuery = "",
    queue: QueueQuery = SCHEDULER,
) -> Response:
    """With `{"task": {"status": "Dropped"}}`: ends the task in any state, so that its lane goes on; other lanes notice
    nothing. 204. 400 for another status, 404 when there is no such task, 409 when it has ended otherwise.
    """
    asked = Fields(parse(body)).object("task").text("status")
    if asked != _DROPPED:
        raise DecodeError("$.task.status", f"must be {_DROPPED}")
    task = await _id(queues, tasks, queue, key, ordering_id)
    await tasks.drop(task, "dropped by PagerDuty's admin interface", now=clock.now())
    return Response(status_code=HTTPStatus.NO_CONTENT)


@routes.post(
    "/tasks",
    "Schedule tasks (PagerDuty)",
    may=Rule(Permission.EMIT, Scope.INSTALLATION, emits=IN_QUERY),
    body=schemas.NEW_TASKS,
    answers={202: schemas.REGISTERED},
    conflict=True,
    missing=True,
    limit=TASKS,
)
@_answering_errors
async def schedule_tasks(
    body: BodyBytes,
    queues: QueuesDep,
    tasks: TasksDep,
    clock: ClockDep,
    caller: CallerDep,
    *,
    queue: QueueQuery = SCHEDULER,
) -> Response:
    """Registers up to 1000 tasks, a list of records as on the topic: all or none. 202 with the `key` of each and
    `verdict`: `made`, `replaced`, or, when nothing was stored, `started` or `ended`. A repeat is safe. 400 when one is
    invalid, or due longer ago than the queue's grace: "Attempting to enqueue too far in the past." Queue `scheduler` is
    created when it is missing. 409 when the queue has another identity than `key_and_due`.
    """
    require(caller.may_emit(None, queue))
    content = await decode_body(body, parse)
    if not isinstance(content, list) or len(content) > MOST_TASKS:
        raise DecodeError("$", f"must be a list of at most {MOST_TASKS} tasks")
    given = [codec.from_json(each, member_path("$", index)) for index, each in enumerate(content)]
    if queue == SCHEDULER:
        await open_pagerduty_queue(queues, queue, clock)
    now = clock.now()
    policy = (await queues.get(queue)).queue.policy
    check_identity(queue, policy)
    for index, each in enumerate(given):
        if policy.grace is not None and codec.is_too_late(each, now, policy.grace):
            raise InvalidError(member_path("$", index), TOO_LATE)
    found = await tasks.register(queue, [each.request() for each in given], now=now)
    answer = [
        {"key": str(task.key), "verdict": each.verdict, "id": each.task}
        for task, each in zip(given, found, strict=True)
    ]
    return json_response({"tasks": answer, "errors": []}, status=HTTPStatus.ACCEPTED)


async def _id(queues: QueueStore, tasks: TaskRegistry, queue: str, text: str, ordering_id: str) -> str:
    """The id of the task with a key in text form; it need not exist.

    Raises:
        DecodeError: the key cannot be read.
        NotFoundError: there is no such queue, or no task in any of several readings.
        ConflictError: it may be the key of several tasks.
    """
    try:
        requests = codec.requests_of(text, ordering_id)
    except InvalidError as exc:
        raise DecodeError("key", f"Unable to parse provided task key: {exc.reason}") from exc
    policy = (await queues.get(queue)).queue.policy
    ids = [policy.id_of(queue, each)[1] for each in requests]
    known = ids if len(ids) == 1 else [each for each in ids if await _exists(tasks, each)]
    match known:
        case [found]:
            return found
        case []:
            raise NotFoundError("task", text)
        case _:
            raise ConflictError(f"{len(known)} tasks have this key, for commas in their ids; give its orderingId")


async def _exists(tasks: TaskRegistry, task: str) -> bool:
    try:
        await tasks.get(task)
    except NotFoundError:
        return False
    return True


def _status(error: StreamschedError) -> HTTPStatus:
    match error:
        case InvalidError():
            return HTTPStatus.BAD_REQUEST
        case ForbiddenError():
            return HTTPStatus.FORBIDDEN
        case NotFoundError():
            return HTTPStatus.NOT_FOUND
        case ConflictError():
            return HTTPStatus.CONFLICT
        case _:
            return HTTPStatus.INTERNAL_SERVER_ERROR


def _refusal(status: HTTPStatus, reason: str) -> Response:
    return json_response({"errors": [reason]}, status=status)
