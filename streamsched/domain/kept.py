"""What of an accumulation still fits another definition of the schedule, when its owner wants to keep it (ADR 0012)."""

from __future__ import annotations

from collections.abc import Mapping

from streamsched.domain.accumulation import Accumulation, renewed
from streamsched.domain.arrivals import NOBODY
from streamsched.domain.cell import Cell, cell_of
from streamsched.domain.consumption import Consumption
from streamsched.domain.event import StreamSize
from streamsched.domain.plan import Plan, Slot
from streamsched.domain.state import Definition


def fitting(old: Plan, new: Plan) -> Mapping[str, str]:
    """Slot of the old plan → slot of the new one that goes on from it.

    The same leaf in the same place, if there is one; else the same leaf; else one that only wants more or less of it.
    Always in the same role, with its keys found in the same way. Each goes on from one.
    """
    free = {slot.id: slot for slot in new.slots}
    found: dict[str, str] = {}
    for fits in (_same, _equal, _alike):
        for slot in old.slots:
            heirs = (other for other in free.values() if _fits(slot, other) and fits(slot, other))
            if slot.id not in found and (heir := next(heirs, None)) is not None:
                found[slot.id] = heir.id
                del free[heir.id]
    return found


def kept(old: Definition, new: Definition, cells: Mapping[str, Cell]) -> dict[str, Cell]:
    """The cells as the new definition goes on with them; "" is the one of a trigger that does not correlate.

    Clocks go on when the parts that mind them are the same in both plans, one by one; else they begin anew, and what
    had to come in order begins anew with them. A wake-up has to be asked for again.
    """
    heirs = fitting(old.plan, new.plan)
    slots = {slot.id: slot for slot in new.plan.slots}
    same = _same_watches(old.plan, new.plan, heirs)
    found: dict[str, Cell] = {}
    for key, cell in cells.items():
        if (key == "") != (new.plan.per is None):
            continue
        has: dict[str, Accumulation] = {}
        for name, one in cell.accumulations.items():
            heir = slots.get(heirs.get(name, ""))
            if heir is not None and (same or not heir.after):
                has[heir.id] = _fitted(one, heir, heir.wanted(key), old.consumption, new.consumption)
        clocks = cell.clocks if same else {}
        if has or clocks or key == "":
            found[key] = cell_of(new.plan, has, clocks, opened_at=cell.opened_at, number=cell.number, key=key)
    return found


def _same_watches(old: Plan, new: Plan, heirs: Mapping[str, str]) -> bool:
    return [watch.timed for watch in old.watches] == [watch.timed for watch in new.watches] and all(
        heirs.get(name) == name for watch in old.watches for name in watch.slots
    )


def _fitted(has: Accumulation, slot: Slot, needed: int, old: Consumption, new: Consumption) -> Accumulation:
    """What a leaf has, as another policy keeps it. Whole sizes of a stream, once they are kept, cannot be divided."""
    whole = any(isinstance(event.fact, StreamSize) and event.fact.absolute for event in has.events)
    if whole and old is Consumption.CUMULATIVE and new is not old:
        return Accumulation(0, has.level, NOBODY)
    return renewed(has, slot, needed) if new is Consumption.LATEST and has.count > needed else has


def _same(one: Slot, other: Slot) -> bool:
    return one.id == other.id


def _equal(one: Slot, other: Slot) -> bool:
    return one.leaf == other.leaf


def _alike(one: Slot, other: Slot) -> bool:
    return one.kin == other.kin


def _fits(one: Slot, other: Slot) -> bool:
    return (one.veto, one.breaks) == (other.veto, other.breaks) and _by(one) == _by(other)


def _by(slot: Slot) -> object:
    return None if slot.per is None else (slot.per.by, slot.per.grain, slot.per.rolled_up_to, slot.per.fanned_out_to)
