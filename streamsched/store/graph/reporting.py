"""What nodes tell their children in a transaction: which of them count what, are created, or are left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from streamsched.domain.errors import ConflictError
from streamsched.domain.graph.graph import ParentGroup
from streamsched.domain.graph.node import NodeState, ParentOutcome, parent_outcome
from streamsched.domain.graph.progress import Shift, new_node
from streamsched.domain.graph.task import NodeId
from streamsched.store.graph.rows import SQL, Edges, NodeBatch, iterate_fairly
from streamsched.store.sql import Select


class _ExitCode(NamedTuple):
    job: str
    exit_code: int | None


_EXIT_CODES: Final = Select(SQL["exit_codes"], _ExitCode)


def report_to_children(batch: NodeBatch, node: NodeId, edges: Edges) -> dict[NodeId, list[Shift]]:
    """What the children of a node have to count; none when they have, when it does not exist, or when its children are
    not given.
    """
    known = batch.nodes.get(node)
    if known is None or not (known.is_unreported or known.stuck) or node not in edges.children:
        return {}
    before, after = known.reported, parent_outcome(known.state)
    stuck = tuple(sorted(edges.stuck.get(node, ())))
    batch.put(replace(known, reported=after, stuck=stuck), "" if after is ParentOutcome.COMPLETE else None)
    shifts: dict[NodeId, list[Shift]] = {}
    counted_as = batch.graph.reactions.outcome_for_group
    for child, group in edges.children[node]:
        counts = (counted_as(child.task, group, node.task, each) for each in (before, after))
        shifts.setdefault(child, []).append(Shift(group, *counts))
    return shifts


def find_shifts(
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
        for child, changes in report_to_children(batch, mover, edges).items():
            if child.task not in stuck:
                shifts.setdefault(child, []).extend(changes)
                continue
            if child not in edges.parents and child.task not in now:
                raise ConflictError("the children of a node could not be computed meanwhile; try again")
            anew.setdefault(child, []).extend(changes)
    return shifts, anew


async def choose_children(
    batch: NodeBatch, movers: Iterable[NodeId], edges: Edges
) -> tuple[Mapping[NodeId, str], frozenset[NodeId]]:
    """By exit codes of nodes that completed and whose children have not counted that: the children that are skipped,
    with the reason, and those that go on although an earlier round may have skipped them.
    """
    reactions = batch.graph.reactions
    found = [
        node
        for node in (batch.nodes.get(mover) for mover in movers if reactions.branches(mover.task))
        if node is not None and node.state is NodeState.COMPLETED and node.is_unreported and node.id in edges.children
    ]
    if not found:
        return {}, frozenset()
    codes: Mapping[str | None, int | None] = dict(
        await _EXIT_CODES.fetch(batch.connection, [batch.job(node.id) for node in found])
    )
    left: dict[NodeId, str] = {}
    again: set[NodeId] = set()
    for node in found:
        code = codes.get(batch.job(node.id))
        for child, _ in edges.children[node.id]:
            if reactions.leaves_out(node.id.task, code, child.task):
                left[child] = f"left out by {node.id}, whose run had exit code {code}"
            elif node.round > 1 and child not in edges.invalid:
                again.add(child)
    return left, frozenset(again - left.keys())


async def create_nodes(
    batch: NodeBatch, nodes: Sequence[NodeId], edges: Edges, left: Mapping[NodeId, str] | None = None
) -> None:
    """Creates nodes; those of `left` are skipped, with the reason.

    Raises:
        ConflictError: the parents of one of them were not given.
    """
    if any(node not in edges.parents for node in nodes):
        raise ConflictError("a node was deleted meanwhile; try again")
    reported = await batch.read_reported(parents_in(edges.parents[node] for node in nodes))
    async for node in iterate_fairly(nodes):
        reason = None if left is None else left.get(node)
        valid = node not in edges.invalid and reason is None
        batch.put(new_node(node, edges.parents[node], reported, batch.graph.reactions, valid=valid), reason)


def parents_in(groups_of_nodes: Iterable[Sequence[ParentGroup]]) -> Iterable[NodeId]:
    """All parents in these groups of several nodes."""
    return (node for groups in groups_of_nodes for group in groups for node in group.parents)
