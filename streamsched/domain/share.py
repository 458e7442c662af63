"""A leaf's share of an event: of a commit, the partitions it asked for; of these, as many as a job uses up.

The envelope stays, so an event keeps its name wherever parts of it go.

Partitions and a stream's bytes can be cut anywhere. Bytes and rows of a dataset come in whole partitions: one that is
needed goes whole, and one that adds nothing goes where the one before it goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from streamsched.domain.arrivals import Arrivals
from streamsched.domain.event import Event, Partition, PartitionsAdded, StreamSize
from streamsched.domain.leaf import Measure
from streamsched.domain.match import Match


class Taken(NamedTuple):
    """The oldest of some events, and those that stay.

    Attributes:
        amount: what `events` bring.
    """

    amount: int
    events: tuple[Event, ...]
    rest: Arrivals


def narrowed(event: Event, fact: PartitionsAdded, match: Match) -> tuple[Event, PartitionsAdded]:
    """The event and its fact with the partitions that match; the very same objects when all do.

    Partitions that are counted without being named can match nothing, so only the empty match keeps them.
    """
    if not match:
        return event, fact
    some = tuple(partition for partition in fact.partitions if match.accepts(partition.values))
    if len(some) == fact.count:
        return event, fact
    less = PartitionsAdded(fact.dataset, some, len(some))
    return replace(event, fact=less), less


def chosen(event: Event, fact: PartitionsAdded, places: Sequence[int]) -> Event:
    """The event with the partitions at these places alone; the very same object when those are all."""
    if len(places) == fact.count:
        return event
    some = tuple(fact.partitions[place] for place in places)
    return replace(event, fact=PartitionsAdded(fact.dataset, some, len(some)))


def joined(one: Event, other: Event) -> Event:
    """Two shares of one event as one: all that either has of it, never counted twice."""
    match one.fact, other.fact:
        case PartitionsAdded() as left, PartitionsAdded() as right:
            named = tuple({each.key: each for each in (*left.partitions, *right.partitions)}.values())
            return replace(one, fact=PartitionsAdded(left.dataset, named, max(left.count, right.count, len(named))))
        case StreamSize() as left, StreamSize() as right:
            return other if right.bytes > left.bytes else one
        case _:
            return one


def grown(event: Event, fact: StreamSize, growth: int) -> Event:
    """A report of a whole size as the growth it told of, which can be cut; a report of growth as it is."""
    return replace(event, fact=StreamSize(fact.stream, growth, absolute=False)) if fact.absolute else event


def measured(fact: PartitionsAdded, measure: Measure | None) -> int:
    """How much a commit adds: bytes or rows as far as they are known, or its partitions."""
    return fact.count if measure is None else sum(_size(partition, measure) for partition in fact.partitions)


def oldest(events: Arrivals, wanted: int, measure: Measure | None) -> Taken:
    """The oldest that together bring `wanted`, exactly so where the unit can be cut; all of them if they do not."""
    amount = 0
    taken: list[Event] = []
    for place, event in enumerate(events):
        brings = _amount(event, measure)
        if amount + brings < wanted:
            amount += brings
            taken.append(event)
            continue
        first, rest = _cut(event, _reaching(event, wanted - amount, measure), measure)
        if first is not None:
            amount += _amount(first, measure)
            taken.append(first)
        return Taken(amount, tuple(taken), _left(events, place, rest, event))
    return Taken(amount, tuple(taken), events.without(len(events)))


def first(events: Arrivals, wanted: int) -> Taken:
    """The first so many, each whole, whatever it brings."""
    taken = events[:wanted]
    return Taken(len(taken), taken, events.without(len(taken)))


def newest(events: Arrivals, surplus: int, measure: Measure | None) -> tuple[int, Arrivals]:
    """The events without the oldest, up to `surplus` of them, and how much that took away; never more than that."""
    amount = 0
    for place, event in enumerate(events):
        brings = _amount(event, measure)
        if amount + brings <= surplus:
            amount += brings
            continue
        first, rest = _cut(event, _within(event, surplus - amount, measure), measure)
        dropped = amount + (0 if first is None else _amount(first, measure))
        return dropped, _left(events, place, rest, event)
    return amount, events.without(len(events))


def _left(events: Arrivals, place: int, rest: Event | None, event: Event) -> Arrivals:
    """What stays when the events before a place are gone, and of the one there all but `rest`."""
    if rest is event:
        return events.without(place)
    return events.without(place + 1) if rest is None else events.without(place, rest)


def _amount(event: Event, measure: Measure | None) -> int:
    match event.fact:
        case PartitionsAdded() as fact:
            return measured(fact, measure)
        case StreamSize(bytes=size):
            return size
        case _:
            return 1


def _reaching(event: Event, wanted: int, measure: Measure | None) -> int:
    """Where to cut an event so that its first part brings `wanted`."""
    if measure is None or not isinstance(event.fact, PartitionsAdded):
        return wanted
    sizes = [_size(partition, measure) for partition in event.fact.partitions]
    place, amount = 0, 0
    while place < len(sizes) and (amount < wanted or not sizes[place]):
        amount += sizes[place]
        place += 1
    return place


def _within(event: Event, most: int, measure: Measure | None) -> int:
    """Where to cut an event so that its first part brings no more than `most`."""
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
    """The first part up to `at` (partitions, or a stream's bytes) and the rest; None where there is nothing."""
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
