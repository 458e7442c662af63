"""What is above a node, and what exists below nodes. Pure; the caller reads the states, level by level."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from streamsched.domain.errors import InvalidError
from streamsched.domain.graph.ascent import MOST_NODES
from streamsched.domain.graph.graph import Graph, ParentGroup
from streamsched.domain.graph.node import NodeState, ParentOutcome, parent_outcome
from streamsched.domain.graph.task import NodeId

#: Most edges that are followed from one node up.
MOST_EDGES: Final = 5000
#: States of nodes that ended by themselves, and of those that an ancestor holds up.
_OWN_ENDS: Final = frozenset({NodeState.COMPLETED, NodeState.FAILED, NodeState.SKIPPED})
HELD: Final = frozenset({NodeState.WAITING, NodeState.UPSTREAM_FAILED, NodeState.UPSTREAM_SKIPPED})


class ParentEdge(NamedTuple):
    """One parent of a node, by one of its groups."""

    parent: NodeId
    child: NodeId
    group: str


class Ancestry(NamedTuple):
    """A node and its ancestors, nearest first.

    Attributes:
        edges: between these nodes.
        hidden: number of parents that were left out because there are too many nodes; at least so many.
        awaited: of nodes that arrive, what completes them.
    """

    nodes: tuple[NodeId, ...]
    edges: tuple[ParentEdge, ...]
    hidden: int
    awaited: Mapping[NodeId, str]


def ancestry(graph: Graph, node: NodeId, *, most: int) -> Ancestry:
    """The node and its ancestors by all groups that apply, at most so many nodes.

    Raises:
        NotFoundError: there is no such task.
        InvalidError: the job id does not fit the task's template.
        InvalidDefinitionError: a pair of functions failed.
    """
    graph.check(node, "$.job_id")
    nodes = {node: None}
    edges: list[ParentEdge] = []
    hidden: dict[NodeId, None] = {}
    waiting = deque([node])
    while waiting and len(edges) + len(hidden) < MOST_EDGES:
        child = waiting.popleft()
        for group in graph.parents(child):
            for parent in group.parents:
                if parent not in nodes:
                    if len(nodes) >= most or len(edges) >= MOST_EDGES:
                        hidden[parent] = None
                        continue
                    nodes[parent] = None
                    waiting.append(parent)
                edges.append(ParentEdge(parent, child, group.name))
    awaited = {each: task.awaited_text(each.job_id) for each in nodes if (task := graph.task(each.task)).arrives}
    return Ancestry(tuple(nodes), tuple(edges), len(hidden), awaited)


def lacking_parents(graph: Graph, node: NodeId, group: ParentGroup, states: Mapping[NodeId, NodeState]) -> list[NodeId]:
    """The parents of a group that have not ended as the node wants it. `states`: of those that exist."""

    def counts(parent: NodeId) -> bool:
        outcome = ParentOutcome.MISSING if parent not in states else parent_outcome(states[parent])
        return graph.reactions.outcome_for_group(node.task, group.group, parent.task, outcome) is ParentOutcome.COMPLETE

    return [parent for parent in group.parents if not counts(parent)]


class RootSearch:
    """The search for what holds up a node at the top: the ancestors that ended by themselves, and otherwise than it is
    wanted, reached by ancestors that lack parents themselves.

    Attributes:
        asked: nodes whose state is to be answered next; those that do not exist have none.
        found: the roots, nearest first.
        whole: False when further ancestors were not read because there are too many.
    """

    def __init__(self, graph: Graph, node: NodeId, *, most: int = MOST_NODES) -> None:
        """`most`: nodes that are read at all.

        Raises:
            NotFoundError: there is no such task.
            InvalidError: the job id does not fit its task's template.
        """
        graph.check(node, "$.job_id")
        self._graph, self._most = graph, most
        self._states: dict[NodeId, NodeState] = {}
        self._seen = {node}
        self.found: dict[NodeId, NodeState] = {}
        self.whole = True
        self._rise([node])

    def answer(self, states: Mapping[NodeId, NodeState]) -> None:
        """Goes one level up with the states of the nodes in `asked` that exist.

        Raises:
            InvalidDefinitionError: a pair of functions failed.
        """
        self._states |= states
        lacks = {
            parent: None
            for child, groups in self._level.items()
            for group in groups
            for parent in lacking_parents(self._graph, child, group, self._states)
        }
        ended = {parent: self._states[parent] for parent in lacks if self._states.get(parent) in _OWN_ENDS}
        self.found |= ended
        fresh = set(self.asked)
        self._rise([parent for parent in lacks if parent in fresh and self._states.get(parent) in HELD])

    def _rise(self, nodes: Iterable[NodeId]) -> None:
        self._level = {node: self._graph.parents(node) for node in nodes}
        asked: dict[NodeId, None] = {}
        for groups in self._level.values():
            asked |= {each: None for group in groups for each in group.parents if each not in self._seen}
        self.asked = tuple(asked)[: self._most - len(self._seen)]
        self.whole = self.whole and len(self.asked) == len(asked)
        self._seen.update(self.asked)


class Descent:
    """The search for the existing descendants of nodes.

    Attributes:
        asked: nodes whose state is to be answered next; those that do not exist have none.
        found: the descendants that exist, without the nodes themselves.
    """

    def __init__(self, graph: Graph, nodes: Iterable[NodeId]) -> None:
        """
        Raises:
            NotFoundError: there is no such task.
            InvalidError: a job id does not fit its task's template.
        """
        self._graph = graph
        self._seen = dict.fromkeys(nodes)
        for node in self._seen:
            graph.check(node, "$.jobIds")
        self.found: dict[NodeId, NodeState] = {}
        self.asked = self._nodes_below(self._seen)

    def answer(self, states: Mapping[NodeId, NodeState]) -> None:
        """Goes one level down with the states of the nodes in `asked` that exist.

        Raises:
            InvalidError: there are too many descendants.
            InvalidDefinitionError: a pair of functions failed.
        """
        existing = [node for node in self.asked if node in states]
        self.found |= {node: states[node] for node in existing}
        self.asked = self._nodes_below(existing)

    def _nodes_below(self, nodes: Iterable[NodeId]) -> tuple[NodeId, ...]:
        below: dict[NodeId, None] = {}
        for node in nodes:
            below |= {child: None for child, _ in self._graph.children(node) if child not in self._seen}
            if len(self._seen) + len(below) > MOST_NODES:
                raise InvalidError("$.jobIds", f"have more than {MOST_NODES} descendants; name fewer at a time")
        self._seen |= below
        return tuple(below)
