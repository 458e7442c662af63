"""Graphs: the nodes of an app's tasks, submitted, explained and cancelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, assert_never

from starlette.responses import Response

from streamsched.api.body import BodyObject
from streamsched.api.bounds.request_limits import LISTS
from streamsched.api.deps import ClockDep, DryRunQuery, GraphsDep, JobsDep
from streamsched.api.paging import Limit
from streamsched.api.rendering import json_response
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import JSON, PLAIN, Routes
from streamsched.api.routing.rules import OPERATE, VIEW
from streamsched.codec.graph.pictures.picture import (
    MOST_BOXES,
    Picture,
    PictureFormat,
    ancestry_picture,
    template_picture,
)
from streamsched.codec.graph.pictures.svg import to_svg
from streamsched.codec.graph.pictures.texts import to_dot, to_mermaid
from streamsched.domain.errors import ConflictError, InvalidError, NotFoundError
from streamsched.domain.graph.ancestry import Ancestry
from streamsched.domain.graph.node import NODE_STATES, NodeState
from streamsched.domain.graph.selection import everything, select_job_ids, span
from streamsched.domain.graph.task import MOST_VALUES, NodeId, TaskTemplate
from streamsched.domain.jobs.job import JobCommand
from streamsched.domain.limits import check_most
from streamsched.domain.names import AppRef
from streamsched.graph.submission import NodeReport, SubmissionPlan
from streamsched.store.graph.nodes import NodeView
from streamsched.wire.graphs import (
    ANCESTRY,
    AWAITING,
    CANCELLATION,
    CANCELLED,
    DRAWN,
    EXPLAINED,
    GRAPH,
    HOLDING,
    LISTED,
    NODE,
    PICTURE,
    PLAN,
    RERUN,
    SUBMISSION,
    SUBMITTED,
    AncestryEdge,
    AwaitingNode,
    CancelledNodes,
    GraphTask,
    GroupOfParents,
    NodeSubmission,
)

routes = Routes("/v1/graphs", "graphs")

#: Most ended nodes and parents that a response lists by name.
_SHOWN = 100


@routes.get("/{namespace}/{app}", "Get a graph", may=VIEW, answers=GRAPH.answer)
async def get_graph(namespace: str, app: str, graphs: GraphsDep) -> Response:
    """The tasks, parents before children, and the number of nodes by task and state. 404 for an app without tasks."""
    ref = AppRef(namespace, app)
    stored, graph = await graphs.graph(ref)
    counts: dict[str, dict[str, int]] = {}
    for (task, state), number in (await graphs.counts(ref)).items():
        counts.setdefault(task, {})[state.value] = number
    tasks = [GraphTask(name=name, definition=graph.task(name), nodes=counts.get(name, {})) for name in graph.order]
    return json_response(GRAPH.answer_of(stored, tasks=tasks))


@routes.get("/{namespace}/{app}/nodes", "List nodes", may=VIEW, answers=LISTED.whole_list("nodes", "NodeList"))
async def list_nodes(
    namespace: str,
    app: str,
    graphs: GraphsDep,
    *,
    task: Annotated[str | None, Query(description="Only nodes of this task.")] = None,
    state: Annotated[NodeState | None, Query(description="Only nodes in this state.")] = None,
    after_task: Annotated[str, Query(description="`task` of the last node of the page before.")] = "",
    after_job_id: Annotated[str, Query(description="`jobId` of the last node of the page before.")] = "",
    limit: Limit = 100,
) -> Response:
    """A page of nodes, by task and job id."""
    after = NodeId(after_task, after_job_id)
    found = await graphs.page(AppRef(namespace, app), task=task, state=state, after=after, limit=limit)
    return json_response({"nodes": [_list_entry(each) for each in found]})


@routes.get("/{namespace}/{app}/nodes/{task}/{job_id:path}", "Get a node", may=VIEW, answers=EXPLAINED.answer)
async def get_node(namespace: str, app: str, task: str, job_id: str, graphs: GraphsDep) -> Response:
    """A node, and of each group of parents those that are missing, with their state: null of one that does not exist.
    `state` is null for a job id that was never asked for. `awaits` says what completes a node that runs nothing: its
    `state` is null until that has arrived.
    """
    return json_response(_report(await graphs.report(AppRef(namespace, app), NodeId(task, job_id))))


@routes.get(
    "/{namespace}/{app}/picture",
    "Draw a graph",
    may=VIEW,
    answers=DRAWN,
    media=(JSON, "image/svg+xml", "text/vnd.graphviz; charset=utf-8", PLAIN),
)
async def draw(
    namespace: str,
    app: str,
    graphs: GraphsDep,
    *,
    picture: Annotated[PictureFormat, Query(alias="format", description="Format of the picture.")] = PictureFormat.SVG,
    task: Annotated[str | None, Query(description="With `job_id`: the task of the node.")] = None,
    job_id: Annotated[str | None, Query(description="Draw this node and its ancestors, not the tasks.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_BOXES, description="Most nodes.")] = 100,
) -> Response:
    """The tasks of a graph with their dependencies, or a node and its ancestors with their states. Dashed arrows belong
    to alternatives.
    """
    ref = AppRef(namespace, app)
    if (task is None) != (job_id is None):
        raise InvalidError("$.job_id", "and task go together: the node whose ancestors are drawn")
    if task is None or job_id is None:
        stored, graph = await graphs.graph(ref)
        return _draw(picture, template_picture(str(stored.app), graph))
    found, states = await graphs.ancestry(ref, NodeId(task, job_id), most=limit)
    if picture is PictureFormat.JSON:
        return json_response(_ancestry(found, states))
    return _draw(picture, ancestry_picture(f"{ref} {task} {job_id}", found, states))


@routes.post(
    "/{namespace}/{app}/rerun",
    "Run nodes again",
    may=OPERATE,
    body=RERUN.body,
    answers={202: PLAN.answer, 200: PLAN.answer},
    conflict=True,
    limit=LISTS,
)
async def rerun(
    namespace: str, app: str, body: BodyObject, graphs: GraphsDep, *, dry_run: DryRunQuery = False
) -> Response:
    """Runs the nodes `jobIds` of `task` again, with what failed above them: 202. What depends on them waits and runs
    again; `downstream` counts it by task and state, as it is before.
    """
    ref = AppRef(namespace, app)
    wanted = RERUN.read(body)
    if not wanted.job_ids:
        raise InvalidError("$.jobIds", "is empty; name the job ids that run again")
    check_most(len(wanted.job_ids), MOST_VALUES, "$.jobIds", "job ids")
    targets = [NodeId(wanted.task, each) for each in wanted.job_ids]
    downstream: dict[str, dict[str, int]] = {}
    for node, state in (await graphs.descendants(ref, targets)).items():
        by_state = downstream.setdefault(node.task, {})
        by_state[state.value] = by_state.get(state.value, 0) + 1
    plan = await graphs.submit(ref, targets, again=True, dry_run=dry_run)
    return _plan_answer(wanted.task, targets, plan, dry_run=dry_run, downstream=downstream)


@routes.post(
    "/{namespace}/{app}/submit",
    "Submit job ids",
    may=OPERATE,
    body=SUBMITTED,
    answers={202: PLAN.answer, 200: PLAN.answer},
    conflict=True,
    limit=LISTS,
)
async def submit(
    namespace: str, app: str, body: BodyObject, graphs: GraphsDep, *, dry_run: DryRunQuery = False
) -> Response:
    """Runs job ids of a task, and before them all ancestors that have not completed: 202. The body has `task`, and
    `jobIds`, or by component `values` (lists), `ranges` (`"20140101..20140131"`) and `all` (a list of components),
    whose combinations are submitted. `again`: those that have ended run again, and what failed above them; what depends
    on them waits again. Idempotent without `again`.
    """
    ref = AppRef(namespace, app)
    wanted = SUBMISSION.read(body)
    _, graph = await graphs.graph(ref)
    targets = [NodeId(wanted.task, each) for each in _job_ids(graph.task(wanted.task), wanted)]
    plan = await graphs.submit(ref, targets, again=wanted.again, dry_run=dry_run)
    return _plan_answer(wanted.task, targets, plan, dry_run=dry_run)


@routes.post(
    "/{namespace}/{app}/cancel",
    "Cancel nodes",
    may=OPERATE,
    body=CANCELLATION.body,
    answers={202: CANCELLED.answer},
    conflict=True,
    limit=LISTS,
)
async def cancel(
    namespace: str, app: str, body: BodyObject, *, graphs: GraphsDep, jobs: JobsDep, clock: ClockDep
) -> Response:
    """Fails the nodes `jobIds` of `task` that wait for parents, and requests the cancellation of the jobs of those that
    are queued: 202 `{"failed", "cancelled", "running", "ended", "unknown"}`. `failed`, `ended` and `unknown` count the
    nodes that waited, that had ended before, and that were never asked for. `running` are jobs that have a run, which
    is stopped by its own route.
    """
    wanted = CANCELLATION.read(body)
    check_most(len(wanted.job_ids), MOST_VALUES, "$.jobIds", "job ids")
    ref, reason = AppRef(namespace, app), wanted.reason
    nodes = await graphs.canonical(ref, [NodeId(wanted.task, each) for each in wanted.job_ids], "$.jobIds")
    before = await graphs.states(ref, nodes)
    found = await graphs.cancel(ref, nodes, reason)
    cancelled: list[str] = []
    running: list[str] = []
    for job in found:
        try:
            await jobs.command(job, JobCommand.CANCEL, reason, now=clock.now())
            cancelled.append(job)
        except (ConflictError, NotFoundError):
            running.append(job)
    made = CancelledNodes(
        failed=sum(state is NodeState.WAITING for state in before.values()),
        cancelled=cancelled,
        running=running,
        ended=sum(state in NODE_STATES.ends for state in before.values()),
        unknown=len(nodes) - len(before),
    )
    return json_response(CANCELLED.write(made), status=HTTPStatus.ACCEPTED)


def _job_ids(task: TaskTemplate, wanted: NodeSubmission) -> Sequence[str]:
    """Raises:
    InvalidError: neither job ids nor values, or both; too many.
    """
    values: dict[str, Sequence[str]] = dict(wanted.values)
    values |= {name: span(text, f"$.ranges.{name}") for name, text in wanted.ranges.items()}
    values |= {name: everything(task, name) for name in wanted.all}
    if bool(wanted.job_ids) == bool(values):
        raise InvalidError("$.jobIds", "give job ids, or values of their components")
    check_most(len(wanted.job_ids), MOST_VALUES, "$.jobIds", "job ids")
    return wanted.job_ids or select_job_ids(task, values)


def _draw(form: PictureFormat, picture: Picture) -> Response:
    match form:
        case PictureFormat.JSON:
            return json_response(PICTURE.write(picture))
        case PictureFormat.DOT:
            return Response(to_dot(picture), media_type="text/vnd.graphviz")
        case PictureFormat.MERMAID:
            return Response(to_mermaid(picture), media_type="text/plain")
        case PictureFormat.SVG:
            return Response(to_svg(picture), media_type="image/svg+xml")
        case _:
            assert_never(form)


def _ancestry(found: Ancestry, states: Mapping[NodeId, NodeState]) -> Mapping[str, Any]:
    index = {node: number for number, node in enumerate(found.nodes)}
    nodes = [AWAITING.answer_of(each, state=states.get(each), awaits=found.awaited.get(each)) for each in found.nodes]
    edges = [AncestryEdge(parent=index[each.parent], child=index[each.child], group=each.group) for each in found.edges]
    return ANCESTRY.answer_of(found, nodes=nodes, edges=edges)


def _plan_answer(
    task: str,
    targets: Sequence[NodeId],
    plan: SubmissionPlan,
    *,
    dry_run: bool,
    downstream: Mapping[str, Mapping[str, int]] | None = None,
) -> Response:
    answer = PLAN.answer_of(
        plan,
        task=task,
        submitted=len(targets),
        downstream=downstream,
        ended=[NODE.answer_of(node, state=plan.ended[node]) for node in list(plan.ended)[:_SHOWN]],
        ended_in_all=len(plan.ended),
        awaited=plan.awaited[:_SHOWN],
        awaited_in_all=len(plan.awaited),
    )
    return json_response(answer, status=HTTPStatus.OK if dry_run else HTTPStatus.ACCEPTED)


def _list_entry(view: NodeView) -> Mapping[str, Any]:
    return LISTED.answer_of(view.node.id, view, state=view.node.state, run_state=view.run_state_if_queued)


def _report(report: NodeReport) -> Mapping[str, Any]:
    groups: list[GroupOfParents] = []
    for group, states in report.groups:
        missing = report.lacks.get(group.group, ())
        lacks = [
            AwaitingNode(task=each.task, job_id=each.job_id, state=states[each], awaits=report.awaited.get(each))
            for each in missing[:_SHOWN]
        ]
        groups.append(GroupOfParents(group=group.name, parents=len(states), missing=len(missing), lacks=lacks))
    roots = [HOLDING.answer_of(node, **_state_members(view)) for node, view in report.roots.items()]
    view, more = report.view, {}
    if view is not None:
        more = {"run_state": view.run_state_if_queued, "round": view.node.round}
        more |= {"created_at": view.created_at, "changed_at": view.changed_at}
    awaits = report.awaited.get(report.node)
    return EXPLAINED.answer_of(
        report.node, report, awaits=awaits, groups=groups, roots=roots, **_state_members(view), **more
    )


def _state_members(view: NodeView | None) -> Mapping[str, Any]:
    if view is None:
        return {"state": None, "job": None, "reason": ""}
    return {"state": view.node.state, "job": view.job, "reason": view.reason}
