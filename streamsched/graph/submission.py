"""Submissions to graphs: a job id and everything it lacks. The plan says first what would run."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.domain.graph.ancestry import HELD, Ancestry, Descent, RootSearch, ancestry, lacking_parents
from streamsched.domain.graph.ascent import Ascent
from streamsched.domain.graph.graph import Graph, ParentGroup, check_graph
from streamsched.domain.graph.node import NodeState
from streamsched.domain.graph.task import NodeId, TaskTemplate
from streamsched.domain.names import AppRef
from streamsched.graph.edges import Children, batches
from streamsched.graph.functions import GraphFunctions
from streamsched.ports.clock import Clock
from streamsched.store.graph.nodes import NodeStore, NodeView
from streamsched.store.graph.rows import Edges, StoredGraph

#: How often a change is tried again that a deployment overtook.
_TRIES: Final = 5
#: Nodes of which the store is asked for states in one statement.
_PAGE: Final = 20_000
#: Roots of a report that are described.
_SHOWN_ROOTS: Final = 20


@dataclass(frozen=True, slots=True)
class SubmissionPlan:
    """What a submission does, by task: nodes it creates, and nodes it resets to run again.

    Attributes:
        joined: nodes that wait or are queued already.
        ended: nodes that have ended and are not to run again, with their state.
        skipped: nodes it creates that have no work to do.
        awaited: what it waits for that has not arrived.
        jobs: number of jobs made at once; None when nothing was stored.
    """

    created: Mapping[str, int]
    reset: Mapping[str, int]
    joined: int
    ended: Mapping[NodeId, NodeState]
    skipped: int
    awaited: Sequence[str] = ()
    jobs: int | None = None


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A node with its parents by group, and their states; None of a parent that does not exist.

    Attributes:
        awaited: by parent, and for the node itself, what completes those that arrive.
        lacks: by group, the parents whose ends are not, or not yet, wanted.
        roots: the first of the ancestors whose own ends hold the node up, nearest first, as they are now.
        roots_in_all: how many there are; more when not `all_roots`.
    """

    node: NodeId
    view: NodeView | None
    valid: bool
    groups: Sequence[tuple[ParentGroup, Mapping[NodeId, NodeState | None]]]
    awaited: Mapping[NodeId, str] = field(default_factory=dict)
    lacks: Mapping[int, Sequence[NodeId]] = field(default_factory=dict)
    roots: Mapping[NodeId, NodeView | None] = field(default_factory=dict)
    roots_in_all: int = 0
    all_roots: bool = True


