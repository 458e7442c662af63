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


class Finished(NamedTuple):
    """A key's last job, and the corrections that wait to be made a job.

    Attributes:
        job: the id of the job.
        last: when the last correction came that is in no job yet; None: none waits.
    """

    job: str
    last: datetime | None = None


class Cell(NamedTuple):
    """What has accumulated since the last satisfaction.

    Attributes:
        accumulations: by slot id; an empty slot is absent.
        held: the bits of the leaves and timed nodes that hold.
        clocks: the state of each timed node by its index in `Plan.timed_nodes`; one that has not started is absent.
        opened_at: when its key opened (log time); None in a trigger that does not correlate.
        number: greater than that of any key that was open when this one opened; 0 in a trigger that does not correlate.
        asked: the due time of the requested wake-up that has not arrived yet.
        finished: of a key that has fired, in a trigger that tells corrections apart; `opened_at` is when it fired, and
            `accumulations` are its corrections. None: the key is open.
    """

    accumulations: Mapping[str, Accumulation]
    held: int = 0
    clocks: Mapping[int, TimedNodeState] = NO_TIMED_NODES
    opened_at: datetime | None = None
    asked: datetime | None = None
    number: int = 0
    finished: Finished | None = None


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
    finished: Finished | None = None,
) -> Cell:
    """A cell with `held` computed; nothing holds in a finished key."""
    if finished is not None:
        return Cell(accumulations, 0, clocks, opened_at, asked, number, finished)
    held = held_bits(plan, accumulations, key)
    for place, clock in clocks.items():
        if clock.held:
            held |= plan.timed_nodes[place].bit
    return Cell(accumulations, held, clocks, opened_at, asked, number)


def held_bits(plan: Plan, accumulations: Mapping[str, Accumulation], key: str) -> int:
    """The bits of the leaves that hold."""
    return sum(
        slot.bit
        for slot in plan.slots
        if slot.id in accumulations and accumulations[slot.id].count >= slot.wanted_amount(key)
    )


def node_due_at(node: TimedNode, clock: TimedNodeState) -> datetime | None:
    """When time alone changes this node; None when it holds already or has not started."""
    since, last = clock.since, clock.last
    if clock.held:
        return None
    match node.timed:
        case Within(duration=limit) | Then(within=limit) | Unless(within=limit):
            return None if since is None or limit is None else _add_duration(since, limit)
        case Quiet(duration=rest, at_most=most):
            if since is None or last is None:
                return None
            rested = _add_duration(last, rest)
            return rested if most is None else min(rested, _add_duration(since, most))
        case Silence(duration=rest):
            return None if last is None else _add_duration(last, rest)
        case _:
            assert_never(node.timed)


def next_due_at(plan: Plan, cell: Cell) -> datetime | None:
    """The earliest time at which time alone changes this cell."""
    found = [
        due for place, clock in cell.clocks.items() if (due := node_due_at(plan.timed_nodes[place], clock)) is not None
    ]
    found += [due for due in (expires_at(plan, cell), correction_due_at(plan, cell)) if due is not None]
    return min(found, default=None)


def expires_at(plan: Plan, cell: Cell) -> datetime | None:
    """When a key expires; None in a trigger that does not correlate."""
    if plan.per is None or cell.opened_at is None:
        return None
    return _add_duration(cell.opened_at, plan.per.expires)


def correction_due_at(plan: Plan, cell: Cell) -> datetime | None:
    """When the corrections of a finished key become a job; None when none wait, or none makes one."""
    policy = plan.on_correction
    last = None if cell.finished is None else cell.finished.last
    if last is None or policy is None or policy.quiet is None:
        return None
    end = expires_at(plan, cell)
    due = _add_duration(last, policy.quiet)
    return due if end is None else min(due, end)


def _add_duration(since: datetime, by: timedelta) -> datetime:
    """`since + by`, or the latest representable instant."""
    try:
        return since + by
    except OverflowError:
        return datetime.max.replace(tzinfo=since.tzinfo)
