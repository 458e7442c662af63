"""A graph's nodes in memory, moved by the pure rules as a store moves them; and the model that recomputes all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from streamsched.domain.graph.ascent import Ascent
from streamsched.domain.graph.graph import Graph, NodeId
from streamsched.domain.graph.node import NodeFact, NodeState, ParentOutcome, parent_outcome
from streamsched.domain.graph.progress import (
    GraphNode,
    Shift,
    finish,
    hold_node,
    leave_out,
    new_node,
    recount,
    reset,
    shift,
)


class GraphWorld:
    """Each method is one transaction."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: dict[NodeId, GraphNode] = {}
        self.jobs: Counter[NodeId] = Counter()
        self.paused: set[str] = set()
        self.held: set[NodeId] = set()
        self.codes: dict[NodeId, int] = {}

    def submit(self, targets: Iterable[NodeId], *, again: bool) -> Ascent:
        ascent = Ascent(self.graph, targets, again=again)
        while ascent.asked:
            ascent.answer({each: self.nodes[each].state for each in ascent.asked if each in self.nodes})
        for node, parents in ascent.created.items():
            valid = self.graph.is_valid(node)
            self._store(new_node(node, parents, self._reported(), self.graph.reactions, valid=valid))
        for node in ascent.reset:
            self._store(reset(self.nodes[node]))
        if again:
            place = {task: number for number, task in enumerate(self.graph.order)}
            for node in sorted({**ascent.reset, **ascent.joined}, key=lambda each: place[each.task]):
                if self.nodes[node].is_unreported:
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
                    self._store(recount(self.nodes[node], self.nodes[node].groups))

    def end(self, node: NodeId, fact: NodeFact, exit_code: int = 0) -> None:
        """Its children have counted first that it was to run again."""
        if self.nodes[node].is_unreported:
            self.report(node)
        self.codes[node] = exit_code
        if fact is NodeFact.SUCCEEDED:
            fact, _ = self.graph.reactions.end(node.task, exit_code)
        self._store(finish(self.nodes[node], fact))

    def report(self, node: NodeId) -> None:
        """Its children count the node as it is now; what counts for them creates those that are missing."""
        reactions = self.graph.reactions
        known = self.nodes[node]
        before, after = known.reported, parent_outcome(known.state)
        self.nodes[node] = GraphNode(known.id, known.state, known.groups, after, known.round, known.again)
        shifts: dict[NodeId, list[Shift]] = {}
        for child, group in self.graph.children(node):
            counts = (reactions.outcome_for_group(child.task, group, node.task, each) for each in (before, after))
            shifts.setdefault(child, []).append(Shift(group, *counts))
        for child, changes in shifts.items():
            completed = known.state is NodeState.COMPLETED
            out = completed and reactions.leaves_out(node.task, self.codes.get(node), child.task)
            if child in self.nodes and out:
                self._store(leave_out(self.nodes[child], changes))
            elif child in self.nodes:
                self._store(shift(self.nodes[child], changes))
            elif out or any(reactions.creates(child.task, each.after) for each in changes):
                parents, valid = self.graph.parents(child), self.graph.is_valid(child) and not out
                self._store(new_node(child, parents, self._reported(), reactions, valid=valid))

    @property
    def unreported(self) -> list[NodeId]:
        return sorted(node for node, known in self.nodes.items() if known.is_unreported)

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
                node = hold_node(node)
            else:
                self.jobs[node.id] += 1
        self.nodes[node.id] = node


def expected(world: GraphWorld, node: NodeId) -> NodeState:
    """The state of a node that has no end of its own, from the states of all its parents."""
    groups = world.graph.parents(node)
    ends = [[counted_end(world, node, group.group, parent) for parent in group.parents] for group in groups]
    if not ends or any(all(each is ParentOutcome.COMPLETE for each in group) for group in ends):
        return NodeState.WAITING if node in world.held else NodeState.QUEUED
    bad = [[each for each in group if each in _BAD] for group in ends]
    if not all(bad):
        return NodeState.WAITING
    failed = any(each is ParentOutcome.FAILED for group in bad for each in group)
    return NodeState.UPSTREAM_FAILED if failed else NodeState.UPSTREAM_SKIPPED


_BAD = (ParentOutcome.FAILED, ParentOutcome.SKIPPED)


def counted_end(world: GraphWorld, child: NodeId, group: int, parent: NodeId) -> ParentOutcome:
    """What a parent is to the child, by the entry of the definition that names it."""
    known = world.nodes.get(parent)
    outcome = ParentOutcome.MISSING if known is None else parent_outcome(known.state)
    entries = world.graph.task(child.task).groups[group].entries
    wanted = next(entry.ends for entry in entries if parent.task in entry.tasks)
    if wanted is None or outcome is ParentOutcome.MISSING:
        return outcome
    if outcome in wanted:
        return ParentOutcome.COMPLETE
    failed = outcome is ParentOutcome.FAILED and ParentOutcome.COMPLETE in wanted
    return ParentOutcome.FAILED if failed else ParentOutcome.SKIPPED
