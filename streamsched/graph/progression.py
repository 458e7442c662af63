"""Moves the nodes of graphs: ends of their jobs, what children have to count, and changed definitions.

Any number of instances may run. Each transaction takes the lock of one graph and finds out by itself what is still to
be done, so a crash between two transactions loses and repeats nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final

import structlog

from streamsched.domain.errors import SYSTEMIC, ConflictError, describe_failure
from streamsched.domain.graph.graph import Graph
from streamsched.domain.graph.node import NodeFact
from streamsched.domain.graph.task import NodeId
from streamsched.domain.names import AppRef
from streamsched.graph.edges import BatchOfChildren, batches, edges_of, parents_of
from streamsched.graph.functions import GraphFunctions
from streamsched.ports.clock import Clock
from streamsched.ports.notifier import GRAPH, Notifier
from streamsched.process.run_forever import run_forever
from streamsched.store.graph.nodes import NodeEnd, NodeStore
from streamsched.store.graph.rows import Edges, StoredGraph

log = structlog.get_logger()

#: The longest sleep, in seconds, in case a notification is lost.
_SWEEP: Final = 5.0
#: Nodes read at a time.
_BATCH: Final = 1000

#: How long until a node is tried again whose children could not be computed.
_PATIENCE: Final = timedelta(minutes=1)
#: Graphs kept in memory.
_KEPT: Final = 64


class Progression:
    """Belongs to one task."""

    def __init__(
        self, nodes: NodeStore, notifier: Notifier, clock: Clock, functions: GraphFunctions | None = None
    ) -> None:
        self._nodes = nodes
        self._notifier = notifier
        self._clock = clock
        self._functions = functions or GraphFunctions()
        self._graphs: dict[AppRef, tuple[StoredGraph, Graph]] = {}

    async def run(self) -> None:
        """Moves until cancelled; sleeps until a notification when nothing is left."""
        async with self._notifier.listen(GRAPH) as subscription:
            await run_forever(self._step, sleep=subscription.wait, called="graph")

    async def run_once(self) -> int:
        """Moves what there is, one batch of each kind. Returns the number of nodes that were moved or counted anew.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call again.
        """
        outdated, ends, unreported, held = await asyncio.gather(
            self._nodes.outdated_nodes(_BATCH),
            self._nodes.ends(_BATCH),
            self._nodes.unreported_nodes(_BATCH, now=self._clock.now()),
            self._nodes.held_nodes(_BATCH),
        )
        moved = 0
        for app, nodes in _by_app((each.app, each.node) for each in outdated):
            moved += await self._isolate(app, self._recount(app, nodes))
        if moved:
            return moved
        by_node = {(end.app, end.node): end for end in reversed(ends)}
        work = [*((end.app, end.node) for end in ends), *((each.app, each.node) for each in unreported)]
        stuck = {(each.app, each.node): each.stuck for each in (*ends, *unreported) if each.stuck}
        for app, nodes in _by_app(work):
            mine = {node: end for (name, node), end in by_node.items() if name == app}
            theirs = {node: tasks for (name, node), tasks in stuck.items() if name == app}
            moved += await self._isolate(app, self._move(app, nodes, mine, theirs))
        for app, nodes in _by_app((each.app, each.node) for each in held):
            moved += await self._isolate(app, self._release(app, nodes))
        return moved

    async def _isolate(self, app: str, moving: Awaitable[int]) -> int:
        """The number of nodes moved; what fails in one graph stops only that graph, until the next look."""
        try:
            return await moving
        except SYSTEMIC:
            raise
        except Exception as failure:  # noqa: BLE001 - caused by the graph or the rows of this app
            log.error("graph.failed", app=app, reason=describe_failure(failure))
            return 0

    async def _step(self) -> float:
        return 0.0 if await self.run_once() else _SWEEP

    async def _move(
        self, app: str, nodes: Sequence[NodeId], ends: dict[NodeId, NodeEnd], stuck: Mapping[NodeId, Sequence[str]]
    ) -> int:
        stored, graph = await self._graph(app)
        moved, found = 0, batches(graph, nodes)
        while (batch := await asyncio.to_thread(next, found, None)) is not None:
            moved += await self._move_batch(stored, graph, ends, batch, stuck)
        return moved

    async def _move_batch(
        self,
        stored: StoredGraph,
        graph: Graph,
        ends: dict[NodeId, NodeEnd],
        batch: BatchOfChildren,
        stuck: Mapping[NodeId, Sequence[str]],
    ) -> int:
        children = {**batch.children, **batch.partial}
        below = list(dict.fromkeys(child for found in children.values() for child, _ in found))
        known = await self._nodes.states(stored.app, below) if below else {}
        anew = {
            child
            for node, found in children.items()
            if (tasks := {*stuck.get(node, ()), *batch.stuck.get(node, ())})
            for child, _ in found
            if child.task in tasks
        }
        wanted = [child for child in below if child not in known or child in anew]
        edges, now_stuck = await asyncio.to_thread(edges_of, graph, wanted, batch)
        mine = [ends[node] for node in edges.children if node in ends]
        try:
            jobs = await self._nodes.move(stored, mine, list(edges.children), edges, now=self._clock.now())
            if now_stuck:
                reasons = {node: next(iter(found.values())) for node, found in now_stuck.items()}
                await self._postpone(stored.app, reasons)
        except ConflictError:  # another instance or a deployment was faster: the next batch sees what is left
            self._graphs.pop(stored.app, None)
            return 1
        for end in mine:
            if end.fact is NodeFact.FAILED:
                log.warning("node.failed", app=end.app, task=end.node.task, job_id=end.node.job_id, reason=end.reason)
        log.debug("graph.moved", app=str(stored.app), nodes=len(edges.children), jobs=jobs)
        return len(edges.children)

    async def _postpone(self, app: AppRef, failed: dict[NodeId, str]) -> None:
        """Children that a function does not name are tried again later; others go on meanwhile."""
        for node, reason in failed.items():
            log.error("node.stuck", app=str(app), task=node.task, job_id=node.job_id, reason=reason)
        await self._nodes.postpone(app, failed, until=self._clock.now() + _PATIENCE)

    async def _recount(self, app: str, nodes: Sequence[NodeId]) -> int:
        stored, graph = await self._graph(app)
        try:
            parents, invalid, failed = await asyncio.to_thread(parents_of, graph, nodes)
            for node, reason in failed.items():
                log.error("node.stuck", app=app, task=node.task, job_id=node.job_id, reason=reason)
            edges = Edges(parents=parents, invalid=invalid)
            await self._nodes.recount(stored, nodes, edges, now=self._clock.now())
        except ConflictError:
            self._graphs.pop(stored.app, None)
            return 1
        return len(nodes)

    async def _release(self, app: str, nodes: Sequence[NodeId]) -> int:
        stored, _ = await self._graph(app)
        try:
            await self._nodes.release(stored, nodes, now=self._clock.now())
        except ConflictError:
            self._graphs.pop(stored.app, None)
            return 1
        return len(nodes)

    async def _graph(self, app: str) -> tuple[StoredGraph, Graph]:
        """The graph as it was read last. A transaction refuses an outdated one, which is then read anew."""
        ref = AppRef.parse(app)
        known = self._graphs.pop(ref, None)
        if known is None:
            stored = await self._nodes.graph(ref)
            known = (stored, await asyncio.to_thread(self._functions.graph, stored.tasks))
        while len(self._graphs) >= _KEPT:  # the least recently used goes
            del self._graphs[next(iter(self._graphs))]
        self._graphs[ref] = known
        return known


def _by_app(pairs: Iterable[tuple[str, NodeId]]) -> Iterable[tuple[str, list[NodeId]]]:
    found: dict[str, dict[NodeId, None]] = {}
    for app, node in pairs:
        found.setdefault(app, {})[node] = None
    return [(app, list(nodes)) for app, nodes in found.items()]
