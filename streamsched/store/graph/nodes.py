"""Graphs and their nodes. Every change of nodes is one transaction under the lock of the app's graph, with as many
statements however many nodes it moves.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from streamsched.codec.graph.task import task_to_json, tasks_from_json
from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.domain.graph.node import NODE_STATES, NodeFact, NodeState
from streamsched.domain.graph.progress import GraphNode, cancel, count_parents, finish, leave_out, recount, reset, shift
from streamsched.domain.graph.task import NodeId, TaskTemplate
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import AppRef
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.graph.reporting import choose_children, create_nodes, find_shifts, parents_in, report_to_children
from streamsched.store.graph.rows import (
    REPORTED_STATES,
    SQL,
    Edges,
    NodeBatch,
    NodeViewRow,
    StoredGraph,
    columns,
    lock_graph,
    node_of,
)
from streamsched.store.sql import Select, fetch_value


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
class NodeView:
    """A node for readers. `run_state`: of the last run of its job; None without one."""

    node: GraphNode
    job: str | None
    reason: str
    created_at: datetime
    changed_at: datetime
    run_state: str | None = None

    @property
    def run_state_if_queued(self) -> str | None:
        """The run of a node that has not ended; None of others."""
        return self.run_state if self.node.state is NodeState.QUEUED else None


class _GraphRow(NamedTuple):
    generation: int
    tasks: str


class _NodeCount(NamedTuple):
    task: str
    state: str
    nodes: int


class _UnreportedRow(NamedTuple):
    app: str
    task: str
    job_id: str
    stuck: list[str]


class _OldRow(NamedTuple):
    app: str
    task: str
    job_id: str
    changed_at: datetime


class _EndRow(NamedTuple):
    id: int
    job: str
    app: str | None
    task: str
    job_id: str
    state: str | None
    reason: str | None
    run_state: str | None
    run_reason: str | None
    exit_code: int | None
    stands: bool
    stuck: list[str]


_GRAPH: Final = Select(SQL["graph"], _GraphRow)
_VIEWS: Final = Select(SQL["views"], NodeViewRow)
_PAGE: Final = Select(SQL["page"], NodeViewRow)
_COUNTS: Final = Select(SQL["counts"], _NodeCount)
_UNREPORTED: Final = Select(SQL["unreported"], _UnreportedRow)
_OUTDATED: Final = Select(SQL["outdated"], _UnreportedRow)
_HELD: Final = Select(SQL["held"], _UnreportedRow)
_OLD: Final = Select(SQL["old"], _OldRow)
_ENDS: Final = Select(SQL["ends"], _EndRow)


class NodeStore:
    """Nodes by app, task and job id."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def put(self, app: AppRef, tasks: Sequence[TaskTemplate], *, now: datetime) -> int:
        """Stores the tasks of an app in place of all former ones; returns the generation. Equal tasks change nothing.
        Nodes stay; those of other tasks than before are counted anew.
        """
        text = json.dumps({task.name: task_to_json(task) for task in tasks}, ensure_ascii=False)
        with translate_errors():
            generation = await fetch_value(self._pool, SQL["put"], int, str(app), text, now)
            await self._pool.execute(SQL["ring"])
            return generation

    async def graph(self, app: AppRef) -> StoredGraph:
        """The tasks of the app as they are stored.

        Raises:
            NotFoundError: the app has no tasks.
        """
        with translate_errors():
            row = await _GRAPH.fetchrow(self._pool, str(app))
        if row is None:
            raise NotFoundError("graph of app", str(app))
        return StoredGraph(app, row.generation, tasks_from_json(json.loads(row.tasks)))

    async def states(self, app: AppRef, nodes: Sequence[NodeId]) -> Mapping[NodeId, NodeState]:
        """The states of those that exist."""
        with translate_errors():
            rows = await REPORTED_STATES.fetch(self._pool, str(app), *columns(nodes))
        return {NodeId(row.task, row.job_id): NodeState(row.state) for row in rows}

    async def views(self, app: AppRef, nodes: Sequence[NodeId]) -> Mapping[NodeId, NodeView]:
        """Those that exist."""
        with translate_errors():
            rows = await _VIEWS.fetch(self._pool, str(app), *columns(nodes))
        return {NodeId(row.task, row.job_id): _view(row) for row in rows}

    async def page(
        self, app: AppRef, *, task: str | None, state: NodeState | None, after: NodeId, limit: int
    ) -> Sequence[NodeView]:
        """Nodes by task and job id, after that one."""
        with translate_errors():
            rows = await _PAGE.fetch(self._pool, str(app), task, state, after.task, after.job_id, limit)
        return [_view(row) for row in rows]

    async def counts(self, app: AppRef) -> Mapping[tuple[str, NodeState], int]:
        """The number of nodes by task and state."""
        with translate_errors():
            rows = await _COUNTS.fetch(self._pool, str(app))
        return {(row.task, NodeState(row.state)): row.nodes for row in rows}

    async def submit(self, graph: StoredGraph, edges: Edges, again: Sequence[NodeId], *, now: datetime) -> int:
        """Creates the nodes of `edges.parents` that do not exist, resets those of `again` that have ended, and makes
        the jobs of those that are ready; returns the number of jobs. Idempotent. The nodes of `edges.children`, parents
        first, are reported to their existing children in the same transaction.

        Raises:
            ConflictError: the graph changed meanwhile; nothing was stored.
        """
        async with self._batch(graph, now) as batch:
            await batch.read([*edges.parents, *again, *edges.children])
            await create_nodes(batch, [node for node in edges.parents if node not in batch.nodes], edges)
            for node in again:
                if node in batch.nodes:
                    batch.put(reset(batch.nodes[node]), "")
            await batch.read(dict.fromkeys(child for found in edges.children.values() for child, _ in found))
            for node in edges.children:  # parents first: a blocked node waits in the same moment as its parents
                if node in batch.nodes and batch.nodes[node].stuck:  # its children are counted anew, afterwards
                    continue
                for child, shifts in report_to_children(batch, node, edges).items():
                    if child in batch.nodes:
                        batch.put(shift(batch.nodes[child], shifts))
            return await batch.write()

    async def cancel(self, graph: StoredGraph, nodes: Sequence[NodeId], reason: str, *, now: datetime) -> Sequence[str]:
        """Fails those that wait; returns the jobs of those that are queued, which are to be cancelled.

        Raises:
            ConflictError: the graph changed meanwhile; nothing was stored.
        """
        async with self._batch(graph, now) as batch:
            await batch.read(nodes)
            found = [batch.nodes[node] for node in nodes if node in batch.nodes]
            for node in found:
                if node.state is NodeState.WAITING:
                    batch.put(cancel(node), reason)
            await batch.write()
            return [job for node in found if node.state is NodeState.QUEUED and (job := batch.job(node.id)) is not None]

    async def ends(self, limit: int) -> Sequence[NodeEnd]:
        """Ends of jobs, oldest first. Forgets those that are not the end of a current job of a node."""
        with translate_errors():
            found = {row.id: _end(row) for row in await _ENDS.fetch(self._pool, limit)}
            if over := [number for number, end in found.items() if end is None]:
                await self._pool.execute(SQL["forget"], over)
        return [end for end in found.values() if end is not None]

    async def unreported_nodes(self, limit: int, *, now: datetime) -> Sequence[UnreportedNode]:
        """Nodes that changed and that their children have not counted, longest waiting first, and those that are stuck,
        without those that are postponed.
        """
        return await self._read_unreported(_UNREPORTED, limit, now)

    async def postpone(self, app: AppRef, nodes: Mapping[NodeId, str], *, until: datetime) -> None:
        """Nodes whose children cannot be computed, each with the reason, are not given by `unreported` until then."""
        with translate_errors():
            await self._pool.execute(SQL["postpone"], str(app), *columns(nodes), list(nodes.values()), until)

    async def outdated_nodes(self, limit: int) -> Sequence[UnreportedNode]:
        """Nodes whose parents were counted by a former generation of their graph."""
        return await self._read_unreported(_OUTDATED, limit)

    async def held_nodes(self, limit: int) -> Sequence[UnreportedNode]:
        """Nodes that were ready while their schedules were paused or disabled, of schedules that are enabled now."""
        return await self._read_unreported(_HELD, limit)

    async def release(self, graph: StoredGraph, nodes: Sequence[NodeId], *, now: datetime) -> int:
        """Makes the jobs of those that wait only for their schedule; returns their number. Idempotent.

        Raises:
            ConflictError: the graph changed meanwhile; nothing was stored.
        """
        async with self._batch(graph, now) as batch:
            await batch.read(nodes)
            for node in [batch.nodes[each] for each in nodes if each in batch.nodes]:
                if node.state is NodeState.WAITING:
                    batch.rewrite(recount(node, node.groups))
            return await batch.write()

    async def old_nodes(self, before: datetime, *, behind: OldNode | None, limit: int) -> Sequence[OldNode]:
        """Nodes that ended before, in all graphs, oldest first, after that one."""
        first = (datetime.min.replace(tzinfo=UTC), "", "", "")
        after = first if behind is None else (behind.ended_at, behind.app, *behind.node)
        with translate_errors():
            rows = await _OLD.fetch(self._pool, before, *after, limit)
        return [OldNode(row.app, NodeId(row.task, row.job_id), row.changed_at) for row in rows]

    async def delete(
        self, graph: StoredGraph, nodes: Sequence[NodeId], children: Sequence[NodeId], *, before: datetime
    ) -> int:
        """Deletes those that ended before, and returns their number. `children` are theirs.

        Raises:
            ConflictError: the graph changed meanwhile, or a child has not ended; nothing was deleted.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await lock_graph(connection, graph)
                rows = await REPORTED_STATES.fetch(connection, str(graph.app), *columns(children))
                if any(NodeState(row.state) not in NODE_STATES.ends for row in rows):
                    raise ConflictError("a child was asked for meanwhile")
                return await fetch_value(connection, SQL["delete"], int, str(graph.app), *columns(nodes), before)

    async def _read_unreported(self, query: Select[_UnreportedRow], *args: object) -> Sequence[UnreportedNode]:
        with translate_errors():
            rows = await query.fetch(self._pool, *args)
        return [UnreportedNode(row.app, NodeId(row.task, row.job_id), tuple(row.stuck)) for row in rows]

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
        movers = list(dict.fromkeys([*(end.node for end in ends), *nodes]))
        async with self._batch(graph, now) as batch:
            await batch.read(movers)
            counted_ends: list[int] = []
            for end in ends:
                node = batch.nodes.get(end.node)
                if node is not None and node.state is NodeState.QUEUED and batch.job(end.node) == end.job:
                    if node.is_unreported:  # its children count first that it is to run again, and the end afterwards
                        continue
                    fact, reason = end.fact, end.reason
                    if fact is NodeFact.SUCCEEDED:
                        fact, reason = graph.reactions.end(end.node.task, end.exit_code)
                    batch.put(finish(node, fact), reason)
                counted_ends.append(end.number)
            left, again = await choose_children(batch, movers, edges)
            shifts, anew = find_shifts(batch, movers, edges)
            await batch.read([*shifts, *anew])
            reported = await batch.read_reported(
                parents_in(edges.parents[child] for child in anew if child in edges.parents)
            )
            missing = []
            for child in dict.fromkeys([*shifts, *anew]):
                changes = [*shifts.get(child, ()), *anew.get(child, ())]
                known = batch.nodes.get(child)
                if child in anew and child not in edges.parents:  # its part is counted when it can be computed
                    changes = shifts.get(child, [])
                elif child in anew and known is not None:
                    groups = count_parents(child, edges.parents[child], reported, graph.reactions)
                    known, changes = recount(known, groups, reopened=any(each.reopens for each in changes)), []
                if known is None:
                    creates = any(graph.reactions.creates(child.task, each.after) for each in changes)
                    missing += [child] if creates or (changes and child in left) else []
                elif child in left:
                    batch.put(leave_out(known, changes), left[child])
                elif child in again and known.state is NodeState.SKIPPED:
                    batch.put(reset(shift(known, changes)), "")
                else:
                    batch.put(shift(known, changes))
            await create_nodes(batch, missing, edges, left)
            made = await batch.write()
            await batch.connection.execute(SQL["forget"], counted_ends)
            return made

    async def recount(self, graph: StoredGraph, nodes: Sequence[NodeId], edges: Edges, *, now: datetime) -> int:
        """Counts the parents of these nodes anew and makes the jobs of those that are ready; returns their number. One
        whose parents are not given keeps its counts.

        Raises:
            ConflictError: the graph changed meanwhile; nothing was stored.
        """
        async with self._batch(graph, now) as batch:
            await batch.read(nodes)
            reported = await batch.read_reported(parents_in(edges.parents.values()))
            for node in nodes:
                if node in batch.nodes:
                    known = batch.nodes[node]
                    groups = known.groups
                    if node in edges.parents:
                        groups = count_parents(node, edges.parents[node], reported, graph.reactions)
                    batch.put(recount(known, groups), anew=True)
            return await batch.write()

    @asynccontextmanager
    async def _batch(self, graph: StoredGraph, now: datetime) -> AsyncIterator[NodeBatch]:
        """A transaction under the lock of the graph."""
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await lock_graph(connection, graph)
                yield NodeBatch(connection, graph, now)


def _view(row: NodeViewRow) -> NodeView:
    return NodeView(node_of(row), row.job, row.reason, row.created_at, row.changed_at, row.run_state)


def _end(row: _EndRow) -> NodeEnd | None:
    """The end of a node's job; None when it is not, or not yet, the end of the current job of a queued node."""
    if row.app is None:
        return None
    state, run = row.state, row.run_state
    if state in (JobState.LAUNCHED, JobState.PENDING_LAUNCH) and run is not None and RunState(run).is_terminal:
        fact = NodeFact.SUCCEEDED if run == RunState.COMPLETED else NodeFact.FAILED
        reason = "" if fact is NodeFact.SUCCEEDED else f"its run {run}: {row.run_reason}"
    elif state is not None and state != JobState.LAUNCHED and JobState(state).is_terminal:
        fact = NodeFact.REPLACED if state == JobState.OBSOLETE and row.stands else NodeFact.FAILED
        reason = f"its job {state}: {row.reason}"
    else:
        return None
    node = NodeId(row.task, row.job_id)
    return NodeEnd(row.id, row.app, node, row.job, fact, reason, row.exit_code, tuple(row.stuck))
