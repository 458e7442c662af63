"""Graphs and nodes as rows: reading, writing, and making the jobs of those that are ready."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple, TypeVar

from streamsched.domain.errors import ConflictError, InvalidError
from streamsched.domain.graph.graph import ParentGroup
from streamsched.domain.graph.node import NodeFact, NodeState, ParentOutcome
from streamsched.domain.graph.progress import GraphNode, GroupCount, finish, hold_node
from streamsched.domain.graph.reaction import Reactions
from streamsched.domain.graph.release import node_job, schedule_of
from streamsched.domain.graph.task import NodeId, TaskTemplate
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.names import AppRef
from streamsched.store.connections import Connection
from streamsched.store.jobs.submissions import insert
from streamsched.store.sql import Select, queries

SQL: Final = queries("graph/nodes")
_WIDTH: Final = 4
#: Items after which other tasks run.
_STRETCH: Final = 500
#: Jobs that a statement inserts. A transaction that makes 100,000 jobs without one is ended as idle on a slow machine.
_JOBS: Final = 5_000
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class StoredGraph:
    """The tasks of an app. `generation` grows with each change of them."""

    app: AppRef
    generation: int
    tasks: tuple[TaskTemplate, ...]
    reactions: Reactions = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reactions", Reactions(self.tasks))


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


class _NodeRow(NamedTuple):
    task: str
    job_id: str
    state: str
    reported: str
    groups: list[int]
    round: int
    again: bool
    stuck: list[str]
    generation: int
    job: str | None
    reason: str
    held: bool


class NodeViewRow(NamedTuple):
    """A node with what readers see besides."""

    task: str
    job_id: str
    state: str
    reported: str
    groups: list[int]
    round: int
    again: bool
    stuck: list[str]
    job: str | None
    reason: str
    created_at: datetime
    changed_at: datetime
    run_state: str | None


class _NodeState(NamedTuple):
    task: str
    job_id: str
    state: str
    reported: str


class _TaskSchedule(NamedTuple):
    id: str
    program: str
    generation: int
    enabled: bool


_NODES: Final = Select(SQL["nodes"], _NodeRow)
REPORTED_STATES: Final = Select(SQL["states"], _NodeState)
_SCHEDULES: Final = Select(SQL["schedules"], _TaskSchedule)


def columns(nodes: Iterable[NodeId]) -> tuple[list[str], list[str]]:
    """Tasks and job ids, as the queries take them."""
    listed = list(nodes)
    return [node.task for node in listed], [node.job_id for node in listed]


async def iterate_fairly(items: Iterable[_Item]) -> AsyncIterator[_Item]:
    """The items; lets the other tasks of the process run from time to time."""
    for number, item in enumerate(items, 1):
        yield item
        if not number % _STRETCH:
            await asyncio.sleep(0)


def node_of(row: _NodeRow | NodeViewRow) -> GraphNode:
    """The node of a row."""
    flat = row.groups
    return GraphNode(
        NodeId(row.task, row.job_id),
        NodeState(row.state),
        {flat[i]: GroupCount(*flat[i + 1 : i + _WIDTH]) for i in range(0, len(flat), _WIDTH)},
        ParentOutcome(row.reported),
        row.round,
        row.again,
        tuple(row.stuck),
    )


async def lock_graph(connection: Connection, graph: StoredGraph) -> None:
    """Waits for the lock of the app's graph.

    Raises:
        ConflictError: the graph is not of this generation any more.
    """
    generation = await connection.fetchval(SQL["lock"], str(graph.app))
    if generation != graph.generation:
        raise ConflictError(f"the tasks of app '{graph.app}' have changed; try again")


class NodeBatch:
    """The nodes that one transaction reads and writes; belongs to it."""

    def __init__(self, connection: Connection, graph: StoredGraph, now: datetime) -> None:
        self.connection = connection
        self.graph = graph
        self._now = now
        self._before: dict[NodeId, GraphNode] = {}
        self._jobs: dict[NodeId, str | None] = {}
        self._reasons: dict[NodeId, str] = {}
        self._changed: dict[NodeId, None] = {}
        self._generations: dict[NodeId, int] = {}
        self._held: set[NodeId] = set()
        self.nodes: dict[NodeId, GraphNode] = {}

    async def read(self, nodes: Iterable[NodeId]) -> None:
        """Reads those that exist and were not read before, in one statement."""
        wanted = [node for node in dict.fromkeys(nodes) if node not in self.nodes]
        if not wanted:
            return
        async for row in iterate_fairly(await _NODES.fetch(self.connection, str(self.graph.app), *columns(wanted))):
            node = node_of(row)
            self.nodes[node.id] = self._before[node.id] = node
            self._jobs[node.id], self._reasons[node.id] = row.job, row.reason
            self._generations[node.id] = row.generation
            if row.held:
                self._held.add(node.id)

    async def read_reported(self, nodes: Iterable[NodeId]) -> dict[NodeId, ParentOutcome]:
        """What these nodes have reported, this transaction included, in one statement."""
        wanted = list(dict.fromkeys(nodes))
        rows = await REPORTED_STATES.fetch(self.connection, str(self.graph.app), *columns(wanted)) if wanted else ()
        found = {NodeId(row.task, row.job_id): ParentOutcome(row.reported) for row in rows}
        return {**found, **{node: self.nodes[node].reported for node in wanted if node in self.nodes}}

    def job(self, node: NodeId) -> str | None:
        """The latest job of a node that was read or made."""
        return self._jobs.get(node)

    def put(self, node: GraphNode, reason: str | None = None, *, anew: bool = False) -> None:
        """Takes the node in place of the former one. `anew`: its parents were counted, so it is written anyway."""
        if anew or self.nodes.get(node.id) != node:
            self._changed[node.id] = None
        if anew or node.id not in self._generations:
            self._generations[node.id] = self.graph.generation
        self.nodes[node.id] = node
        if reason is not None:
            self._reasons[node.id] = reason

    def rewrite(self, node: GraphNode) -> None:
        """Takes the node, and writes it also when it is equal to the former one; it is held only if it is again."""
        self.put(node)
        self._held.discard(node.id)
        self._changed[node.id] = None

    async def write(self) -> int:
        """Writes what changed and makes the jobs of nodes that became ready; returns their number. A node whose
        schedule is paused or disabled waits, and one whose schedule is deleted fails.
        """
        ready = [self.nodes[node] for node in self._changed if self._became_ready(self.nodes[node])]
        made = await self._release(ready) if ready else 0
        changed = [self.nodes[node] for node in self._changed]
        if changed:
            await self.connection.execute(
                SQL["write"],
                str(self.graph.app),
                self._now,
                *columns(node.id for node in changed),
                [node.state for node in changed],
                [node.reported for node in changed],
                [_counts_text(node.groups) for node in changed],
                [node.round for node in changed],
                [node.again for node in changed],
                [self._jobs.get(node.id) for node in changed],
                [self._reasons.get(node.id, "") for node in changed],
                [self._generations[node.id] for node in changed],
                [node.id in self._held and node.state is NodeState.WAITING for node in changed],
                ["/".join(node.stuck) for node in changed],
            )
            if self._held or any(node.is_unreported for node in changed):  # else the loops have nothing to do
                await self.connection.execute(SQL["ring"])
        return made

    def _became_ready(self, node: GraphNode) -> bool:
        before = self._before.get(node.id)
        return node.round > (0 if before is None else before.round)

    async def _release(self, ready: Sequence[GraphNode]) -> int:
        app, tasks = self.graph.app, {task.name: task for task in self.graph.tasks}
        names = {task: str(schedule_of(app, task)) for task in {node.id.task for node in ready}}
        schedules = {row.id: row for row in await _SCHEDULES.fetch(self.connection, list(names.values()))}
        made, jobs = 0, list[tuple[ReadyJob, str]]()
        async for node in iterate_fairly(ready):
            schedule = schedules.get(names[node.id.task])
            if schedule is None or node.id.task not in tasks:
                self.put(finish(node, NodeFact.FAILED), f"schedule {names[node.id.task]} is deleted")
                continue
            if not schedule.enabled:
                self._held.add(node.id)
                self.put(hold_node(node), f"schedule {names[node.id.task]} is paused or disabled")
                continue
            try:
                job = node_job(app, tasks[node.id.task], node, generation=schedule.generation, now=self._now)
            except InvalidError as error:  # the template changed
                self.put(finish(node, NodeFact.FAILED), error.reason)
                continue
            self._jobs[node.id] = job.id
            self._reasons[node.id] = ""
            jobs.append((job, schedule.program))
            if len(jobs) == _JOBS:
                made += await insert(self.connection, jobs, self._now)
                jobs.clear()
        return made + await insert(self.connection, jobs, self._now)


def _counts_text(groups: Mapping[int, GroupCount]) -> str:
    """The counts as the text of an array."""
    return "{" + ",".join(f"{group},{c.missing},{c.failed},{c.skipped}" for group, c in groups.items()) + "}"
