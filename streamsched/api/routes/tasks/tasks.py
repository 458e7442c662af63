"""Single tasks: their state, why they wait, and commands."""

from __future__ import annotations

from starlette.responses import Response

from streamsched.api.body import BodyObject, reason_of
from streamsched.api.deps import ClockDep, TasksDep, TaskStreamsDep
from streamsched.api.rendering import json_response
from streamsched.api.routes.tasks.views import EXPLAINED_TASK, REASON, TASK, TASK_WITH_ENDS, task_view
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import NOTHING, OPERATE_ALL, VIEW_ALL, Rule, Scope
from streamsched.domain.access.permission import Permission
from streamsched.domain.errors import InvalidError
from streamsched.domain.limits import add_duration, check_instant
from streamsched.wire.task_requests import DUE, NEW_DUE, OWNER

routes = Routes("/v1/tasks", "tasks")

#: Ends that are shown with a task.
_ENDS = 20


@routes.get(
    "/owners",
    "List the processes that deliver tasks",
    may=Rule(Permission.EMIT, Scope.INSTALLATION, emits=NOTHING),
    answers=OWNER.whole_list("owners", "TaskOwners"),
)
async def list_owners(streams: TaskStreamsDep) -> Response:
    """`url` of each process that gives tasks to workers. A worker opens a stream to each: every lane is delivered by
    one of them.
    """
    found = await streams.all()
    return json_response({"owners": [OWNER.answer_of(id=owner, url=url) for owner, url in found.items()]})


@routes.get("/{task}", "Get a task", may=VIEW_ALL, answers=TASK_WITH_ENDS)
async def get_task(task: str, tasks: TasksDep) -> Response:
    """The task, or its end, with its latest attempts; `ends`: the ends of its ticks and of earlier registrations,
    newest first, at most 20.
    """
    found = await tasks.get(task)
    ends = await tasks.ends(task, limit=_ENDS)
    return json_response({**task_view(found), "ends": [task_view(each) for each in ends]})


@routes.get("/{task}/why", "Explain why a task waits", may=VIEW_ALL, answers=EXPLAINED_TASK)
async def get_why(task: str, tasks: TasksDep, clock: ClockDep) -> Response:
    """The task, and the reasons why it is not started, each with the earliest time it can change; none when it has
    ended.
    """
    found, reasons = await tasks.explain(task, now=clock.now())
    return json_response({**task_view(found), "reasons": [REASON.write(each) for each in reasons]})


@routes.order("/{task}/cancel", "Cancel a task", may=OPERATE_ALL, answers=TASK.answer)
async def cancel(task: str, body: BodyObject, tasks: TasksDep, clock: ClockDep) -> Response:
    """Ends a task that was not started; 409 otherwise. `reason` (optional) is stored in the history."""
    return json_response(task_view(await tasks.cancel(task, reason_of(body), now=clock.now())))


@routes.order("/{task}/drop", "Drop a task", may=OPERATE_ALL, answers=TASK.answer)
async def drop(task: str, body: BodyObject, tasks: TasksDep, clock: ClockDep) -> Response:
    """Ends a task in any state, so that its lane goes on; a delivery on its way is stopped within seconds. 409 when it
    has ended otherwise. `reason` (optional) is stored in the history.
    """
    return json_response(task_view(await tasks.drop(task, reason_of(body), now=clock.now())))


@routes.order("/{task}/run", "Make a task due now", may=OPERATE_ALL, answers=TASK.answer)
async def run(task: str, body: BodyObject, tasks: TasksDep, clock: ClockDep) -> Response:
    """The task is due now, or tried again now; it still waits for those before it in its lane. 409 when it is in flight
    or has ended. `reason` (optional) is stored in the history.
    """
    now = clock.now()
    return json_response(task_view(await tasks.move(task, now, reason_of(body), now=now)))


@routes.post(
    "/{task}/move", "Move a task to another time", may=OPERATE_ALL, body=NEW_DUE, answers=TASK.answer, conflict=True
)
async def move(task: str, body: BodyObject, tasks: TasksDep, clock: ClockDep) -> Response:
    """The task is due at `due`, or `after` a duration from now. 409 when it is in flight or has ended. `reason`
    (optional) is stored in the history.
    """
    wanted, now = DUE.read(body), clock.now()
    if (wanted.due is None) == (wanted.after is None):
        raise InvalidError("$.due", "or `after` is required, and they exclude each other")
    due_at = add_duration(now, wanted.after) if wanted.after is not None else wanted.due
    assert due_at is not None
    check_instant(due_at, "$.due")
    return json_response(task_view(await tasks.move(task, due_at, wanted.reason, now=now)))
