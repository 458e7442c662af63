"""A node: one task at one job id. Its state machine is `NODE_STATES`.

A queued node has a job, which waits for its constraints and runs like any other; whether it waits or runs is the job's
state and not repeated here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from streamsched.domain.state_machine import StateMachine


class NodeState(StrEnum):
    """Where a node is: a task of a graph at one job id. Each end may be asked for again."""

    #: For parents, or for its schedule while that is paused or disabled.
    WAITING = "WAITING"
    #: It has a job, which waits or runs.
    QUEUED = "QUEUED"
    #: Its job succeeded. Children count it.
    COMPLETED = "COMPLETED"
    #: Its job failed with its last attempt, or it was cancelled.
    FAILED = "FAILED"
    #: It has no work to do, by its job id, its run or a parent's run.
    SKIPPED = "SKIPPED"
    #: Each of its groups of parents has one that failed.
    UPSTREAM_FAILED = "UPSTREAM_FAILED"
    #: Each of its groups of parents has one that failed or was skipped, not all of them a failed one.
    UPSTREAM_SKIPPED = "UPSTREAM_SKIPPED"


class NodeFact(StrEnum):
    """The events of a node's state machine."""

    READY = "a group of parents completed"
    UPSTREAM_FAILED = "each group has a parent that failed"
    UPSTREAM_SKIPPED = "each group has a parent that was skipped"
    UNBLOCKED = "a parent is to run again"
    SUCCEEDED = "its job succeeded"
    FAILED = "its job failed"
    REPLACED = "its schedule changed before its job started"
    HELD = "its schedule is paused or disabled"
    SKIPPED = "it has no work to do, by its job id, its run or a parent's run"
    CANCELLED = "cancelled by hand"
    RESET = "it or a parent is to run again"


NODE_STATES: Final = StateMachine(
    "node",
    {
        (NodeState.WAITING, NodeFact.READY): NodeState.QUEUED,
        (NodeState.WAITING, NodeFact.UPSTREAM_FAILED): NodeState.UPSTREAM_FAILED,
        (NodeState.WAITING, NodeFact.UPSTREAM_SKIPPED): NodeState.UPSTREAM_SKIPPED,
        (NodeState.WAITING, NodeFact.SKIPPED): NodeState.SKIPPED,
        (NodeState.WAITING, NodeFact.CANCELLED): NodeState.FAILED,
        (NodeState.QUEUED, NodeFact.SUCCEEDED): NodeState.COMPLETED,
        (NodeState.QUEUED, NodeFact.FAILED): NodeState.FAILED,
        (NodeState.QUEUED, NodeFact.REPLACED): NodeState.WAITING,
        (NodeState.QUEUED, NodeFact.SKIPPED): NodeState.SKIPPED,
        (NodeState.QUEUED, NodeFact.HELD): NodeState.WAITING,
        (NodeState.COMPLETED, NodeFact.RESET): NodeState.WAITING,
        (NodeState.FAILED, NodeFact.RESET): NodeState.WAITING,
        (NodeState.SKIPPED, NodeFact.RESET): NodeState.WAITING,
        (NodeState.UPSTREAM_FAILED, NodeFact.UNBLOCKED): NodeState.WAITING,
        (NodeState.UPSTREAM_SKIPPED, NodeFact.UNBLOCKED): NodeState.WAITING,
    },
    frozenset(NodeState) - {NodeState.WAITING, NodeState.QUEUED},
)


class ParentOutcome(StrEnum):
    """What a node is to its children."""

    MISSING = "missing"
    COMPLETE = "complete"
    FAILED = "failed"
    SKIPPED = "skipped"


def parent_outcome(state: NodeState) -> ParentOutcome:
    """What a node in this state is to its children. One that does not exist is missing."""
    match state:
        case NodeState.COMPLETED:
            return ParentOutcome.COMPLETE
        case NodeState.FAILED | NodeState.UPSTREAM_FAILED:
            return ParentOutcome.FAILED
        case NodeState.SKIPPED | NodeState.UPSTREAM_SKIPPED:
            return ParentOutcome.SKIPPED
        case NodeState.WAITING | NodeState.QUEUED:
            return ParentOutcome.MISSING
