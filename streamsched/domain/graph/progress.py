"""How nodes move: by their parents, by the end of their job, and by people. Pure.

Each node counts its parents by group. A parent's change is counted once, in the transaction that marks the
parent as `reported`; the difference between its state and what it reported is the work that is left.

>>> from streamsched.domain.graph.graph import ParentGroup
>>> a, b = NodeId("a", "1"), NodeId("b", "1")
>>> child = new_node(NodeId("c", "1"), [ParentGroup(0, "default", (a, b))], {a: ParentOutcome.COMPLETE})
>>> child.state, child.groups
(<NodeState.WAITING: 'WAITING'>, {0: GroupCount(missing=1, failed=0, skipped=0)})
>>> shift(child, [Shift(0, ParentOutcome.MISSING, ParentOutcome.COMPLETE)]).state
<NodeState.QUEUED: 'QUEUED'>
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from streamsched.domain.graph.graph import ParentGroup
from streamsched.domain.graph.node import NODE_STATES, NodeFact, NodeState, ParentOutcome, parent_outcome
from streamsched.domain.graph.reaction import Reactions
from streamsched.domain.graph.task import NodeId

_BLOCKED: Final = frozenset({NodeState.UPSTREAM_FAILED, NodeState.UPSTREAM_SKIPPED})
_OWN_END: Final = frozenset({NodeState.COMPLETED, NodeState.FAILED})


class GroupCount(NamedTuple):
    """The parents of one group.

    Attributes:
        missing: those that are not complete, for whatever reason.
        failed, skipped: those of them that failed or were skipped, themselves or upstream.
    """

    missing: int
    failed: int = 0
    skipped: int = 0


class Shift(NamedTuple):
    """The change of one parent in one group."""

    group: int
    before: ParentOutcome
    after: ParentOutcome

    @property
    def reopens(self) -> bool:
        """Whether the parent was complete, and is to run again."""
        return self.before is ParentOutcome.COMPLETE and self.after is not ParentOutcome.COMPLETE


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node as it is stored.

    Attributes:
        groups: the count of each group that applies, by its index; empty for a node without parents.
        reported: the standing that its children have counted.
        round: number of its jobs so far; the last of them is current while it is queued.
        again: while it is queued, a parent was asked to run again: it does not count as complete at its job's end.
        stuck: the tasks among its children of which not all have counted what it reported: they could not be computed.
    """

    id: NodeId
    state: NodeState = NodeState.WAITING
    groups: Mapping[int, GroupCount] = field(default_factory=dict[int, GroupCount])
    reported: ParentOutcome = ParentOutcome.MISSING
    round: int = 0
    again: bool = False
    stuck: tuple[str, ...] = ()

    @property
    def is_unreported(self) -> bool:
        """Whether its children have to count it anew."""
        return parent_outcome(self.state) is not self.reported


def new_node(
    node: NodeId,
    parents: Iterable[ParentGroup],
    reported: Mapping[NodeId, ParentOutcome],
    reactions: Reactions | None = None,
    *,
    valid: bool = True,
) -> GraphNode:
    """A node that is created: skipped, queued, waiting or blocked.

    Args:
        parents: of the groups that apply.
        reported: what existing parents have reported; others are missing.
        reactions: what their ends mean to the node; None: success is wanted.
        valid: whether it has work to do.
    """
    made = GraphNode(node, groups=count_parents(node, parents, reported, reactions))
    return _settle_node(made) if valid else replace(made, state=NODE_STATES.advance(made.state, NodeFact.SKIPPED))


def count_parents(
    node: NodeId,
    parents: Iterable[ParentGroup],
    reported: Mapping[NodeId, ParentOutcome],
    reactions: Reactions | None = None,
) -> dict[int, GroupCount]:
    """The counts of a node's groups, from what its parents have reported."""
    found: dict[int, GroupCount] = {}
    for group in parents:
        by = Counter(
            outcome if reactions is None else reactions.outcome_for_group(node.task, group.group, parent.task, outcome)
            for parent in group.parents
            for outcome in (reported.get(parent, ParentOutcome.MISSING),)
        )
        found[group.group] = GroupCount(
            len(group.parents) - by[ParentOutcome.COMPLETE], by[ParentOutcome.FAILED], by[ParentOutcome.SKIPPED]
        )
    return found


def shift(node: GraphNode, shifts: Iterable[Shift]) -> GraphNode:
    """The node after changes of its parents. One that had completed or failed waits again when a complete parent is to
    run again and no group is complete; one that is queued does so when its job has ended.
    """
    groups, reopened = _shifted_counts(node, shifts)
    return _move_node(replace(node, groups=groups), reopened=reopened)