class GraphDesk:
    """What people ask of graphs."""

    def __init__(self, nodes: NodeStore, clock: Clock, functions: GraphFunctions | None = None) -> None:
        self._nodes = nodes
        self._clock = clock
        self._functions = functions or GraphFunctions()

    async def graph(self, app: AppRef) -> tuple[StoredGraph, Graph]:
        """The stored graph of the app, and the same compiled.

        Raises:
            NotFoundError: the app has no tasks.
        """
        stored = await self._nodes.graph(app)
        return stored, await asyncio.to_thread(self._functions.graph, stored.tasks)

    async def check(self, tasks: Sequence[TaskTemplate]) -> None:
        """Raises:
        InvalidDefinitionError: a function that a task names is not installed here.
        """
        await asyncio.to_thread(self._functions.graph, tasks)

    async def merge_tasks(self, app: AppRef, tasks: Sequence[TaskTemplate]) -> Sequence[TaskTemplate]:
        """These tasks, and those that the app has besides.

        Raises:
            InvalidDefinitionError: together they are no graph.
        """
        try:
            stored = await self._nodes.graph(app)
        except NotFoundError:
            return tasks
        names = {task.name for task in tasks}
        together = (*(task for task in stored.tasks if task.name not in names), *tasks)
        check_graph(together)
        return together

    async def put(self, app: AppRef, tasks: Sequence[TaskTemplate]) -> None:
        """Stores the tasks of an app, whose schedules are stored already. An app without tasks that never had any has
        no graph. Idempotent.
        """
        if not tasks:
            try:
                await self._nodes.graph(app)
            except NotFoundError:
                return
        await self._nodes.put(app, tasks, now=self._clock.now())

    async def counts(self, app: AppRef) -> Mapping[tuple[str, NodeState], int]:
        """The number of nodes by task and state.

        Raises:
            NotFoundError: the app has no tasks.
        """
        await self._nodes.graph(app)
        return await self._nodes.counts(app)

    async def page(
        self, app: AppRef, *, task: str | None, state: NodeState | None, after: NodeId, limit: int
    ) -> Sequence[NodeView]:
        """One page of nodes by task and job id, after that one."""
        return await self._nodes.page(app, task=task, state=state, after=after, limit=limit)

    async def submit(
        self, app: AppRef, targets: Sequence[NodeId], *, again: bool = False, dry_run: bool = False
    ) -> SubmissionPlan:
        """Makes the targets run, and before them all ancestors that have not completed. Idempotent. With `again`, the
        targets run again when they have ended, and what failed above them too; what depends on them waits again.

        Raises:
            NotFoundError: the app has no such task.
            InvalidError: a job id does not fit its task, or too many nodes are needed.
            ConflictError: deployments of the app overtook it again and again.
        """
        for attempt in range(_TRIES):
            stored, graph = await self.graph(app)
            meant = await asyncio.to_thread(_canonical, graph, targets, "$.job_ids")
            ascent = await asyncio.to_thread(Ascent, graph, meant, again=again)
            while ascent.asked:
                states = await self.states(app, ascent.asked)
                await asyncio.to_thread(ascent.answer, states)
            invalid = await asyncio.to_thread(_find_invalid, graph, ascent.created)
            plan = SubmissionPlan(
                Counter(node.task for node in ascent.created),
                Counter(node.task for node in ascent.reset),
                len(ascent.joined),
                dict(ascent.ended),
                len(invalid),
                tuple(graph.task(node.task).awaited_text(node.job_id) for node in ascent.awaited),
            )
            if dry_run:
                return plan
            try:
                children = await asyncio.to_thread(_children, graph, ascent) if again else {}
                edges = Edges(children, ascent.created, invalid)
                jobs = await self._nodes.submit(stored, edges, list(ascent.reset), now=self._clock.now())
            except ConflictError:
                if attempt == _TRIES - 1:
                    raise
                continue
            return replace(plan, jobs=jobs)
        raise AssertionError("unreachable")

    async def cancel(self, app: AppRef, nodes: Sequence[NodeId], reason: str) -> Sequence[str]:
        """Fails nodes that wait; returns the jobs of those that are queued, which the caller cancels.

        Raises:
            NotFoundError: the app has no tasks.
        """
        stored = await self._nodes.graph(app)
        said = f"cancelled by hand: {reason}" if reason else "cancelled by hand"
        return await self._nodes.cancel(stored, nodes, said, now=self._clock.now())

    async def canonical(self, app: AppRef, nodes: Iterable[NodeId], path: str) -> Sequence[NodeId]:
        """The nodes that people mean by these, each once: validators may convert their job ids.

        Raises:
            NotFoundError: the app has no such task.
            InvalidError: a job id does not fit its task; at `path`.
        """
        _, graph = await self.graph(app)
        return await asyncio.to_thread(_canonical, graph, nodes, path)

    async def descendants(self, app: AppRef, nodes: Sequence[NodeId]) -> Mapping[NodeId, NodeState]:
        """The existing descendants of nodes, with their states.

        Raises:
            NotFoundError: the app has no such task.
            InvalidError: a job id does not fit its task, or there are too many.
        """
        _, graph = await self.graph(app)
        descent = Descent(graph, await asyncio.to_thread(_canonical, graph, nodes, "$.jobIds"))
        while descent.asked:
            descent.answer(await self.states(app, descent.asked))
        return descent.found

    async def ancestry(self, app: AppRef, node: NodeId, *, most: int) -> tuple[Ancestry, Mapping[NodeId, NodeState]]:
        """The node and its ancestors, at most so many, and the states of those that exist.

        Raises:
            NotFoundError: the app has no such task.
            InvalidError: the job id does not fit the task.
        """
        _, graph = await self.graph(app)
        (node,) = await asyncio.to_thread(_canonical, graph, [node], "$.job_id")
        found = ancestry(graph, node, most=most)
        return found, await self.states(app, found.nodes)

    async def states(self, app: AppRef, nodes: Sequence[NodeId]) -> Mapping[NodeId, NodeState]:
        """The states of those that exist."""
        states: dict[NodeId, NodeState] = {}
        for start in range(0, len(nodes), _PAGE):
            states |= await self._nodes.states(app, nodes[start : start + _PAGE])
        return states

    async def report(self, app: AppRef, node: NodeId) -> NodeReport:
        """Why a node is in its state, or what it would need.

        Raises:
            NotFoundError: the app has no such task.
            InvalidError: the job id does not fit the task.
        """
        _, graph = await self.graph(app)
        (node,) = await asyncio.to_thread(_canonical, graph, [node], "$.job_id")
        groups = await asyncio.to_thread(graph.parents, node)
        states = await self._nodes.states(app, [parent for group in groups for parent in group.parents])
        views = await self._nodes.views(app, [node])
        lacks = {group.group: lacking_parents(graph, node, group, states) for group in groups}
        return NodeReport(
            node,
            views.get(node),
            await asyncio.to_thread(graph.is_valid, node),
            [(group, {parent: states.get(parent) for parent in group.parents}) for group in groups],
            {
                each: task.awaited_text(each.job_id)
                for each in (node, *(parent for group in groups for parent in group.parents))
                if (task := graph.task(each.task)).arrives
            },
            lacks,
            *await self._roots(app, graph, node, views.get(node)),
        )

    async def _roots(
        self, app: AppRef, graph: Graph, node: NodeId, view: NodeView | None
    ) -> tuple[Mapping[NodeId, NodeView | None], int, bool]:
        """The roots that hold the node up, of which the first `_SHOWN_ROOTS` have a view, how many there are, and
        whether these are all.
        """
        if view is None or view.node.state not in HELD:
            return {}, 0, True
        search = await asyncio.to_thread(RootSearch, graph, node)
        while search.asked:
            await asyncio.to_thread(search.answer, await self.states(app, search.asked))
        shown = list(search.found)[:_SHOWN_ROOTS]
        views = await self._nodes.views(app, shown)
        return {each: views.get(each) for each in shown}, len(search.found), search.whole


def _children(graph: Graph, ascent: Ascent) -> Mapping[NodeId, Children]:
    """The children of nodes that run again or are under way, parents first, so that none of them is blocked by a parent
    that runs again. What is too much for one transaction, or fails, is counted afterwards.
    """
    place = {task: number for number, task in enumerate(graph.order)}
    movers = sorted({**ascent.reset, **ascent.joined}, key=lambda node: place[node.task])
    first = next(batches(graph, movers), None)
    return {} if first is None else first.children


def _canonical(graph: Graph, nodes: Iterable[NodeId], path: str) -> Sequence[NodeId]:
    return list(dict.fromkeys(graph.canonical(node, path) for node in nodes))


def _find_invalid(graph: Graph, nodes: Iterable[NodeId]) -> frozenset[NodeId]:
    return frozenset(node for node in nodes if not graph.is_valid(node))
