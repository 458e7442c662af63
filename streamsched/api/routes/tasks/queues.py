"""Queues of tasks: their policies, and the registration of tasks."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from starlette.responses import Response

from streamsched.api.access.definitions import check_destination
from streamsched.api.body import BodyBytes, BodyObject, decode_body, reason_of, split_reason
from streamsched.api.bounds.request_limits import TASKS
from streamsched.api.deps import ClockDep, QueuesDep, ServicesDep, TasksDep
from streamsched.api.paging import After, Limit, moment_cursor, page, read_moment_cursor
from streamsched.api.rendering import json_response
from streamsched.api.routes.tasks.views import REGISTERED, TASK_PAGE, queue_view, task_view
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import DEPLOY_ALL, OPERATE_ALL, VIEW_ALL, Rule, Scope
from streamsched.codec.json.reading import Fields
from streamsched.codec.json.scalar import loads
from streamsched.domain.access.permission import Permission
from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.tasks.queue import MOST_TASKS, HttpTarget, WebhookTarget
from streamsched.domain.webhooks.webhook import is_webhook_queue
from streamsched.wire.queues import NEW_POLICY, POLICY, QUEUE
from streamsched.wire.task_requests import NEW_TASKS, request_from_json

routes = Routes("/v1/queues", "tasks")

LaneQuery = Annotated[str | None, Query(description="Only tasks of this lane.")]
EndedQuery = Annotated[bool, Query(description="Ended tasks and ticks, newest first, instead of live tasks.")]


@routes.get("", "List queues", may=VIEW_ALL, answers=QUEUE.page("queues"))
async def list_queues(queues: QueuesDep, after: After = "", limit: Limit = 100) -> Response:
    """A page, ordered by name. `tasks` and `inFlight` are counted up to 10000; `readyAt` is when the first lane is
    ready.
    """
    found = await queues.page(after=after, limit=limit + 1)
    return json_response(page("queues", found, limit, queue_view, lambda each: each.queue.name))


@routes.get("/{queue}", "Get a queue", may=VIEW_ALL, answers=QUEUE.answer)
async def get_queue(queue: str, queues: QueuesDep) -> Response:
    """The queue with its policy."""
    return json_response(queue_view(await queues.get(queue)))


@routes.put(
    "/{queue}", "Create or change a queue", may=DEPLOY_ALL, body=NEW_POLICY, answers=QUEUE.answer, conflict=True
)
async def set_queue(queue: str, body: BodyObject, services: ServicesDep) -> Response:
    """Sets the policy: `target` (`{"type": "http", "url", "timeout", "headers"}`, `{"type": "publish", "event"}` or
    `{"type": "worker", "timeout", "maxLosses"}`), and optionally `retry` (`{"type": "backoff", "retries", "delay",
    "longest", "jitter"}`, `{"type": "period", "period"}` or `{"type": "constant", "interval", "retries"}`), `grace`,
    `dedupe`, `maxInFlight`, `rate`, `burst`, `identity`, `ends` (name of the event that each end of a task is). A
    member that is absent has its default. 400 when `url` is at an address that STREAMSCHED_OUTGOING_NETWORKS does not
    permit. `reason` (optional) is stored in the history. 409 when `identity` would
    change, or there are 1000 other queues.
    """
    reason, content = split_reason(body)
    policy = POLICY.read(content)
    if isinstance(policy.target, WebhookTarget) is not is_webhook_queue(queue):
        raise InvalidDefinitionError(
            "$.target.type", "is webhook for the queues of webhooks, webhook.…, and only for them"
        )
    if isinstance(policy.target, HttpTarget):
        check_destination(policy.target.url, services.settings.programs.outgoing_networks, "$.target.url")
    return json_response(queue_view(await services.tasks.queues.set(queue, policy, reason, now=services.clock.now())))


@routes.post(
    "/{queue}/tasks",
    "Register tasks",
    may=Rule(Permission.EMIT, Scope.INSTALLATION, emits="{queue}"),
    body=NEW_TASKS,
    answers={202: REGISTERED.whole_list("tasks", "RegisteredTasks")},
    conflict=True,
    limit=TASKS,
)
async def register_tasks(queue: str, body: BodyBytes, tasks: TasksDep, clock: ClockDep) -> Response:
    """Registers one task, an object, or up to 1000, a list of them: all or none. Each has a `key`, and optionally
    `lane` (default: one of its own), `due` or `after` (default: now), `data` (any JSON), `text` or `base64`,
    `contentType`, `recurrence`, `retry` and `onExisting` (`keep_started`, `refuse`, `overwrite`). 202 with `tasks`, in
    the same order: `id`, `generation` and `verdict`: `made`, `replaced`, or, when nothing was stored, `started`,
    `ended` or `exists`. A repeat is safe. 400 when a task is invalid or due longer ago than the queue's grace.
    """
    content = await decode_body(body or b"{}", loads)
    now = clock.now()
    many = content if isinstance(content, list) else [content]
    if len(many) > MOST_TASKS:
        raise InvalidError("$", f"must have at most {MOST_TASKS} tasks but has {len(many)}")
    try:
        requests = [request_from_json(Fields(each, f"$[{index}]"), now) for index, each in enumerate(many)]
        found = await tasks.register(queue, requests, now=now)
    except InvalidError as exc:
        if isinstance(content, list):
            raise
        raise InvalidError(exc.path.replace("$[0]", "$", 1), exc.reason) from exc
    return json_response({"tasks": [REGISTERED.write(each) for each in found]}, status=HTTPStatus.ACCEPTED)


@routes.get("/{queue}/tasks", "List tasks of a queue", may=VIEW_ALL, answers=TASK_PAGE)
async def list_tasks(
    queue: str,
    queues: QueuesDep,
    tasks: TasksDep,
    *,
    lane: LaneQuery = None,
    ended: EndedQuery = False,
    after: After = "",
    limit: Limit = 100,
) -> Response:
    """A page of the tasks that have not ended, by due time. 404 when there is no such queue."""
    await queues.get(queue)
    cursor = read_moment_cursor(after)
    if ended:
        if lane is not None:
            raise InvalidError("lane", "is only for tasks that have not ended")
        found = await tasks.ended_tasks(queue, after=cursor, limit=limit + 1)
        return json_response(page("tasks", found, limit, task_view, lambda each: moment_cursor(each.ended_at, each.id)))  # type: ignore[arg-type]
    found = await tasks.live_tasks(queue, lane=lane, after=cursor, limit=limit + 1)
    return json_response(page("tasks", found, limit, task_view, lambda each: moment_cursor(each.due_at, each.id)))


@routes.order("/{queue}/pause", "Pause a queue", may=OPERATE_ALL, answers=QUEUE.answer)
async def pause(queue: str, body: BodyObject, queues: QueuesDep, clock: ClockDep) -> Response:
    """Tasks are registered, none is started, and those in flight go on. `reason` (optional) is stored in the
    history.
    """
    return json_response(queue_view(await queues.pause(queue, True, reason_of(body), now=clock.now())))


@routes.order("/{queue}/resume", "Resume a queue", may=OPERATE_ALL, answers=QUEUE.answer)
async def resume(queue: str, body: BodyObject, queues: QueuesDep, clock: ClockDep) -> Response:
    """Tasks are started again. `reason` (optional) is stored in the history."""
    return json_response(queue_view(await queues.pause(queue, False, reason_of(body), now=clock.now())))
