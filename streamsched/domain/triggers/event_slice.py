"""Slices of events: the partitions of a commit that match a leaf, and the part of an accumulation that a job uses up.

A slice keeps the envelope, so it has the event's id.

Partitions and a stream's bytes can be cut anywhere. Bytes and rows of a dataset are cut at whole partitions; a
partition of size 0 goes with the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from streamsched.domain.events.event import Event, Partition, PartitionsAdded, StreamSize
from streamsched.domain.events.event_list import EventList
from streamsched.domain.events.match import Match
from streamsched.domain.triggers.leaf import Measure

#: (number, event) → the part that counts; None: nothing, because all its partitions were rewritten since.
Live = Callable[[int, Event], Event | None]

ALL: Final[Live] = lambda _, event: event  # noqa: E731


class EventSlice(NamedTuple):
    """The oldest part of some events, and the rest.

    Attributes:
        amount: sum over `events`, in the leaf's unit.
    """

    amount: int
    events: tuple[Event, ...]
    rest: EventList


def narrow_to_match(event: Event, fact: PartitionsAdded, match: Match) -> tuple[Event, PartitionsAdded]:
    """The event and its fact with the partitions that match; the same objects when all do.

    Partitions counted without a name match only the empty match.
    """
    if not match:
        return event, fact
    some = tuple(partition for partition in fact.partitions if match.accepts(partition.values))
    if len(some) == fact.count:
        return event, fact
    less = PartitionsAdded(fact.dataset, some, len(some))
    return replace(event, fact=less), less


def select_partitions(event: Event, fact: PartitionsAdded, places: Sequence[int]) -> Event:
    """The event with only the partitions at these indexes; the same object when those are all."""
    if len(places) == fact.count:
        return event
    some = tuple(fact.partitions[place] for place in places)
    return replace(event, fact=PartitionsAdded(fact.dataset, some, len(some)))


def join_slices(one: Event, other: Event) -> Event:
    """The union of two slices of one event; one of them may have statistics that the other has not."""
    match one.fact, other.fact:
        case PartitionsAdded() as left, PartitionsAdded() as right:
            parts = (left, right) if right.has_statistics else (right, left)
            found = {each.key: each for fact in parts for each in fact.partitions}
            named = tuple(
                found[key] for key in dict.fromkeys(each.key for each in (*left.partitions, *right.partitions))
            )
            return replace(one, fact=PartitionsAdded(left.dataset, named, max(left.count, right.count, len(named))))
        case StreamSize() as left, StreamSize() as right:
            return other if right.bytes > left.bytes else one
        case _:
            return one


def size_as_delta(event: Event, fact: StreamSize, growth: int) -> Event:
    """An absolute size report as a delta of `growth` bytes, which can be cut; a delta unchanged."""
    return replace(event, fact=StreamSize(fact.stream, growth, absolute=False)) if fact.absolute else event


def measure_commit(fact: PartitionsAdded, measure: Measure | None) -> int:
    """How much a commit adds: its known bytes or rows, or its number of partitions."""
    return fact.count if measure is None else sum(_size(partition, measure) for partition in fact.partitions)


def partition_amount(partition: Partition, measure: Measure | None) -> int:
    """How much one partition adds: its bytes or rows, 0 when unknown; 1 when partitions are counted."""
    return 1 if measure is None else _size(partition, measure)


def take_oldest(events: EventList, wanted: int, measure: Measure | None, live: Live = ALL) -> EventSlice:
    """The oldest events that together bring `wanted`, exactly where the unit can be cut; all of them if too few."""

    def cut(event: Event, amount: int) -> int:
        return _index_reaching(event, wanted - amount, measure)

    return _take(events, wanted - 1, measure, live, cut)


def take_first(events: EventList, wanted: int) -> EventSlice:
    """The first `wanted` events, each counted as one."""
    taken = events[:wanted]
    return EventSlice(len(taken), taken, events.drop_first(len(taken)))


def surplus_of(events: EventList, surplus: int, measure: Measure | None, live: Live = ALL) -> EventSlice:
    """The oldest events that together bring at most `surplus`."""

    def cut(event: Event, amount: int) -> int:
        return _index_within(event, surplus - amount, measure)

    return _take(events, surplus, measure, live, cut)


def _take(
    events: EventList, most: int, measure: Measure | None, live: Live, cut: Callable[[Event, int], int]
) -> EventSlice:
    """The oldest events as long as they bring at most `most`, then a part of the next one: `cut` says where it is cut,
    by the amount before it.
    """
    amount = 0
    taken: list[Event] = []
    for place, whole in enumerate(events):
        event = live(events.first_number + place, whole)
        if event is None:
            continue
        brings = _amount(event, measure)
        if amount + brings <= most:
            amount += brings
            taken.append(event)
            continue
        first, rest = _cut(event, cut(event, amount), measure)
        if first is not None:
            amount += _amount(first, measure)
            taken.append(first)
        return EventSlice(amount, tuple(taken), _events_after_cut(events, place, rest, event))
    return EventSlice(amount, tuple(taken), events.drop_first(len(events)))


def _events_after_cut(events: EventList, place: int, rest: Event | None, event: Event) -> EventList:
    """The events after a cut at index `place`; `rest` is what remains of the event there."""
    if rest is event:
        return events.drop_first(place)
    return events.drop_first(place + 1) if rest is None else events.drop_first(place, rest)


def _amount(event: Event, measure: Measure | None) -> int:
    match event.fact:
        case PartitionsAdded() as fact:
            return measure_commit(fact, measure)
        case StreamSize(bytes=size):
            return size
        case _:
            return 1


def _index_reaching(event: Event, wanted: int, measure: Measure | None) -> int:
    """Where to cut an event so that its first part brings at least `wanted`."""
    if measure is None or not isinstance(event.fact, PartitionsAdded):
        return wanted
    sizes = [_size(partition, measure) for partition in event.fact.partitions]
    place, amount = 0, 0
    while place < len(sizes) and (amount < wanted or not sizes[place]):
        amount += sizes[place]
        place += 1
    return place


def _index_within(event: Event, most: int, measure: Measure | None) -> int:
    """Where to cut an event so that its first part brings at most `most`."""
    if measure is None or not isinstance(event.fact, PartitionsAdded):
        return most
    place, amount = 0, 0
    for partition in event.fact.partitions:
        amount += _size(partition, measure)
        if amount > most:
            break
        place += 1
    return place


def _cut(event: Event, at: int, measure: Measure | None) -> tuple[Event | None, Event | None]:
    """The first part up to `at` (partitions, or a stream's bytes) and the rest; None for an empty part."""
    match event.fact:
        case PartitionsAdded(dataset=dataset, partitions=named, count=count):
            whole = count if measure is None else len(named)
            parts = PartitionsAdded(dataset, named[:at], at), PartitionsAdded(dataset, named[at:], whole - at)
        case StreamSize(stream=stream, bytes=whole):
            parts = StreamSize(stream, at, absolute=False), StreamSize(stream, whole - at, absolute=False)
        case _:
            whole, parts = 1, (event.fact, event.fact)
    if at <= 0:
        return None, event
    if at >= whole:
        return event, None
    return replace(event, fact=parts[0]), replace(event, fact=parts[1])


def _size(partition: Partition, measure: Measure) -> int:
    return (partition.bytes if measure is Measure.BYTES else partition.rows) or 0
