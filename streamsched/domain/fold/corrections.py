"""Corrections of a finished key: collected in its cell, and made a job together.

A correction is any event that a leaf accepts under the key, in its own right: a period of a roll-up that was rewritten
in part counts with that part. Leaves of vetoes and silences take none.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from streamsched.domain.fold.accumulation import NOTHING, Accumulation, add_event, amount_and_parts
from streamsched.domain.fold.cell import Cell, Finished
from streamsched.domain.fold.cell_update import LeafEvent
from streamsched.domain.fold.plan import Plan
from streamsched.domain.jobs.job import Contribution
from streamsched.domain.triggers.consumption import Consumption

#: Most events that wait for quiet; with more of them the job is made.
MOST_WAITING: Final = 1_000


def finish(cell: Cell, job: str, at: datetime) -> Cell:
    """The cell of a key that has fired: nothing is left in it."""
    return Cell({}, opened_at=at, asked=cell.asked, number=cell.number, finished=Finished(job))


def correct(cell: Cell, leaf_events: Iterable[LeafEvent], at: datetime) -> tuple[Cell, list[str]]:
    """The cell with one more correction, and the ids of the leaves that take it; the same cell when none does."""
    assert cell.finished is not None
    accumulations: dict[str, Accumulation] = dict(cell.accumulations)
    taken: list[str] = []
    for slot, event, _ in leaf_events:
        if slot.veto or slot.breaks_silence:
            continue
        had = accumulations.get(slot.id, NOTHING)
        has = add_event(had, slot, event, Consumption.CUMULATIVE)
        if has is not had:
            accumulations[slot.id] = has
            taken.append(slot.leaf)
    if not taken:
        return cell, taken
    return cell._replace(accumulations=accumulations, finished=cell.finished._replace(last=at)), taken


def contributions(plan: Plan, cell: Cell) -> tuple[Contribution, ...]:
    """What the job of its corrections is given."""
    return tuple(
        Contribution(slot.leaf, *amount_and_parts(has, slot))
        for slot in plan.slots
        if (has := cell.accumulations.get(slot.id)) is not None and has.events
    )


def is_crowded(cell: Cell) -> bool:
    """Whether more corrections wait than may."""
    return sum(len(has.events) for has in cell.accumulations.values()) > MOST_WAITING
