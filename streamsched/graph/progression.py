"""Moves the nodes of graphs: ends of their jobs, what children have to count, and changed definitions.

Any number of instances may run. Each transaction takes the lock of one graph and finds out by itself what is still to
be done, so a crash between two transactions loses and repeats nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import Final

import structlog

from streamsched.domain.errors import SYSTEMIC, ConflictError, InvalidError, NotFoundError, described
from streamsched.domain.graph.graph import Graph, ParentGroup
from streamsched.domain.graph.node import NodeFact
from streamsched.domain.graph.task import NodeId
from streamsched.domain.names import AppRef
from streamsched.ports.clock import Clock
from streamsched.ports.graph.nodes import Edges, NodeEnd, NodeStore, StoredGraph
from streamsched.ports.notifier import GRAPH, Notifier
from streamsched.process.run_forever import run_forever

log = structlog.get_logger()

#: The longest sleep, in seconds, in case a notification is lost.
_SWEEP: Final = 5.0
#: Nodes read at a time, and edges after which a transaction takes no further node.
_BATCH: Final = 1000
_EDGES: Final = 20_000

#: The children of a node, each with the index of a group.
Children = tuple[tuple[NodeId, int], ...]


class Progression:
    """Belongs to one task."""

    def __init__(self, nodes: NodeStore, notifier: Notifier, clock: Clock) -> None:
        self._nodes = nodes
        self._notifier = notifier
        self._clock = clock
        self._graphs: dict[tuple[AppRef, int], Graph] = {}

    async def run(self) -> None:
        """Moves until cancelled; sleeps until a notification when nothing is left."""
        async with self._notifier.listen(GRAPH) as subscription:
            await run_forever(self._step, sleep=subscription.wait, called="graph")

    async def run_once(self) -> int:
        """Moves what there is, one batch of each kind. Returns the number of nodes that were moved or counted anew.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call again.
        """
        outdated = await self._nodes.outdated(_BATCH)
        moved = 0
        for app, nodes in _by_app((each.app, each.node) for each in outdated):
            moved += await self._alone(app, self._recount(app, nodes))
        if moved:
            return moved
        ends = await self._nodes.ends(_BATCH)
        unreported = await self._nodes.unreported(_BATCH)
        by_node = {(end.app, end.node): end for end in reversed(ends)}
        work = [*((end.app, end.node) for end in ends), *((each.app, each.node) for each in unreported)]
        for app, nodes in _by_app(work):
            mine = {node: end for (name, node), end in by_node.items() if name == app}
            moved += await self._alone(app, self._move(app, nodes, mine))
        return moved

    async def _alone(self, app: str, moving: Awaitable[int]) -> int:
        """The number of nodes moved; what fails in one graph stops only that graph, until the next look."""
        try:
            return await moving
        except SYSTEMIC:
            raise
        except Exception as failure:  # noqa: BLE001 - caused by the graph or the rows of this app
            log.error("graph.failed", app=app, reason=described(failure))
            return 0

    async def _step(self) -> float:
        return 0.0 if await self.run_once() else _SWEEP

    async def _move(self, app: str, nodes: Sequence[NodeId], ends: dict[NodeId, NodeEnd]) -> int:
        stored, graph = await self._graph(app)
        moved = 0
        batch: list[NodeId] = []
        children: dict[NodeId, Children] = {}
        for number, node in enumerate(nodes, 1):
            batch.append(node)
            children[node] = _children(graph, node)
            if number == len(nodes) or sum(map(len, children.values())) > _EDGES:
                moved += await self._moved(stored, graph, batch, ends, children)
                batch, children = [], {}
        return moved

    async def _moved(
        self,
        stored: StoredGraph,
        graph: Graph,
        nodes: Sequence[NodeId],
        ends: dict[NodeId, NodeEnd],
        children: dict[NodeId, Children],
    ) -> int:
        below = list(dict.fromkeys(child for found in children.values() for child, _ in found))
        known = await self._nodes.states(stored.app, below) if below else {}
        edges = _edges(graph, [child for child in below if child not in known], children)
        mine = [ends[node] for node in nodes if node in ends]
        try:
            jobs = await self._nodes.move(stored, mine, nodes, edges, now=self._clock.now())
        except ConflictError:  # another instance or a deployment was faster: the next batch sees what is left
            return 1
        for end in mine:
            if end.fact is NodeFact.FAILED:
                log.warning("node.failed", app=end.app, task=end.node.task, job_id=end.node.job_id, reason=end.reason)
        log.debug("graph.moved", app=str(stored.app), nodes=len(nodes), jobs=jobs)
        return len(nodes)

    async def _recount(self, app: str, nodes: Sequence[NodeId]) -> int:
        stored, graph = await self._graph(app)
        try:
            await self._nodes.recount(stored, nodes, _edges(graph, nodes, {}), now=self._clock.now())
        except ConflictError:
            return 1
        return len(nodes)

    async def _graph(self, app: str) -> tuple[StoredGraph, Graph]:
        stored = await self._nodes.graph(AppRef.parse(app))
        key = (stored.app, stored.generation)
        if key not in self._graphs:
            self._graphs = {known: each for known, each in self._graphs.items() if known[0] != stored.app}
            self._graphs[key] = Graph(stored.tasks)
        return stored, self._graphs[key]


def _by_app(pairs: Iterable[tuple[str, NodeId]]) -> Iterable[tuple[str, list[NodeId]]]:
    found: dict[str, dict[NodeId, None]] = {}
    for app, node in pairs:
        found.setdefault(app, {})[node] = None
    return [(app, list(nodes)) for app, nodes in found.items()]


def _children(graph: Graph, node: NodeId) -> Children:
    """The children; none of a node whose task, or whose form of job ids, is not in the graph any more."""
    try:
        return graph.children(node)
    except (NotFoundError, InvalidError):
        return ()


def _edges(graph: Graph, wanted: Iterable[NodeId], children: dict[NodeId, Children]) -> Edges:
    parents: dict[NodeId, Sequence[ParentGroup]] = {}
    invalid = set()
    for node in wanted:
        try:
            parents[node] = graph.parents(node)
            if not graph.valid(node):
                invalid.add(node)
        except (NotFoundError, InvalidError):
            parents[node] = ()
    return Edges(children, parents, frozenset(invalid))
