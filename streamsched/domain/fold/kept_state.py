"""The part of an accumulation that a changed definition of the schedule keeps (ADR 12)."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from streamsched.domain.events.event import StreamSize
from streamsched.domain.events.event_list import EMPTY_LIST
from streamsched.domain.fold.accumulation import NOTHING, Accumulation, drop_surplus, recount
from streamsched.domain.fold.cell import NO_TIMED_NODES, Cell, cell_of
from streamsched.domain.fold.plan import LeafSlot, Plan
from streamsched.domain.fold.state import Definition
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.keys.key_value import SEPARATOR, key_value


def match_slots(old: Plan, new: Plan) -> Mapping[str, str]:
    """Maps each slot id of the old plan to the slot id of the new one that takes over its accumulation.

    Preferred is the same leaf in the same place, then the same leaf, then a leaf that only differs in the amount. Role
    and correlation must be equal. The mapping is one to one.
    """
    free = {slot.id: slot for slot in new.slots}
    found: dict[str, str] = {}
    for matches in (_same_slot, _same_leaf, _is_compatible):
        for slot in old.slots:
            candidates = (other for other in free.values() if _same_role(slot, other) and matches(slot, other))
            if slot.id not in found and (successor := next(candidates, None)) is not None:
                found[slot.id] = successor.id
                del free[successor.id]
    return found


def keep_cells(old: Definition, new: Definition, cells: Mapping[str, Cell]) -> dict[str, Cell]:
    """The cells under the new definition; "" is the key of a trigger that does not correlate.

    Clocks are kept when the timed nodes of both plans are equal, pair by pair; otherwise they restart, and so does what
    must arrive in order. Wake-ups must be requested again.
    """
    successors = match_slots(old.plan, new.plan)
    slots = {slot.id: slot for slot in new.plan.slots}
    olds = {slot.id: slot for slot in old.plan.slots}
    same = _same_timed_nodes(old.plan, new.plan, successors)
    found: dict[str, Cell] = {}
    for key, cell in cells.items():
        if (key == "") != (new.plan.per is None):
            continue
        name = _period_name(key, old.plan.per, new.plan.per)
        name = key if name in cells or name in found else name
        has: dict[str, Accumulation] = {}
        for leaf, one in cell.accumulations.items():
            slot = slots.get(successors.get(leaf, ""))
            if slot is not None and (same or not slot.after):
                now = recount(one, olds[leaf], slot, name)
                if now == NOTHING and one != NOTHING:
                    continue
                has[slot.id] = _fit_accumulation(now, slot, slot.wanted_amount(name), old.consumption, new.consumption)
        clocks = cell.clocks if same else NO_TIMED_NODES
        if cell.finished is not None:
            if new.plan.on_correction is not None and _same_keys(old.plan.per, new.plan.per):
                found[name] = Cell(has, 0, {}, cell.opened_at, None, cell.number, cell.finished)
            continue
        if has or clocks or key == "":
            found[name] = cell_of(new.plan, has, clocks, opened_at=cell.opened_at, number=cell.number, key=name)
    return found


def _same_timed_nodes(old: Plan, new: Plan, successors: Mapping[str, str]) -> bool:
    return [node.timed for node in old.timed_nodes] == [node.timed for node in new.timed_nodes] and all(
        successors.get(name) == name for node in old.timed_nodes for name in node.slots
    )


def _fit_accumulation(
    has: Accumulation, slot: LeafSlot, needed: int, old: Consumption, new: Consumption
) -> Accumulation:
    """An accumulation under another consumption policy. Absolute sizes of a stream cannot be divided, so they drop."""
    whole = any(isinstance(event.fact, StreamSize) and event.fact.absolute for event in has.events)
    if whole and old is Consumption.CUMULATIVE and new is not old:
        return Accumulation(0, has.level, EMPTY_LIST)
    return drop_surplus(has, slot, needed) if new is Consumption.LATEST and has.count > needed else has


def _same_slot(one: LeafSlot, other: LeafSlot) -> bool:
    return one.id == other.id


def _same_leaf(one: LeafSlot, other: LeafSlot) -> bool:
    return one.leaf == other.leaf


def _is_compatible(one: LeafSlot, other: LeafSlot) -> bool:
    return one.compatible_id == other.compatible_id


def _same_role(one: LeafSlot, other: LeafSlot) -> bool:
    return (one.veto, one.breaks_silence) == (other.veto, other.breaks_silence) and _same_keys(one.per, other.per)


def _same_keys(one: Per | None, other: Per | None) -> bool:
    """Whether both have the same keys; a text and the period that it names are the same."""
    if one is None or other is None:
        return one is other
    derived = [(per.by, per.run_of, per.grain, per.rolled_up_to, per.fanned_out_to, per.zone) for per in (one, other)]
    plain = one.grain is one.key_grain and other.grain is other.key_grain
    return derived[0] == derived[1] or (plain and one.by == other.by and None in (one.grain, other.grain))


def _period_name(key: str, old: Per | None, new: Per | None) -> str:
    """The key of the period that the key of a text names; the key itself where it names none."""
    if old is None or new is None or old.key_grain is not None or new.key_grain is None:
        return key
    texts = [unquote(each) for each in key.split(SEPARATOR)]
    by = new.by if new.grain is new.key_grain else (new.key_grain.value,)
    found = key_value(by, dict(zip(by, texts, strict=False)), new.key_grain, new.zone)
    return found if isinstance(found, str) and len(by) == len(texts) else key
