"""Accumulations: what one leaf has counted, and how an event joins it.

Streams: a delta adds. An absolute report adds its growth over the known level; the first one is only the baseline; a
smaller one means the stream was truncated, and all it now holds is new. A satisfaction keeps levels, a new definition
does not, unless it keeps what fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, assert_never

from streamsched.domain.arrivals import NOBODY, Arrivals
from streamsched.domain.consumption import Consumption
from streamsched.domain.correlation import shares
from streamsched.domain.event import CustomHappened, Event, PartitionsAdded, ProgramReached, StreamSize, Ticked
from streamsched.domain.plan import Slot
from streamsched.domain.share import grown, measured, narrowed, newest

#: Counts and levels stop growing here, the largest whole number every store and dialect can hold.
LIMIT: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Accumulation:
    """What one leaf has.

    Attributes:
        count: in the leaf's unit (partitions, bytes, times), since the last satisfaction.
        level: the stream's size as last known, in bytes; None for other leaves and before a first absolute report.
        events: those that counted, in order of arrival.
    """

    count: int = 0
    level: int | None = None
    events: Arrivals = NOBODY


NOTHING: Final = Accumulation()


def added(had: Accumulation, slot: Slot, event: Event, consumption: Consumption) -> Accumulation:
    """`had` with what the leaf sees of the event counted; `had` itself when the event says nothing new to it."""
    fact = event.fact
    level = had.level
    match fact:
        case PartitionsAdded(count=amount) if slot.plain:
            pass
        case PartitionsAdded():
            event, fact = narrowed(event, fact, slot.match)
            amount = measured(fact, slot.measure)
        case CustomHappened(attributes=attributes):
            amount = int(slot.plain or slot.match.accepts(attributes))
        case ProgramReached() | Ticked():
            amount = 1
        case StreamSize(bytes=size, absolute=True):
            growth = 0 if level is None else size - level
            amount = growth if growth >= 0 else size
            level = size
            if consumption is not Consumption.CUMULATIVE:  # it may be cut
                event = grown(event, fact, amount)
        case StreamSize(bytes=amount):
            if level is not None and amount > 0:
                level = min(level + amount, LIMIT)
        case _:
            assert_never(fact)
    if amount > 0:
        count = had.count + amount
        return Accumulation(count if count < LIMIT else LIMIT, level, had.events.plus(event))
    return had if level == had.level else Accumulation(had.count, level, had.events)


def added_once(had: Accumulation, slot: Slot, value: str, event: Event) -> Accumulation:
    """`had` with one more period of a roll-up; `had` itself when the leaf does not accept it or has it already."""
    has = added(NOTHING, slot, event, Consumption.CUMULATIVE)
    if has is NOTHING or slot.per is None:
        return had
    known = {each for old in had.events for _, each, _ in shares(slot.per, old)}
    return had if value in known else Accumulation(had.count + 1, None, had.events.plus(has.events[0]))


def renewed(has: Accumulation, slot: Slot, needed: int) -> Accumulation:
    """Without the oldest that the leaf no longer needs."""
    if slot.rolls:
        return Accumulation(needed, None, has.events.without(has.count - needed))
    dropped, events = newest(has.events, has.count - needed, slot.measure)
    return Accumulation(has.count - dropped, has.level, events)
