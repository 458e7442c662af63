"""Submission upwards: which nodes a job id needs before it can run. Pure; the caller reads the states, level by level.

ascent = Ascent(graph, targets)
while ascent.asked:
    ascent.answer(states of ascent.asked)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from streamsched.domain.errors import InvalidError
from streamsched.domain.graph.graph import Graph, ParentGroup
from streamsched.domain.graph.node import NodeState, ParentOutcome, parent_outcome
from streamsched.domain.graph.task import NodeId

#: Most nodes that one submission creates or resets besides its targets, and most whose state it reads. All parents that
#: one entry may give a job id are so many.
MOST_NODES = 100_000
MOST_READ = 1_000_000


class Ascent:
    """The search for the incomplete ancestors of the targets. All alternatives of a node are submitted unless one of
    its groups is complete: it runs as soon as one is, and fails only when all do.

    Attributes:
        asked: nodes whose state (None: none stored) is to be answered next.
        created: nodes to create, with their parents by group.
        reset: ended nodes to run again: targets with `again`, and what failed or was blocked above them.
        joined: nodes that wait or are queued already.
        ended: targets and ancestors that have ended and are not to run again, with their state.
        awaited: nodes that have not arrived; nothing makes them run.
    """

    def __init__(self, graph: Graph, targets: Iterable[NodeId], *, again: bool = False) -> None:
        """
        Raises:
            NotFoundError: there is no such task.
            InvalidError: a job id does not fit its task's template, or is of a task that arrives.
        """
        self._graph = graph
        self._again = again
        self._targets = frozenset(targets)
        self.asked: tuple[NodeId, ...] = tuple(sorted(self._targets))
        for target in self.asked:
            graph.check(target, "$.job_ids")
            task = graph.task(target.task)
            if task.arrives:
                raise InvalidError(
                    "$.task", f"'{task.name}' runs nothing; {task.awaited_text(target.job_id)} completes the node"
                )
        self.created: dict[NodeId, Sequence[ParentGroup]] = {}
        self.reset: dict[NodeId, None] = {}
        self.joined: dict[NodeId, NodeState] = {}
        self.ended: dict[NodeId, NodeState] = {}
        self.awaited: dict[NodeId, None] = {}
        self._known: dict[NodeId, NodeState | None] = {}
        self._open: list[tuple[NodeId, Sequence[ParentGroup]]] = []

    def answer(self, states: Mapping[NodeId, NodeState]) -> None:
        """Goes one level up with the states of the nodes in `asked` that exist.

        Raises:
            InvalidError: more nodes than one submission may create or read.
            InvalidDefinitionError: a pair of functions failed.
        """
        for node in self.asked:
            self._known[node] = states.get(node)
        reached = [node for node in self.asked if node in self._targets] if not self._open else []
        for node, groups in self._open:
            if not any(self._is_complete(node, group) for group in groups):
                reached += [parent for group in groups for parent in group.parents]
        self._open = []
        for node in dict.fromkeys(reached):
            self._visit(node)
        needed = (node for nodes in (self.created, self.reset) for node in nodes if node not in self._targets)
        if sum(1 for _ in needed) > MOST_NODES:
            raise InvalidError("$.job_ids", f"need more than {MOST_NODES} nodes; submit fewer at a time")
        unknown = {p: None for _, groups in self._open for g in groups for p in g.parents if p not in self._known}
        if len(self._known) + len(unknown) > MOST_READ:
            raise InvalidError("$.job_ids", f"have more than {MOST_READ} ancestors; submit fewer at a time")
        self.asked = tuple(unknown)
        if self._open and not self.asked:  # all their parents are known
            self.answer({})

    def _is_complete(self, node: NodeId, group: ParentGroup) -> bool:
        return all(
            (state := self._known.get(parent)) is not None
            and self._graph.reactions.outcome_for_group(node.task, group.group, parent.task, parent_outcome(state))
            is ParentOutcome.COMPLETE
            for parent in group.parents
        )

    def _visit(self, node: NodeId) -> None:
        if node in self.created or node in self.reset or node in self.joined or node in self.ended:
            return
        state = self._known[node]
        match state:
            case None if self._graph.task(node.task).arrives:
                self.awaited[node] = None
            case None:
                valid = self._graph.is_valid(node)
                groups = self._graph.parents(node)
                self.created[node] = groups
                if valid:
                    self._open.append((node, groups))
            case NodeState.WAITING:
                self.joined[node] = state
                self._open.append((node, self._graph.parents(node)))
            case NodeState.QUEUED:
                self.joined[node] = state
            case NodeState.COMPLETED | NodeState.SKIPPED if not (self._again and node in self._targets):
                self.ended[node] = state
            case _ if not self._again:
                self.ended[node] = state
            case _:
                self.reset[node] = None
                self._open.append((node, self._graph.parents(node)))