def leave_out(node: GraphNode, shifts: Iterable[Shift]) -> GraphNode:
    """The node after changes of its parents, one of which skips it; one that is queued or has ended goes on."""
    groups, reopened = _shifted_counts(node, shifts)
    after = replace(node, groups=groups)
    if node.state in _BLOCKED:
        after = replace(after, state=NODE_STATES.advance(node.state, NodeFact.UNBLOCKED))
    if after.state is not NodeState.WAITING:
        return _move_node(after, reopened=reopened)
    return replace(after, state=NODE_STATES.advance(after.state, NodeFact.SKIPPED))


def _shifted_counts(node: GraphNode, shifts: Iterable[Shift]) -> tuple[dict[int, GroupCount], bool]:
    """The counts after changes of parents, and whether a complete parent is to run again."""
    groups, reopened = dict(node.groups), False
    for shift in shifts:
        group, before, after = shift
        if group not in groups:  # the definition changed; it will be counted anew
            continue
        count = groups[group]
        groups[group] = GroupCount(
            count.missing + (before is ParentOutcome.COMPLETE) - (after is ParentOutcome.COMPLETE),
            count.failed + (after is ParentOutcome.FAILED) - (before is ParentOutcome.FAILED),
            count.skipped + (after is ParentOutcome.SKIPPED) - (before is ParentOutcome.SKIPPED),
        )
        reopened |= shift.reopens
    return groups, reopened


def recount(node: GraphNode, groups: Mapping[int, GroupCount], *, reopened: bool = False) -> GraphNode:
    """The node after its parents were counted anew. What has completed or failed stays so, unless a complete parent is
    to run again (`reopened`) and no group is complete.
    """
    return _move_node(replace(node, groups=groups), reopened=reopened)


def _move_node(node: GraphNode, *, reopened: bool) -> GraphNode:
    lacking = bool(node.groups) and all(count.missing for count in node.groups.values())
    if node.state is NodeState.WAITING:
        return _settle_node(node)
    if node.state in _BLOCKED:
        fact = _fact(node.groups)
        if fact is not None and fact.name == node.state.name:
            return node
        return _settle_node(replace(node, state=NODE_STATES.advance(node.state, NodeFact.UNBLOCKED)))
    if reopened and lacking and node.state in _OWN_END:
        return _settle_node(replace(node, state=NODE_STATES.advance(node.state, NodeFact.RESET)))
    if reopened and lacking and node.state is NodeState.QUEUED:
        return replace(node, again=True)
    return node


def finish(node: GraphNode, fact: NodeFact) -> GraphNode:
    """The queued node after the end of its job: SUCCEEDED, SKIPPED, FAILED or REPLACED.

    Raises:
        IllegalTransitionError: it is not queued.
    """
    after = replace(node, state=NODE_STATES.advance(node.state, fact), again=False)
    if fact is NodeFact.REPLACED:
        return _settle_node(after)
    return _settle_node(replace(after, state=NODE_STATES.advance(after.state, NodeFact.RESET))) if node.again else after


def hold_node(node: GraphNode) -> GraphNode:
    """The node that is ready, and whose schedule takes no jobs: it waits, and has had no job in this round.

    Raises:
        IllegalTransitionError: it is not queued.
    """
    return replace(node, state=NODE_STATES.advance(node.state, NodeFact.HELD), round=node.round - 1)


def reset(node: GraphNode) -> GraphNode:
    """The node, to run again: it waits for its parents, or is queued. One that waits or is queued stays so.

    Raises:
        IllegalTransitionError: never for a stored node.
    """
    if node.state in (NodeState.WAITING, NodeState.QUEUED):
        return node
    fact = NodeFact.UNBLOCKED if node.state in _BLOCKED else NodeFact.RESET
    return _settle_node(replace(node, state=NODE_STATES.advance(node.state, fact)))


def cancel(node: GraphNode) -> GraphNode:
    """The waiting node, failed. A queued one fails by the cancellation of its job.

    Raises:
        IllegalTransitionError: it does not wait.
    """
    return replace(node, state=NODE_STATES.advance(node.state, NodeFact.CANCELLED))


def _settle_node(node: GraphNode) -> GraphNode:
    """The waiting node in the state that its counts give."""
    fact = _fact(node.groups)
    if fact is None:
        return node
    rounds = node.round + (fact is NodeFact.READY)
    return replace(node, state=NODE_STATES.advance(node.state, fact), round=rounds)


def _fact(groups: Mapping[int, GroupCount]) -> NodeFact | None:
    """Ready when a group is complete or there is none; blocked when no group can become complete: by failure if a
    parent failed. None: it waits.
    """
    counts = groups.values()
    if not counts or any(not count.missing for count in counts):
        return NodeFact.READY
    if any(not count.failed and not count.skipped for count in counts):
        return None
    return NodeFact.UPSTREAM_FAILED if any(count.failed for count in counts) else NodeFact.UPSTREAM_SKIPPED
