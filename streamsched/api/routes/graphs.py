"""Graphs: the nodes of an app's tasks, submitted, explained and cancelled."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any, assert_never

from starlette.responses import Response

from streamsched.api.body import BodyObject
from streamsched.api.bounds.request_limits import LISTS
from streamsched.api.deps import ClockDep, DryRunQuery, GraphsDep, JobsDep
from streamsched.api.paging import Limit
from streamsched.api.rendering import rendered
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
from streamsched.codec.graph.task import task_to_json
from streamsched.codec.json.reading import Fields
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

routes = Routes("/v1/graphs", "graphs")

#: Most ended nodes and parents that a response lists by name.
_SHOWN = 100


@routes.get("/{namespace}/{app}", "Get a graph", may=VIEW, answers="Graph")
async def get_graph(namespace: str, app: str, graphs: GraphsDep) -> Response:
    """The tasks, parents before children, and the number of nodes by task and state. 404 for an app without tasks."""
    ref = AppRef(namespace, app)
    stored, graph = await graphs.graph(ref)
    counts: dict[str, dict[str, int]] = {}
    for (task, state), number in (await graphs.counts(ref)).items():
        counts.setdefault(task, {})[state.value] = number
    tasks = [{"name": name, **task_to_json(graph.task(name)), "nodes": counts.get(name, {})} for name in graph.order]
    return rendered({"app": str(ref), "generation": stored.generation, "tasks": tasks})


@routes.get("/{namespace}/{app}/nodes", "List nodes", may=VIEW, answers="NodeList")
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
    return rendered({"nodes": [_node(each) for each in found]})


@routes.get("/{namespace}/{app}/nodes/{task}/{job_id:path}", "Get a node", may=VIEW, answers="Node")
async def get_node(namespace: str, app: str, task: str, job_id: str, graphs: GraphsDep) -> Response:
    """A node, and of each group of parents those that are missing, with their state: null of one that does not exist.
    `state` is null for a job id that was never asked for. `awaits` says what completes a node that runs nothing: its
    `state` is null until that has arrived.
    """
    return rendered(_report(await graphs.report(AppRef(namespace, app), NodeId(task, job_id))))


@routes.get(
    "/{namespace}/{app}/picture",
    "Draw a graph",
    may=VIEW,
    answers="Picture",
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
        return _drawn(picture, template_picture(str(stored.app), graph))
    found, states = await graphs.ancestry(ref, NodeId(task, job_id), most=limit)
    if picture is PictureFormat.JSON:
        return rendered(_ancestry(found, states))
    return _drawn(picture, ancestry_picture(f"{ref} {task} {job_id}", found, states))


@routes.post(
    "/{namespace}/{app}/rerun",
    "Run nodes again",
    may=OPERATE,
    body="NodeRerun",
    answers={202: "NodePlan", 200: "NodePlan"},
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
    fields = Fields(body)
    name, job_ids = fields.text("task"), fields.text_list("jobIds")
    fields.check_all_read()
    if not job_ids:
        raise InvalidError("$.jobIds", "is empty; name the job ids that run again")
    check_most(len(job_ids), MOST_VALUES, "$.jobIds", "job ids")
    targets = [NodeId(name, each) for each in job_ids]
    downstream: dict[str, dict[str, int]] = {}
    for node, state in (await graphs.descendants(ref, targets)).items():
        by_state = downstream.setdefault(node.task, {})
        by_state[state.value] = by_state.get(state.value, 0) + 1
    plan = await graphs.submit(ref, targets, again=True, dry_run=dry_run)
    status = HTTPStatus.OK if dry_run else HTTPStatus.ACCEPTED
    return rendered({"task": name, "submitted": len(targets), "downstream": downstream, **_plan(plan)}, status=status)


@routes.post(
    "/{namespace}/{app}/submit",
    "Submit job ids",
    may=OPERATE,
    body="NodeSubmission",
    answers={202: "NodePlan", 200: "NodePlan"},
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
    fields = Fields(body)
    name, again = fields.text("task"), fields.optional_boolean("again") or False
    _, graph = await graphs.graph(ref)
    job_ids = _job_ids(graph.task(name), fields)
    fields.check_all_read()
    targets = [NodeId(name, each) for each in job_ids]
    plan = await graphs.submit(ref, targets, again=again, dry_run=dry_run)
    status = HTTPStatus.OK if dry_run else HTTPStatus.ACCEPTED
    return rendered({"task": name, "submitted": len(targets), **_plan(plan)}, status=status)


@routes.post(
    "/{namespace}/{app}/cancel",
    "Cancel nodes",
    may=OPERATE,
    body="NodeCancellation",
    answers={202: "CancelledNodes"},
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
    fields = Fields(body)
    name, job_ids = fields.text("task"), fields.text_list("jobIds")
    reason = fields.optional_text("reason") or ""
    fields.check_all_read()
    check_most(len(job_ids), MOST_VALUES, "$.jobIds", "job ids")
    ref = AppRef(namespace, app)
    nodes = await graphs.canonical(ref, [NodeId(name, each) for each in job_ids], "$.jobIds")
    before = await graphs.states(ref, nodes)
    found = await graphs.cancel(ref, nodes, reason)
    cancelled, running = [], []
    for job in found:
        try:
            await jobs.command(job, JobCommand.CANCEL, reason, now=clock.now())
            cancelled.append(job)
        except (ConflictError, NotFoundError):
            running.append(job)
    waited = sum(state is NodeState.WAITING for state in before.values())
    ended = sum(state in NODE_STATES.ends for state in before.values())
    counts = {"failed": waited, "ended": ended, "unknown": len(nodes) - len(before)}
    return rendered({"cancelled": cancelled, "running": running, **counts}, status=HTTPStatus.ACCEPTED)


def _job_ids(task: TaskTemplate, fields: Fields) -> tuple[str, ...]:
    """Raises:
    InvalidError: neither job ids nor values, or both; too many.
    """
    listed = fields.text_list("jobIds")
    values: dict[str, tuple[str, ...]] = {}
    if (found := fields.optional_object("values")) is not None:
        values |= {name: found.text_list(name) for name in found.names()}
    values |= {name: span(text, f"$.ranges.{name}") for name, text in fields.texts("ranges").items()}
    values |= {name: everything(task, name) for name in fields.text_list("all")}
    if bool(listed) == bool(values):
        raise InvalidError("$.jobIds", "give job ids, or values of their components")
    check_most(len(listed), MOST_VALUES, "$.jobIds", "job ids")
    return listed or select_job_ids(task, values)


def _drawn(form: PictureFormat, picture: Picture) -> Response:
    match form:
        case PictureFormat.JSON:
            boxes = [{"title": box.title, "detail": box.detail} for box in picture.boxes]
            arrows = [
                {"parent": each.parent, "child": each.child, "groups": each.label, "alternative": each.dashed}
                for each in picture.arrows
            ]
            return rendered({"title": picture.title, "nodes": boxes, "edges": arrows, "note": picture.note})
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
    return {
        "nodes": [
            {
                "task": each.task,
                "jobId": each.job_id,
                "state": states.get(each),
                "awaits": found.awaited.get(each),
            }
            for each in found.nodes
        ],
        "edges": [
            {"parent": index[each.parent], "child": index[each.child], "group": each.group} for each in found.edges
        ],
        "hidden": found.hidden,
    }


def _plan(plan: SubmissionPlan) -> Mapping[str, Any]:
    ended = [{"task": node.task, "jobId": node.job_id, "state": state} for node, state in plan.ended.items()]
    return {
        "created": dict(plan.created),
        "reset": dict(plan.reset),
        "joined": plan.joined,
        "skipped": plan.skipped,
        "ended": ended[:_SHOWN],
        "endedInAll": len(ended),
        "awaited": plan.awaited[:_SHOWN],
        "awaitedInAll": len(plan.awaited),
        "jobs": plan.jobs,
    }


def _node(view: NodeView) -> Mapping[str, Any]:
    node = view.node
    return {
        "task": node.id.task,
        "jobId": node.id.job_id,
        "state": node.state,
        "runState": view.run_state if node.state is NodeState.QUEUED else None,
        "job": view.job,
        "round": node.round,
        "reason": view.reason,
        "createdAt": view.created_at,
        "changedAt": view.changed_at,
    }


def _report(report: NodeReport) -> Mapping[str, Any]:
    groups = []
    for group, states in report.groups:
        missing = [(parent, states[parent]) for parent in report.lacks.get(group.group, ())]
        groups.append(
            {
                "group": group.name,
                "parents": len(states),
                "missing": len(missing),
                "lacks": [
                    {
                        "task": each.task,
                        "jobId": each.job_id,
                        "state": state,
                        "awaits": report.awaited.get(each),
                    }
                    for each, state in missing[:_SHOWN]
                ],
            }
        )
    known = {"task": report.node.task, "jobId": report.node.job_id, "state": None, "job": None, "reason": ""}
    known |= {"awaits": report.awaited.get(report.node)}
    roots = {
        "roots": [
            {
                "task": each.task,
                "jobId": each.job_id,
                "state": None if view is None else view.node.state,
                "job": None if view is None else view.job,
                "reason": "" if view is None else view.reason,
            }
            for each, view in report.roots.items()
        ],
        "rootsInAll": report.roots_in_all,
        "allRoots": report.all_roots,
    }
    own = {} if report.view is None else _node(report.view)
    return {**known, **own, "valid": report.valid, "groups": groups, **roots}
