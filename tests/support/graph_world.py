"""A graph's nodes in memory, moved by the pure rules as a store moves them; and the model that recomputes all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from streamsched.domain.graph.ascent import Ascent
from streamsched.domain.graph.graph import Graph, NodeId
from streamsched.domain.graph.node import NodeFact, NodeState, ParentOutcome, parent_outcome
from streamsched.domain.graph.progress import GraphNode, Shift, ended, held, new_node, recounted, reset, shifted


class GraphWorld:
    """Each method is one transaction."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: dict[NodeId, GraphNode] = {}
        self.jobs: Counter[NodeId] = Counter()
        self.paused: set[str] = set()
        self.held: set[NodeId] = set()

    def submit(self, targets: Iterable[NodeId], *, again: bool) -> Ascent:
        ascent = Ascent(self.graph, targets, again=again)
        while ascent.asked:
            ascent.answer({each: self.nodes[each].state for each in ascent.asked if each in self.nodes})
        for node, parents in ascent.created.items():
            self._store(new_node(node, parents, self._reported(), valid=self.graph.valid(node)))
        for node in ascent.reset:
            self._store(reset(self.nodes[node]))
        if again:
            place = {task: number for number, task in enumerate(self.graph.order)}
            for node in sorted({**ascent.reset, **ascent.joined}, key=lambda each: place[each.task]):
                if self.nodes[node].unreported:
                    self.report(node)
        return ascent

    def arrive(self, node: NodeId) -> None:
        """What completes the node has happened, perhaps not for the first time."""
        self.nodes.setdefault(node, GraphNode(node, NodeState.COMPLETED))

    def pause(self, task: str) -> None:
        self.paused.add(task)

    def resume(self, task: str) -> None:
        self.paused.discard(task)
        for node in sorted(self.held):
            if node.task == task:
                self.held.discard(node)
                if self.nodes[node].state is NodeState.WAITING:
                    self._store(recounted(self.nodes[node], self.nodes[node].groups))

    def end(self, node: NodeId, fact: NodeFact) -> None:
        """Its children have counted first that it was to run again."""
        if self.nodes[node].unreported:
            self.report(node)
        self._store(ended(self.nodes[node], fact))

    def report(self, node: NodeId) -> None:
        """Its children count the node as it is now; a complete one creates those that are missing."""
        known = self.nodes[node]
        before, after = known.reported, parent_outcome(known.state)
        self.nodes[node] = GraphNode(known.id, known.state, known.groups, after, known.round, known.again)
        shifts: dict[NodeId, list[Shift]] = {}
        for child, group in self.graph.children(node):
            shifts.setdefault(child, []).append(Shift(group, before, after))
        for child, changes in shifts.items():
            if child in self.nodes:
                self._store(shifted(self.nodes[child], changes))
            elif after is ParentOutcome.COMPLETE:
                self._store(new_node(child, self.graph.parents(child), self._reported(), valid=self.graph.valid(child)))

    @property
    def unreported(self) -> list[NodeId]:
        return sorted(node for node, known in self.nodes.items() if known.unreported)

    def in_state(self, *states: NodeState) -> list[NodeId]:
        return sorted(node for node, known in self.nodes.items() if known.state in states)

    def _reported(self) -> dict[NodeId, ParentOutcome]:
        return {node: known.reported for node, known in self.nodes.items()}

    def _store(self, node: GraphNode) -> None:
        before = self.nodes.get(node.id)
        self.held.discard(node.id)
        if node.round > (0 if before is None else before.round):
            assert node.state is NodeState.QUEUED
            if node.id.task in self.paused:
                self.held.add(node.id)
                node = held(node)
            else:
                self.jobs[node.id] += 1
        self.nodes[node.id] = node


def expected(world: GraphWorld, node: NodeId) -> NodeState:
    """The state of a node that has no end of its own, from the states of all its parents."""
    groups = world.graph.parents(node)
    states = [[_state(world, parent) for parent in group.parents] for group in groups]
    if not states or any(all(each is NodeState.COMPLETED for each in group) for group in states):
        return NodeState.WAITING if node in world.held else NodeState.QUEUED
    bad = [[each for each in group if each is not None and parent_outcome(each) in _BAD] for group in states]
    if not all(bad):
        return NodeState.WAITING
    failed = any(parent_outcome(each) is ParentOutcome.FAILED for group in bad for each in group)
    return NodeState.UPSTREAM_FAILED if failed else NodeState.UPSTREAM_SKIPPED


_BAD = (ParentOutcome.FAILED, ParentOutcome.SKIPPED)


def _state(world: GraphWorld, node: NodeId) -> NodeState | None:
    known = world.nodes.get(node)
    return None if known is None else known.state
