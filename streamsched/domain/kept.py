"""What of an accumulation still fits another definition of the schedule, when its owner wants to keep it."""

from __future__ import annotations

from collections.abc import Mapping

from streamsched.domain.accumulation import Accumulation
from streamsched.domain.cell import Cell, cell_of
from streamsched.domain.plan import Plan, Slot


def fitting(old: Plan, new: Plan) -> Mapping[str, str]:
    """Slot of the old plan → slot of the new one that goes on from it.

    An equal slot, if there is one; else one that is about the same and only wants more or less of it. Each goes on from
    one. Between a trigger that correlates and one that does not, or by something else, nothing fits.
    """
    if _keys(old) != _keys(new):
        return {}
    free = {slot.id: slot for slot in new.slots}
    found = {slot.id: slot.id for slot in old.slots if free.pop(slot.id, None) is not None}
    for slot in old.slots:
        if slot.id not in found:
            heir = next((name for name, other in free.items() if _alike(slot, other)), None)
            if heir is not None:
                found[slot.id] = heir
                del free[heir]
    return found


def kept(old: Plan, new: Plan, cells: Mapping[str, Cell]) -> dict[str, Cell]:
    """The cells as the new plan goes on with them; "" is the one of a trigger that does not correlate.

    Clocks go on when the parts that mind them are the same in both plans, one by one; else they begin anew.
    """
    heirs = fitting(old, new)
    same = [watch.timed for watch in old.watches] == [watch.timed for watch in new.watches]
    found: dict[str, Cell] = {}
    for key, cell in cells.items():
        if (key == "") != (new.per is None):
            continue
        has: dict[str, Accumulation] = {heirs[name]: has for name, has in cell.accumulations.items() if name in heirs}
        clocks = cell.clocks if same else {}
        if has or clocks or key == "":
            found[key] = cell_of(new, has, clocks, opened_at=cell.opened_at, key=key)
    return found


def _keys(plan: Plan) -> object:
    return None if plan.per is None else [_key(slot) for slot in plan.slots[:1]]


def _key(slot: Slot) -> object:
    per = slot.per
    return None if per is None else (len(per.by), per.grain, per.rolled_up_to, per.fanned_out_to)


def _alike(one: Slot, other: Slot) -> bool:
    return one.kin == other.kin and _by(one) == _by(other) and (one.veto, one.breaks) == (other.veto, other.breaks)


def _by(slot: Slot) -> object:
    return None if slot.per is None else (slot.per.by, slot.per.grain, slot.per.rolled_up_to, slot.per.fanned_out_to)
