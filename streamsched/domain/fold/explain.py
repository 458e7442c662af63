"""Why a schedule has not fired yet: a tree in the shape of its trigger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from streamsched.domain.events.event_list import EMPTY_LIST, EventList
from streamsched.domain.fold.accumulation import NOTHING, Accumulation
from streamsched.domain.fold.cell import IDLE, Cell, node_due_at
from streamsched.domain.fold.fold import TriggerState
from streamsched.domain.fold.plan import LeafSlot, Plan, Shape, TimedNode
from streamsched.domain.triggers.completeness import KeyCompleteness, completeness
from streamsched.domain.triggers.timed import OnExpiry, Quiet, Silence, Then, Unless, Within


@dataclass(frozen=True, slots=True)
class Explanation:
    """One node of the tree.

    Attributes:
        text: the trigger as text.
        have, need, missing: a leaf counts in its own unit (partitions, bytes, times, ticks), a composite in children.
        events: those that counted so far, in order of arrival; empty for a composite. With `distinct` they include
            events replaced since.
        children: in the trigger's order; a leaf that occurs twice is explained twice.
        due_at: when time alone changes this node (UTC).
        then: what happens at that instant; "" without one.
        completeness: of a leaf under a key; None where nothing says what belongs to it, or not all of its events are at
            hand and nothing says what they were of.
    """

    text: str
    holds: bool
    have: int
    need: int
    missing: int
    events: EventList = EMPTY_LIST
    children: tuple[Explanation, ...] = ()
    due_at: datetime | None = None
    then: str = ""
    distinct: bool = False
    completeness: KeyCompleteness | None = None


def explain(state: TriggerState) -> Explanation:
    """What the schedule has accumulated and still needs. The root never holds, because a schedule that holds has fired.
    For a schedule that correlates: what a key that is not open yet needs.
    """
    return explain_cell(state.plan, state.cell)


def explain_cell(plan: Plan, cell: Cell, key: str = "") -> Explanation:
    """What one correlation key has accumulated and still needs."""
    return _explain(plan.shape, cell, key)


def explained_leaves(plan: Plan, cell: Cell, key: str) -> Iterator[tuple[LeafSlot, Explanation]]:
    """The leaves of the tree of `explain_cell`, left to right, each with the slot that it explains."""
    yield from _leaves(plan.shape, explain_cell(plan, cell, key))


def _leaves(shape: Shape, node: Explanation) -> Iterator[tuple[LeafSlot, Explanation]]:
    if isinstance(shape.is_for, LeafSlot):
        yield shape.is_for, node
    for part, below in zip(shape.children, node.children, strict=True):
        yield from _leaves(part, below)


def _explain(shape: Shape, cell: Cell, key: str) -> Explanation:
    text = str(shape.trigger)
    children = tuple(_explain(child, cell, key) for child in shape.children)
    match shape.is_for:
        case LeafSlot() as slot:
            has = cell.accumulations.get(slot.id, NOTHING)
            node = _node(text, has.count, slot.wanted_amount(key), events=has.events)
            return replace(node, distinct=slot.distinct, completeness=_completeness(slot, key, has))
        case TimedNode() as node:
            holds = bool(cell.held & node.bit)
            due = node_due_at(node, cell.clocks.get(node.place, IDLE))
            then = "" if due is None else _consequence(node)
            return Explanation(text, holds, int(holds), 1, int(not holds), EMPTY_LIST, children, due, then)
        case None:
            held = sum(child.holds for child in children)
            return _node(text, held, shape.node.wanted if len(children) > 1 else 1, children=children)


def _completeness(slot: LeafSlot, key: str, has: Accumulation) -> KeyCompleteness | None:
    known = not has.events.older or has.present is not None
    return completeness(slot.per, key, has.events, has.present) if slot.per is not None and key and known else None


def _consequence(node: TimedNode) -> str:
    match node.timed:
        case Within(then=OnExpiry.RESET) | Then():
            return "starts over"
        case Within() | Quiet() | Unless() | Silence():
            return "holds"


def _node(
    text: str, have: int, need: int, *, events: EventList = EMPTY_LIST, children: tuple[Explanation, ...] = ()
) -> Explanation:
    return Explanation(text, have >= need, have, need, max(0, need - have), events, children)
