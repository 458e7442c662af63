"""A leaf's share of an event: of a commit, the partitions it asked for; of these, as many as a job uses up.

The envelope stays, so an event keeps its name wherever parts of it go.

Partitions and a stream's bytes can be cut anywhere. Bytes and rows of a dataset come in whole partitions: one that is
needed goes whole, and one that adds nothing goes where the one before it goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from streamsched.domain.event import Event, Partition, PartitionsAdded, StreamSize
from streamsched.domain.match import Match
from streamsched.domain.trigger import Measure

Events = tuple[Event, ...]


class Taken(NamedTuple):
    """The oldest of some events, and those that stay.

    Attributes:
        amount: what `events` bring.
    """

    amount: int
    events: Events
    rest: Events


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


def grown(event: Event, fact: StreamSize, growth: int) -> Event:
    """A report of a whole size as the growth it told of, which can be cut; a report of growth as it is."""
    return replace(event, fact=StreamSize(fact.stream, growth, absolute=False)) if fact.absolute else event


def measured(fact: PartitionsAdded, measure: Measure | None) -> int:
    """How much a commit adds: bytes or rows as far as they are known, or its partitions."""
    return fact.count if measure is None else sum(_size(partition, measure) for partition in fact.partitions)


def oldest(events: Events, wanted: int, measure: Measure | None) -> Taken:
    """The oldest that together bring `wanted`, exactly so where the unit can be cut; all of them if they do not."""
    amount = 0
    for place, event in enumerate(events):
        brings = _amount(event, measure)
        if amount + brings < wanted:
            amount += brings
            continue
        first, rest = _cut(event, _reaching(event, wanted - amount, measure), measure)
        taken = amount + (0 if first is None else _amount(first, measure))
        return Taken(taken, (*events[:place], *_some(first)), (*_some(rest), *events[place + 1 :]))
    return Taken(amount, events, ())


def newest(events: Events, surplus: int, measure: Measure | None) -> tuple[int, Events]:
    """The events without the oldest, up to `surplus` of them, and how much that took away; never more than that."""
    amount = 0
    for place, event in enumerate(events):
        brings = _amount(event, measure)
        if amount + brings <= surplus:
            amount += brings
            continue
        first, rest = _cut(event, _within(event, surplus - amount, measure), measure)
        dropped = amount + (0 if first is None else _amount(first, measure))
        return dropped, (*_some(rest), *events[place + 1 :])
    return amount, ()


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


def _some(event: Event | None) -> Sequence[Event]:
    return () if event is None else (event,)


def _size(partition: Partition, measure: Measure) -> int:
    return (partition.bytes if measure is Measure.BYTES else partition.rows) or 0
