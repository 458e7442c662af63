"""`ports.graph.nodes.NodeStore` on PostgreSQL. A transaction has a fixed number of statements, however many nodes it
moves.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import asyncpg

from streamsched.codec.graph.task import task_to_json, tasks_from_json
from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.domain.graph.graph import ParentGroup
from streamsched.domain.graph.node import NODE_STATES, NodeFact, NodeState, ParentOutcome, parent_outcome
from streamsched.domain.graph.progress import (
    Shift,
    cancelled,
    counted,
    ended,
    left_out,
    new_node,
    recount,
    reset,
    shifted,
)
from streamsched.domain.graph.task import NodeId, TaskTemplate
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.limits import as_stored
from streamsched.domain.names import AppRef
from streamsched.ports.graph.nodes import Edges, NodeEnd, NodeView, OldNode, StoredGraph, UnreportedNode
from streamsched.store.connections import translated
from streamsched.store.graph.rows import SQL, NodeBatch, columns, lock, node_of, yielding


class PostgresNodeStore:
    """See `ports.graph.nodes.NodeStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def put(self, app: AppRef, tasks: Sequence[TaskTemplate], *, now: datetime) -> int:
        text = json.dumps({task.name: task_to_json(task) for task in tasks}, ensure_ascii=False)
        with translated():
            generation: int = await self._pool.fetchval(SQL["put"], str(app), text, now)
            await self._pool.execute(SQL["ring"])
            return generation

    async def graph(self, app: AppRef) -> StoredGraph:
        with translated():
            row = await self._pool.fetchrow(SQL["graph"], str(app))
        if row is None:
            raise NotFoundError("graph of app", str(app))
        with as_stored():
            return StoredGraph(app, row["generation"], tasks_from_json(json.loads(row["tasks"])))

    async def states(self, app: AppRef, nodes: Sequence[NodeId]) -> Mapping[NodeId, NodeState]:
        with translated():
            rows = await self._pool.fetch(SQL["states"], str(app), *columns(nodes))
        return {NodeId(row["task"], row["job_id"]): NodeState(row["state"]) for row in rows}

    async def views(self, app: AppRef, nodes: Sequence[NodeId]) -> Mapping[NodeId, NodeView]:
        with translated():
            rows = await self._pool.fetch(SQL["views"], str(app), *columns(nodes))
        return {NodeId(row["task"], row["job_id"]): _view(row) for row in rows}

    async def listed(
        self, app: AppRef, *, task: str | None, state: NodeState | None, after: NodeId, limit: int
    ) -> Sequence[NodeView]:
        with translated():
            rows = await self._pool.fetch(SQL["listed"], str(app), task, state, after.task, after.job_id, limit)
        return [_view(row) for row in rows]

    async def counts(self, app: AppRef) -> Mapping[tuple[str, NodeState], int]:
        with translated():
            rows = await self._pool.fetch(SQL["counts"], str(app))
        return {(row["task"], NodeState(row["state"])): row["nodes"] for row in rows}

    async def submit(self, graph: StoredGraph, edges: Edges, again: Sequence[NodeId], *, now: datetime) -> int:
        async with self._batch(graph, now) as batch:
            await batch.read([*edges.parents, *again, *edges.children])
            await _create(batch, [node for node in edges.parents if node not in batch.nodes], edges)
            for node in again:
                if node in batch.nodes:
                    batch.put(reset(batch.nodes[node]), "")
            await batch.read(dict.fromkeys(child for found in edges.children.values() for child, _ in found))
            for node in edges.children:  # parents first: a blocked node waits in the same moment as its parents
                if node in batch.nodes and batch.nodes[node].stuck:  # its children are counted anew, afterwards
                    continue
                for child, shifts in _report(batch, node, edges).items():
                    if child in batch.nodes:
                        batch.put(shifted(batch.nodes[child], shifts))
            return await batch.write()

    async def cancel(self, graph: StoredGraph, nodes: Sequence[NodeId], reason: str, *, now: datetime) -> Sequence[str]:
        async with self._batch(graph, now) as batch:
            await batch.read(nodes)
            found = [batch.nodes[node] for node in nodes if node in batch.nodes]
            for node in found:
                if node.state is NodeState.WAITING:
                    batch.put(cancelled(node), reason)
            await batch.write()
            return [job for node in found if node.state is NodeState.QUEUED and (job := batch.job(node.id)) is not None]

    async def ends(self, limit: int) -> Sequence[NodeEnd]:
        with translated():
            rows = await self._pool.fetch(SQL["ends"], limit)
            found = {row["id"]: _end(row) for row in rows}
            if over := [number for number, end in found.items() if end is None]:
                await self._pool.execute(SQL["forget"], over)
        return [end for end in found.values() if end is not None]

    async def unreported(self, limit: int, *, now: datetime) -> Sequence[UnreportedNode]:
        return await self._listed("unreported", limit, now)

    async def postpone(self, app: AppRef, nodes: Mapping[NodeId, str], *, until: datetime) -> None:
        with translated():
            await self._pool.execute(SQL["postpone"], str(app), *columns(nodes), list(nodes.values()), until)

    async def outdated(self, limit: int) -> Sequence[UnreportedNode]:
        return await self._listed("outdated", limit)

    async def held(self, limit: int) -> Sequence[UnreportedNode]:
        return await self._listed("held", limit)

    async def release(self, graph: StoredGraph, nodes: Sequence[NodeId], *, now: datetime) -> int:
        async with self._batch(graph, now) as batch:
            await batch.read(nodes)
            for node in [batch.nodes[each] for each in nodes if each in batch.nodes]:
                if node.state is NodeState.WAITING:
                    batch.rewrite(recount(node, node.groups))
            return await batch.write()

    async def old(self, before: datetime, *, behind: OldNode | None, limit: int) -> Sequence[OldNode]:
        first = (datetime.min.replace(tzinfo=UTC), "", "", "")
        after = first if behind is None else (behind.ended_at, behind.app, *behind.node)
        with translated():
            rows = await self._pool.fetch(SQL["old"], before, *after, limit)
        return [OldNode(row["app"], NodeId(row["task"], row["job_id"]), row["changed_at"]) for row in rows]

    async def leave(
        self, graph: StoredGraph, nodes: Sequence[NodeId], children: Sequence[NodeId], *, before: datetime
    ) -> int:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await lock(connection, graph)
                rows = await connection.fetch(SQL["states"], str(graph.app), *columns(children))
                if any(NodeState(row["state"]) not in NODE_STATES.ends for row in rows):
                    raise ConflictError("a child was asked for meanwhile")
                return await connection.fetchval(SQL["leave"], str(graph.app), *columns(nodes), before)

    async def _listed(self, query: str, *arguments: object) -> Sequence[UnreportedNode]:
        with translated():
            rows = await self._pool.fetch(SQL[query], *arguments)
        return [
            UnreportedNode(row["app"], NodeId(row["task"], row["job_id"]), tuple(row.get("stuck") or ()))
            for row in rows
        ]

    async def move(
        self, graph: StoredGraph, ends: Sequence[NodeEnd], nodes: Sequence[NodeId], edges: Edges, *, now: datetime
    ) -> int:
        movers = list(dict.fromkeys([*(end.node for end in ends), *nodes]))
        async with self._batch(graph, now) as batch:
            await batch.read(movers)
            counted_ends: list[int] = []
            for end in ends:
                node = batch.nodes.get(end.node)
                if node is not None and node.state is NodeState.QUEUED and batch.job(end.node) == end.job:
                    if node.unreported:  # its children count first that it is to run again, and the end afterwards
                        continue
                    fact, reason = end.fact, end.reason
                    if fact is NodeFact.SUCCEEDED:
                        fact, reason = graph.reactions.end(end.node.task, end.exit_code)
                    batch.put(ended(node, fact), reason)
                counted_ends.append(end.number)
            left, again = await _chosen(batch, movers, edges)
            shifts, anew = _shifts(batch, movers, edges)
            await batch.read([*shifts, *anew])
            reported = await batch.reported(_all(edges.parents[child] for child in anew if child in edges.parents))
            missing = []
            for child in dict.fromkeys([*shifts, *anew]):
                changes = [*shifts.get(child, ()), *anew.get(child, ())]
                known = batch.nodes.get(child)
                if child in anew and child not in edges.parents:  # its part is counted when it can be computed
                    changes = shifts.get(child, [])
                elif child in anew and known is not None:
                    groups = counted(child, edges.parents[child], reported, graph.reactions)
                    known, changes = recount(known, groups, reopened=any(each.reopens for each in changes)), []
                if known is None:
                    creates = any(graph.reactions.creates(child.task, each.after) for each in changes)
                    missing += [child] if creates or (changes and child in left) else []
                elif child in left:
                    batch.put(left_out(known, changes), left[child])
                elif child in again and known.state is NodeState.SKIPPED:
                    batch.put(reset(shifted(known, changes)), "")
                else:
                    batch.put(shifted(known, changes))
            await _create(batch, missing, edges, left)
            made = await batch.write()
            await batch.connection.execute(SQL["forget"], counted_ends)
            return made

    async def recount(self, graph: StoredGraph, nodes: Sequence[NodeId], edges: Edges, *, now: datetime) -> int:
        async with self._batch(graph, now) as batch:
            await batch.read(nodes)
            reported = await batch.reported(_all(edges.parents.values()))
            for node in nodes:
                if node in batch.nodes:
                    known = batch.nodes[node]
                    groups = known.groups
                    if node in edges.parents:
                        groups = counted(node, edges.parents[node], reported, graph.reactions)
                    batch.put(recount(known, groups), anew=True)
            return await batch.write()

    @asynccontextmanager
    async def _batch(self, graph: StoredGraph, now: datetime) -> AsyncIterator[NodeBatch]:
        """A transaction under the lock of the graph."""
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await lock(connection, graph)
                yield NodeBatch(connection, graph, now)


def _report(batch: NodeBatch, node: NodeId, edges: Edges) -> dict[NodeId, list[Shift]]:
    """What the children of a node have to count; none when they have, when it does not exist, or when its children are
    not given.
    """
    known = batch.nodes.get(node)
    if known is None or not (known.unreported or known.stuck) or node not in edges.children:
        return {}
    before, after = known.reported, parent_outcome(known.state)
    stuck = tuple(sorted(edges.stuck.get(node, ())))
    batch.put(replace(known, reported=after, stuck=stuck), "" if after is ParentOutcome.COMPLETE else None)
    shifts: dict[NodeId, list[Shift]] = {}
    counted_as = batch.graph.reactions.counted
    for child, group in edges.children[node]:
        counts = (counted_as(child.task, group, node.task, each) for each in (before, after))
        shifts.setdefault(child, []).append(Shift(group, *counts))
    return shifts


def _shifts(
    batch: NodeBatch, movers: Iterable[NodeId], edges: Edges
) -> tuple[dict[NodeId, list[Shift]], dict[NodeId, list[Shift]]]:
    """What children have to count, and the changes of those that are to be counted anew, because not all children of
    their task could be computed now or before.

    Raises:
        ConflictError: the parents of one of these were not given, and it is not one of those.
    """
    shifts: dict[NodeId, list[Shift]] = {}
    anew: dict[NodeId, list[Shift]] = {}
    for mover in movers:
        known = batch.nodes.get(mover)
        now = edges.stuck.get(mover, frozenset())
        stuck = now if known is None else now.union(known.stuck)
        for child, changes in _report(batch, mover, edges).items():
            if child.task not in stuck:
                shifts.setdefault(child, []).extend(changes)
                continue
            if child not in edges.parents and child.task not in now:
                raise ConflictError("the children of a node could not be computed meanwhile; try again")
            anew.setdefault(child, []).extend(changes)
    return shifts, anew


async def _chosen(
    batch: NodeBatch, movers: Iterable[NodeId], edges: Edges
) -> tuple[Mapping[NodeId, str], frozenset[NodeId]]:
    """By exit codes of nodes that completed and whose children have not counted that: the children that are skipped,
    with the reason, and those that go on although an earlier round may have skipped them.
    """
    reactions = batch.graph.reactions
    found = [
        node
        for node in (batch.nodes.get(mover) for mover in movers if reactions.branches(mover.task))
        if node is not None and node.state is NodeState.COMPLETED and node.unreported and node.id in edges.children
    ]
    if not found:
        return {}, frozenset()
    rows = await batch.connection.fetch(SQL["exit_codes"], [batch.job(node.id) for node in found])
    codes = {row["job"]: row["exit_code"] for row in rows}
    left: dict[NodeId, str] = {}
    again: set[NodeId] = set()
    for node in found:
        code = codes.get(batch.job(node.id))
        for child, _ in edges.children[node.id]:
            if reactions.left_out(node.id.task, code, child.task):
                left[child] = f"left out by {node.id}, whose run had exit code {code}"
            elif node.round > 1 and child not in edges.invalid:
                again.add(child)
    return left, frozenset(again - left.keys())


async def _create(
    batch: NodeBatch, nodes: Sequence[NodeId], edges: Edges, left: Mapping[NodeId, str] | None = None
) -> None:
    """Creates nodes; those of `left` are skipped, with the reason.

    Raises:
        ConflictError: the parents of one of them were not given.
    """
    if any(node not in edges.parents for node in nodes):
        raise ConflictError("a node was deleted meanwhile; try again")
    reported = await batch.reported(_all(edges.parents[node] for node in nodes))
    async for node in yielding(nodes):
        reason = None if left is None else left.get(node)
        valid = node not in edges.invalid and reason is None
        batch.put(new_node(node, edges.parents[node], reported, batch.graph.reactions, valid=valid), reason)


def _all(parents: Iterable[Sequence[ParentGroup]]) -> Iterable[NodeId]:
    return (node for groups in parents for group in groups for node in group.parents)


def _view(row: Any) -> NodeView:
    return NodeView(node_of(row), row["job"], row["reason"], row["created_at"], row["changed_at"], row["run_state"])


def _end(row: Any) -> NodeEnd | None:
    """The end of a node's job; None when it is not, or not yet, the end of the current job of a queued node."""
    if row["app"] is None:
        return None
    state, run = row["state"], row["run_state"]
    if state in (JobState.LAUNCHED, JobState.PENDING_LAUNCH) and run is not None and RunState(run).terminal:
        fact = NodeFact.SUCCEEDED if run == RunState.COMPLETED else NodeFact.FAILED
        reason = "" if fact is NodeFact.SUCCEEDED else f"its run {run}: {row['run_reason']}"
    elif state is not None and state != JobState.LAUNCHED and JobState(state).terminal:
        fact = NodeFact.REPLACED if state == JobState.OBSOLETE and row["stands"] else NodeFact.FAILED
        reason = f"its job {state}: {row['reason']}"
    else:
        return None
    node = NodeId(row["task"], row["job_id"])
    stuck = tuple(row["stuck"])
    return NodeEnd(row["id"], row["app"], node, row["job"], fact, reason, row["exit_code"], stuck)
