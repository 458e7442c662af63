"""Graphs and their nodes in the store. Every change of nodes is one transaction under the lock of the app's graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol

from streamsched.domain.graph.graph import ParentGroup
from streamsched.domain.graph.node import NodeFact, NodeState
from streamsched.domain.graph.progress import GraphNode
from streamsched.domain.graph.reaction import Reactions
from streamsched.domain.graph.task import NodeId, TaskTemplate
from streamsched.domain.names import AppRef


@dataclass(frozen=True, slots=True)
class StoredGraph:
    """The tasks of an app. `generation` grows with each change of them."""

    app: AppRef
    generation: int
    tasks: tuple[TaskTemplate, ...]
    reactions: Reactions = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reactions", Reactions(self.tasks))


class NodeEnd(NamedTuple):
    """The end of a node's job, not yet counted. `number`: of the row that says so. `exit_code`: of its last run.
    `stuck`: of the node.
    """

    number: int
    app: str
    node: NodeId
    job: str
    fact: NodeFact
    reason: str
    exit_code: int | None = None
    stuck: tuple[str, ...] = ()


class OldNode(NamedTuple):
    """A node that ended at this time (UTC)."""

    app: str
    node: NodeId
    ended_at: datetime


class UnreportedNode(NamedTuple):
    """A node that its children have not counted yet as it is, whose parents are to be counted anew, or that waited for
    its schedule. `stuck`: of the node (`domain.graph.progress.GraphNode`).
    """

    app: str
    node: NodeId
    stuck: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Edges:
    """What the graph says about nodes that a transaction may touch. Edges are not stored, so they are given.

    Attributes:
        children: by node, each with the index of a group.
        parents: of nodes that may have to be created or counted anew.
        invalid: those of them that have no work to do.
        stuck: by node, the tasks among its children of which not all could be computed. Their other children are
            counted anew, and so are those of tasks that were stuck before.
    """

    children: Mapping[NodeId, Sequence[tuple[NodeId, int]]] = field(default_factory=dict)
    parents: Mapping[NodeId, Sequence[ParentGroup]] = field(default_factory=dict)
    invalid: frozenset[NodeId] = frozenset()
    stuck: Mapping[NodeId, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node for readers. `run_state`: of the last run of its job; None without one."""

    node: GraphNode
    job: str | None
    reason: str
    created_at: datetime
    changed_at: datetime
    run_state: str | None = None


class NodeStore(Protocol):
    """Nodes by app, task and job id."""

    async def put(self, app: AppRef, tasks: Sequence[TaskTemplate], *, now: datetime) -> int:
        """Stores the tasks of an app in place of all former ones; returns the generation. Equal tasks change nothing.
        Nodes stay; those of other tasks than before are counted anew.
        """
        ...

    async def graph(self, app: AppRef) -> StoredGraph:
        """Raises:
        NotFoundError: the app has no tasks.
        """
        ...

    async def states(self, app: AppRef, nodes: Sequence[NodeId]) -> Mapping[NodeId, NodeState]:
        """The states of those that exist."""
        ...

    async def views(self, app: AppRef, nodes: Sequence[NodeId]) -> Mapping[NodeId, NodeView]:
        """Those that exist."""
        ...

    async def listed(
        self, app: AppRef, *, task: str | None, state: NodeState | None, after: NodeId, limit: int
    ) -> Sequence[NodeView]:
        """Nodes by task and job id, after that one."""
        ...

    async def counts(self, app: AppRef) -> Mapping[tuple[str, NodeState], int]:
        """The number of nodes by task and state."""
        ...

    async def submit(self, graph: StoredGraph, edges: Edges, again: Sequence[NodeId], *, now: datetime) -> int:
        """Creates the nodes of `edges.parents` that do not exist, resets those of `again` that have ended, and makes
        the jobs of those that are ready; returns the number of jobs. Idempotent. The nodes of `edges.children`, parents
        first, are reported to their existing children in the same transaction.

        Raises:
            ConflictError: the graph changed meanwhile; nothing was stored.
        """
        ...

    async def cancel(self, graph: StoredGraph, nodes: Sequence[NodeId], reason: str, *, now: datetime) -> Sequence[str]:
        """Fails those that wait; returns the jobs of those that are queued, which are to be cancelled.

        Raises:
            ConflictError: the graph changed meanwhile; nothing was stored.
        """
        ...

    async def ends(self, limit: int) -> Sequence[NodeEnd]:
        """Ends of jobs, oldest first. Forgets those that are not the end of a current job of a node."""
        ...

    async def unreported(self, limit: int, *, now: datetime) -> Sequence[UnreportedNode]:
        """Nodes that changed and that their children have not counted, longest waiting first, and those that are stuck,
        without those that are postponed.
        """
        ...

    async def postpone(self, app: AppRef, nodes: Mapping[NodeId, str], *, until: datetime) -> None:
        """Nodes whose children cannot be computed, each with the reason, are not given by `unreported` until then."""
        ...

    async def outdated(self, limit: int) -> Sequence[UnreportedNode]:
        """Nodes whose parents were counted by a former generation of their graph."""
        ...

    async def move(
        self, graph: StoredGraph, ends: Sequence[NodeEnd], nodes: Sequence[NodeId], edges: Edges, *, now: datetime
    ) -> int:
        """Stores the ends, and reports these nodes and `nodes` to their children: they count the change, are created
        where the end of a parent counts for them, skipped where a parent's exit code leaves them out, and those that
        are ready get their jobs. One transaction; returns the number of jobs. The end of a node that was to run again,
        and whose children have not counted that, is left for the next call.

        Raises:
            ConflictError: the graph or a node changed meanwhile; nothing was stored.
        """
        ...

    async def recount(self, graph: StoredGraph, nodes: Sequence[NodeId], edges: Edges, *, now: datetime) -> int:
        """Counts the parents of these nodes anew and makes the jobs of those that are ready; returns their number. One
        whose parents are not given keeps its counts.

        Raises:
            ConflictError: the graph changed meanwhile; nothing was stored.
        """
        ...

    async def held(self, limit: int) -> Sequence[UnreportedNode]:
        """Nodes that were ready while their schedules were paused or disabled, of schedules that are enabled now."""
        ...

    async def release(self, graph: StoredGraph, nodes: Sequence[NodeId], *, now: datetime) -> int:
        """Makes the jobs of those that wait only for their schedule; returns their number. Idempotent.

        Raises:
            ConflictError: the graph changed meanwhile; nothing was stored.
        """
        ...

    async def old(self, before: datetime, *, behind: OldNode | None, limit: int) -> Sequence[OldNode]:
        """Nodes that ended before, in all graphs, oldest first, after that one."""
        ...

    async def leave(
        self, graph: StoredGraph, nodes: Sequence[NodeId], children: Sequence[NodeId], *, before: datetime
    ) -> int:
        """Deletes those that ended before, and returns their number. `children` are theirs.

        Raises:
            ConflictError: the graph changed meanwhile, or a child has not ended; nothing was deleted.
        """
        ...
