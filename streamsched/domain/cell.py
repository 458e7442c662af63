"""A cell: one accumulation of a schedule. One that correlates has a cell for each open key, any other has just one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple, assert_never

from streamsched.domain.accumulation import Accumulation
from streamsched.domain.plan import Plan, Watch
from streamsched.domain.timed import Quiet, Silence, Then, Unless, Within


class Clock(NamedTuple):
    """What a part that minds the clock remembers (log time, UTC).

    Attributes:
        since: when it began: its first event counted, or its first part held. None: it has not begun.
        last: when the last event came that it wants quiet or silence after.
        held: it holds, and goes on holding until the whole fires.
    """

    since: datetime | None = None
    last: datetime | None = None
    held: bool = False


IDLE: Final = Clock()
NO_CLOCKS: Final[Mapping[int, Clock]] = MappingProxyType({})


class Cell(NamedTuple):
    """What has come since the last satisfaction.

    Attributes:
        accumulations: slot id → what it has; a slot that has nothing is absent.
        held: the bits of the leaves and watches that hold.
        clocks: place of a watch → its clock; one that has not begun is absent.
        opened_at: when its key opened (log time); None in a trigger that does not correlate.
        number: greater than that of any key that was open when this one opened; 0 in a trigger that does not correlate.
        asked: the wake-up that was asked for and has not come yet.
    """

    accumulations: Mapping[str, Accumulation]
    held: int = 0
    clocks: Mapping[int, Clock] = NO_CLOCKS
    opened_at: datetime | None = None
    asked: datetime | None = None
    number: int = 0


EMPTY: Final = Cell(MappingProxyType({}))


def cell_of(
    plan: Plan,
    accumulations: Mapping[str, Accumulation],
    clocks: Mapping[int, Clock] = NO_CLOCKS,
    *,
    opened_at: datetime | None = None,
    asked: datetime | None = None,
    number: int = 0,
    key: str = "",
) -> Cell:
    """A cell with what holds worked out."""
    held = held_bits(plan, accumulations, key)
    for place, clock in clocks.items():
        if clock.held:
            held |= plan.watches[place].bit
    return Cell(accumulations, held, clocks, opened_at, asked, number)


def held_bits(plan: Plan, accumulations: Mapping[str, Accumulation], key: str) -> int:
    """The bits of the leaves that hold."""
    return sum(
        slot.bit for slot in plan.slots if slot.id in accumulations and accumulations[slot.id].count >= slot.wanted(key)
    )


def due_at(watch: Watch, clock: Clock) -> datetime | None:
    """When a watch that does not hold yet does something of itself."""
    since, last = clock.since, clock.last
    if clock.held:
        return None
    match watch.timed:
        case Within(duration=limit) | Then(within=limit) | Unless(within=limit):
            return None if since is None or limit is None else _later(since, limit)
        case Quiet(duration=rest, at_most=most):
            if since is None or last is None:
                return None
            rested = _later(last, rest)
            return rested if most is None else min(rested, _later(since, most))
        case Silence(duration=rest):
            return None if last is None else _later(last, rest)
        case _:
            assert_never(watch.timed)


def next_due(plan: Plan, cell: Cell) -> datetime | None:
    """When time alone changes this cell."""
    found = [due for place, clock in cell.clocks.items() if (due := due_at(plan.watches[place], clock)) is not None]
    end = expires_at(plan, cell)
    return min(found if end is None else [*found, end], default=None)


def expires_at(plan: Plan, cell: Cell) -> datetime | None:
    """When a key ends, complete or not; None in a trigger that does not correlate."""
    if plan.per is None or cell.opened_at is None:
        return None
    return _later(cell.opened_at, plan.per.expires)


def _later(since: datetime, by: timedelta) -> datetime:
    """An instant so far off that no calendar has it never comes."""
    try:
        return since + by
    except OverflowError:
        return datetime.max.replace(tzinfo=since.tzinfo)
