"""A cell: one accumulation of a schedule. One that correlates has a cell for each open key, any other has just one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple, assert_never

from streamsched.domain.fold.accumulation import Accumulation
from streamsched.domain.fold.plan import Plan, TimedNode
from streamsched.domain.triggers.timed import Quiet, Silence, Then, Unless, Within


class TimedNodeState(NamedTuple):
    """The state of a timed node (log time, UTC).

    Attributes:
        since: when it started: its first event counted, or its first part held. None: it has not started.
        last: time of the last event from which quiet or silence is measured.
        held: it holds, until the whole trigger fires.
    """

    since: datetime | None = None
    last: datetime | None = None
    held: bool = False


IDLE: Final = TimedNodeState()
NO_TIMED_NODES: Final[Mapping[int, TimedNodeState]] = MappingProxyType({})


class Cell(NamedTuple):
    """What has accumulated since the last satisfaction.

    Attributes:
        accumulations: by slot id; an empty slot is absent.
        held: the bits of the leaves and timed nodes that hold.
        clocks: the state of each timed node by its index in `Plan.timed_nodes`; one that has not started is absent.
        opened_at: when its key opened (log time); None in a trigger that does not correlate.
        number: greater than that of any key that was open when this one opened; 0 in a trigger that does not correlate.
        asked: the due time of the requested wake-up that has not arrived yet.
    """

    accumulations: Mapping[str, Accumulation]
    held: int = 0
    clocks: Mapping[int, TimedNodeState] = NO_TIMED_NODES
    opened_at: datetime | None = None
    asked: datetime | None = None
    number: int = 0


EMPTY: Final = Cell(MappingProxyType({}))


def cell_of(
    plan: Plan,
    accumulations: Mapping[str, Accumulation],
    clocks: Mapping[int, TimedNodeState] = NO_TIMED_NODES,
    *,
    opened_at: datetime | None = None,
    asked: datetime | None = None,
    number: int = 0,
    key: str = "",
) -> Cell:
    """A cell with `held` computed."""
    held = held_bits(plan, accumulations, key)
    for place, clock in clocks.items():
        if clock.held:
            held |= plan.timed_nodes[place].bit
    return Cell(accumulations, held, clocks, opened_at, asked, number)


def held_bits(plan: Plan, accumulations: Mapping[str, Accumulation], key: str) -> int:
    """The bits of the leaves that hold."""
    return sum(
        slot.bit for slot in plan.slots if slot.id in accumulations and accumulations[slot.id].count >= slot.wanted(key)
    )


def due_at(node: TimedNode, clock: TimedNodeState) -> datetime | None:
    """When time alone changes this node; None when it holds already or has not started."""
    since, last = clock.since, clock.last
    if clock.held:
        return None
    match node.timed:
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
            assert_never(node.timed)


def next_due(plan: Plan, cell: Cell) -> datetime | None:
    """The earliest time at which time alone changes this cell."""
    found = [due for place, clock in cell.clocks.items() if (due := due_at(plan.timed_nodes[place], clock)) is not None]
    end = expires_at(plan, cell)
    return min(found if end is None else [*found, end], default=None)


def expires_at(plan: Plan, cell: Cell) -> datetime | None:
    """When a key expires; None in a trigger that does not correlate."""
    if plan.per is None or cell.opened_at is None:
        return None
    return _later(cell.opened_at, plan.per.expires)


def _later(since: datetime, by: timedelta) -> datetime:
    """`since + by`, or the latest representable instant."""
    try:
        return since + by
    except OverflowError:
        return datetime.max.replace(tzinfo=since.tzinfo)
