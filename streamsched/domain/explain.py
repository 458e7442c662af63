"""Why a schedule has not fired yet: a tree in the shape of its trigger."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from streamsched.domain.accumulation import NOTHING
from streamsched.domain.arrivals import NOBODY, Arrivals
from streamsched.domain.cell import IDLE, Cell, due_at
from streamsched.domain.fold import TriggerState
from streamsched.domain.plan import Plan, Shape, Slot, Watch
from streamsched.domain.timed import OnExpiry, Quiet, Silence, Then, Unless, Within


@dataclass(frozen=True, slots=True)
class Explanation:
    """One node of the tree.

    Attributes:
        text: the trigger in words.
        have, need, missing: a leaf counts in its own unit (partitions, bytes, times, ticks), a composite in children.
        events: what counted so far, in order of arrival; a composite's are at its leaves.
        children: in the trigger's order; a leaf that occurs twice is explained twice.
        due_at: when time alone will change this part (UTC).
        then: what happens at that instant; "" without one.
    """

    text: str
    holds: bool
    have: int
    need: int
    missing: int
    events: Arrivals = NOBODY
    children: tuple[Explanation, ...] = ()
    due_at: datetime | None = None
    then: str = ""


def explain(state: TriggerState) -> Explanation:
    """What the accumulation has and what it still wants. The root never holds: a schedule that would has just fired.
    Of a schedule that correlates it explains what a key that is not open yet would want.
    """
    return explain_cell(state.plan, state.cell)


def explain_cell(plan: Plan, cell: Cell, key: str = "") -> Explanation:
    """What one key of a schedule that correlates has and still wants."""
    return _explain(plan.shape, cell, key)


def _explain(shape: Shape, cell: Cell, key: str) -> Explanation:
    text = str(shape.trigger)
    children = tuple(_explain(child, cell, key) for child in shape.children)
    match shape.is_for:
        case Slot() as slot:
            has = cell.accumulations.get(slot.id, NOTHING)
            return _node(text, has.count, slot.wanted(key), events=has.events)
        case Watch() as watch:
            holds = bool(cell.held & watch.bit)
            due = due_at(watch, cell.clocks.get(watch.place, IDLE))
            then = "" if due is None else _then(watch)
            return Explanation(text, holds, int(holds), 1, int(not holds), NOBODY, children, due, then)
        case None:
            held = sum(child.holds for child in children)
            return _node(text, held, shape.node.wanted if len(children) > 1 else 1, children=children)


def _then(watch: Watch) -> str:
    match watch.timed:
        case Within(then=OnExpiry.RESET) | Then():
            return "starts over"
        case Within() | Quiet() | Unless() | Silence():
            return "holds"


def _node(
    text: str, have: int, need: int, *, events: Arrivals = NOBODY, children: tuple[Explanation, ...] = ()
) -> Explanation:
    return Explanation(text, have >= need, have, need, max(0, need - have), events, children)
