"""Accumulations: what one leaf has counted, and how an event is added to it.

Streams: a delta adds its bytes. An absolute report adds its growth over the known level; the first one only sets the
level; a smaller one means the stream was truncated, and its whole size counts as new. A satisfaction keeps levels; a
new definition resets them unless it keeps compatible state.

Partitions (ADR 10): a `distinct` leaf counts each key once. A further commit of a known key replaces the older one
(`domain.triggers.distinct`) and adds nothing; in a total its size replaces the older size. A leaf that has reached what
it needs stays satisfied, also when a smaller size replaces a larger one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from streamsched.domain.events.event import CustomHappened, Event, PartitionsAdded, ProgramReached, StreamSize, Ticked
from streamsched.domain.events.event_list import EMPTY_LIST, EventList
from streamsched.domain.fold.plan import LeafSlot
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.distinct import Newest, merge_rewrite, remove_repeats
from streamsched.domain.triggers.event_slice import (
    EventSlice,
    measure_commit,
    narrow_to_match,
    size_as_delta,
    surplus_of,
    take_first,
    take_oldest,
)
from streamsched.domain.triggers.keyed_event import event_slices, part_of_slice
from streamsched.domain.triggers.keys.key_value import NoKey

#: Counts and levels stop growing here, the largest whole number every store and dialect can hold.
LIMIT: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Accumulation:
    """What one leaf has accumulated.

    Attributes:
        count: in the leaf's unit (partitions, bytes, times), since the last satisfaction.
        level: the last known size of the stream in bytes; None for other leaves and before the first absolute report.
        events: those that counted, in order of arrival; for a distinct leaf also those replaced since.
        newest: for a distinct leaf, the event with the newest commit of each partition; None until it is needed.
        by_part: of a key with parts, the event of each; None until it is needed.
        present: of a key with parts, those that have come, where only the newest events are at hand; otherwise None.
    """

    count: int = 0
    level: int | None = None
    events: EventList = EMPTY_LIST
    newest: Newest | None = field(default=None, compare=False, repr=False)
    by_part: dict[str | NoKey, Event] | None = field(default=None, compare=False, repr=False)
    present: frozenset[str] | None = field(default=None, compare=False, repr=False)


NOTHING: Final = Accumulation()


def add_event(had: Accumulation, slot: LeafSlot, event: Event, consumption: Consumption) -> Accumulation:
    """`had` plus the part of the event that the leaf counts; `had` itself when nothing changes."""
    fact = event.fact
    level = had.level
    match fact:
        case PartitionsAdded() if slot.distinct:
            return _add_distinct_partitions(had, slot, event, fact)
        case PartitionsAdded(count=amount) if slot.plain:
            pass
        case PartitionsAdded():
            event, fact = narrow_to_match(event, fact, slot.match)
            amount = measure_commit(fact, slot.measure)
        case CustomHappened(attributes=values) | ProgramReached(arguments=values):
            amount = int(slot.plain or slot.match.accepts(values))
        case Ticked():
            amount = 0 if slot.since_run and had.count else 1
        case StreamSize(bytes=size, absolute=True):
            growth = 0 if level is None else size - level
            amount = growth if growth >= 0 else size
            level = size
            if consumption is not Consumption.CUMULATIVE:  # only a delta can be divided
                event = size_as_delta(event, fact, amount)
        case StreamSize(bytes=amount):
            if level is not None and amount > 0:
                level = min(level + amount, LIMIT)
        case _:
            assert_never(fact)
    if amount > 0:
        count = had.count + amount
        return Accumulation(count if count < LIMIT else LIMIT, level, had.events.append(event))
    return had if level == had.level else Accumulation(had.count, level, had.events)


def _add_distinct_partitions(had: Accumulation, slot: LeafSlot, event: Event, fact: PartitionsAdded) -> Accumulation:
    event, fact = remove_repeats(*narrow_to_match(event, fact, slot.match))
    brings = measure_commit(fact, slot.measure)
    if not had.events:
        return Accumulation(min(brings, LIMIT), had.level, had.events.append(event)) if brings > 0 else had
    newest = _newest_partitions(had, slot)
    if brings <= 0 and not newest.knows(fact):
        return had
    events = had.events.append(event)
    newest = newest.add(had.events.next_number, event)
    if newest.is_wasteful:
        repeats = newest.repeats
        events = EventList(newest.live_parts(events))
        newest = Newest(events, slot.measure)
        newest.repeats = repeats
    enough = slot.needed if had.count >= slot.needed else 0
    return Accumulation(min(max(newest.amount, enough), LIMIT), had.level, events, newest)


def adds(has: Accumulation, had: Accumulation, slot: LeafSlot) -> bool:
    """Whether the event that changed `had` into `has` added to the count; otherwise it only replaced older commits."""
    if not slot.distinct:
        return True
    return has.count != had.count if has.newest is None else not has.newest.repeats


def add_part(had: Accumulation, slot: LeafSlot, part: str, event: Event) -> Accumulation:
    """`had` plus one part of the key; `had` itself when the leaf does not accept it or has counted it already. For a
    distinct leaf a commit that rewrites partitions of a part replaces the older one.
    """
    has = add_event(NOTHING, slot, event, Consumption.CUMULATIVE)
    if has is NOTHING or slot.per is None:
        return had
    new = next(iter(has.events))
    known = _by_part(had, slot.per)
    if part not in known:
        known[part] = new
        return Accumulation(had.count + 1, None, had.events.append(new), by_part=known)
    merged = merge_rewrite(known[part], new) if slot.distinct else None
    if merged is None:
        return had
    others = (each for each in had.events if each is not known[part])
    return Accumulation(had.count, None, EventList((*others, merged)))


def counted_parts(has: Accumulation, slot: LeafSlot) -> Collection[str | NoKey]:
    """The parts of the key of which the leaf has counted one."""
    return () if slot.per is None else _by_part(has, slot.per).keys()


def _by_part(has: Accumulation, per: Per) -> dict[str | NoKey, Event]:
    """Versions share one map, which has more parts than an outdated version has counted."""
    known = has.by_part
    return known if known is not None and len(known) == has.count else {part_of_slice(per, e): e for e in has.events}


def drop_surplus(has: Accumulation, slot: LeafSlot, needed: int) -> Accumulation:
    """Without the oldest events beyond what the leaf needs."""
    if slot.has_parts:
        return Accumulation(needed, None, has.events.drop_first(has.count - needed))
    if slot.distinct:
        newest = _newest_partitions(has, slot)
        if newest.amount < needed:
            return has
        taken = surplus_of(has.events, newest.amount - needed, slot.measure, newest.live_part)
        return _remove_taken(has, newest, taken)
    taken = surplus_of(has.events, has.count - needed, slot.measure)
    return Accumulation(has.count - taken.amount, has.level, taken.rest)


def amount_and_parts(has: Accumulation, slot: LeafSlot) -> tuple[int, Sequence[Event]]:
    """The amount and the counted parts of the events, for a job that takes everything. They are not copied where all
    of them count.
    """
    if not slot.distinct or slot.has_parts or len(has.events) <= 1:
        return has.count, has.events
    newest = _newest_partitions(has, slot)
    return min(newest.amount, LIMIT), newest.live_parts(has.events)


def divide(has: Accumulation, slot: LeafSlot, wanted: int) -> tuple[EventSlice, Accumulation]:
    """The oldest events that bring the wanted amount, and the remaining accumulation (`NOTHING` when empty)."""
    if slot.has_parts:
        taken = take_first(has.events, wanted)
    elif slot.distinct and len(has.events) > 1:
        newest = _newest_partitions(has, slot)
        taken = take_oldest(has.events, wanted, slot.measure, newest.live_part)
        return taken, _remove_taken(has, newest, taken)
    else:
        taken = take_oldest(has.events, wanted, slot.measure)
    return taken, Accumulation(max(0, has.count - taken.amount) if taken.rest else 0, has.level, taken.rest)


def recount(has: Accumulation, old: LeafSlot, new: LeafSlot, key: str) -> Accumulation:
    """An accumulation converted for the leaf of a new definition that differs in `distinct`, in the amount needed, or
    in what belongs to the key.
    """
    if _key_rules(old) != _key_rules(new) and new.per is not None:
        return _recount(has, new, new.per, key)
    if new.has_parts or not (old.distinct or new.distinct) or (old.distinct, old.needed) == (new.distinct, new.needed):
        return has
    if not new.distinct:
        count, events = amount_and_parts(has, old)
        return Accumulation(count, has.level, EventList(events))
    once = EventList(_remove_repeats(event) for event in has.events)
    newest = Newest(once, new.measure)
    return Accumulation(min(newest.amount, LIMIT), has.level, EventList(newest.live_parts(once)))


def _key_rules(slot: LeafSlot) -> tuple[object, ...]:
    """What decides which events belong to a key of the leaf, and to which part of it."""
    return () if slot.per is None else (slot.has_parts, slot.per.each, slot.per.calendar)


def _recount(had: Accumulation, slot: LeafSlot, per: Per, key: str) -> Accumulation:
    """What of the events still belongs to the key."""
    has = NOTHING
    for event in had.events:
        for cell, part, some in event_slices(per, event):
            if cell == key:
                once = slot.has_parts
                has = add_part(has, slot, part, some) if once else add_event(has, slot, some, Consumption.CUMULATIVE)
    return has


def _remove_repeats(event: Event) -> Event:
    return remove_repeats(event, event.fact)[0] if isinstance(event.fact, PartitionsAdded) else event


def index_partitions(has: Accumulation, slot: LeafSlot) -> Accumulation:
    """With the index of a distinct leaf, which reads all events."""
    return replace(has, newest=Newest(has.events, slot.measure)) if slot.distinct and not slot.has_parts else has


def _newest_partitions(has: Accumulation, slot: LeafSlot) -> Newest:
    known = has.newest
    return known if known is not None and known.is_current else Newest(has.events, slot.measure)


def _remove_taken(has: Accumulation, newest: Newest, taken: EventSlice) -> Accumulation:
    left = newest.remove(taken.events, taken.amount, has.events, taken.rest)
    if left.is_empty:
        return Accumulation(0, has.level)
    return Accumulation(min(left.amount, LIMIT), has.level, taken.rest, left)
