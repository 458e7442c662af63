"""Which commit of a partition is the newest within one accumulation, so that a partition counts once however often it
is written.

Events stay in the accumulation in order of arrival. A partition belongs to the newest event that names it; in older
events it is replaced: it does not count there and is not passed to a job. `Newest` maps each key to the number of its
newest event. It is derived from the events and not stored; after decoding it is rebuilt when first needed. Partitions
counted without a name do not replace one another.

Cost: an event costs as much as the partitions it names. Replaced partitions are removed from the events when they
outnumber those that count (`is_wasteful`), so their amortized cost per event is constant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from streamsched.domain.events.event import Event, Partition, PartitionsAdded
from streamsched.domain.events.event_list import EventList
from streamsched.domain.events.partition_index import PartitionIndex, Place
from streamsched.domain.triggers.event_slice import partition_amount
from streamsched.domain.triggers.leaf import Measure

#: Replaced partitions tolerated beyond the number of those that count, before they are removed.
SPARE: Final = 64


class _Index:
    """One map for all versions of an index; `version` is that of the newest."""

    __slots__ = ("places", "version")

    def __init__(self) -> None:
        self.places = PartitionIndex()
        self.version = 0


class Newest:
    """The index of one accumulation. Versions share one map, which only the newest version (`is_current`) may use; an
    outdated version must be rebuilt from its events.

    Attributes:
        amount: sum over all partitions that count, including those without a name.
        named: how many partitions the events name, replaced ones included.
        repeats: the newest event named only known partitions.
    """

    __slots__ = ("_measure", "_shared", "_version", "amount", "named", "repeats")

    def __init__(self, events: EventList, measure: Measure | None) -> None:
        self._measure = measure
        self._shared = _Index()
        self._version = 0
        self.amount = 0
        self.named = 0
        self.repeats = False
        for number, event in enumerate(events, events.first_number):
            self._enter(number, event)

    @property
    def is_current(self) -> bool:
        return self._shared.version == self._version

    @property
    def is_wasteful(self) -> bool:
        """More of the named partitions are replaced than count."""
        return self.named > SPARE and self.named > 2 * len(self._shared.places) + SPARE

    @property
    def is_empty(self) -> bool:
        """No partition counts."""
        return not self._shared.places and not self.amount

    def knows(self, fact: PartitionsAdded) -> bool:
        """Whether one of these partitions is in the index."""
        return any(partition.key in self._shared.places for partition in fact.partitions)

    def add(self, number: int, event: Event) -> Newest:
        """With one more event, of this number."""
        after = self._next_version()
        after._enter(number, event)
        return after

    def remove(self, taken: Iterable[Event], amount: int, before: EventList, rest: EventList) -> Newest:
        """Without the partitions of `taken`, which add up to `amount`; `rest` is what remains of `before`."""
        after = self._next_version()
        for event in taken:
            for key in _keys(event):
                after._shared.places.pop(key)
        after.amount -= amount
        gone = len(before) - len(rest)
        after.named -= sum(len(_keys(event)) for event in islice(before, gone))
        if rest.rest_of_first is not None and (gone or rest.rest_of_first is not before.rest_of_first):
            whole = next(islice(before, gone, None))
            after.named -= len(_keys(whole)) - len(_keys(next(iter(rest))))
        return after

    def live_part(self, number: int, event: Event) -> Event | None:
        """The part of an event that counts: the same object when all of it does, None when nothing does."""
        fact = event.fact
        if not isinstance(fact, PartitionsAdded) or not fact.partitions:
            return event
        places = self._shared.places
        some = tuple(each for each in fact.partitions if (at := places.get(each.key)) and at.number == number)
        if len(some) == len(fact.partitions):
            return event
        count = fact.count - len(fact.partitions) + len(some)
        if not some and (count <= 0 or self._measure is not None):  # a total counts named partitions alone
            return None
        return replace(event, fact=replace(fact, partitions=some, count=count))

    def live_parts(self, events: EventList) -> Sequence[Event]:
        """The parts of the events that count, in order of arrival; the same list when all of them do."""
        if self.named == len(self._shared.places):
            return events
        found = (self.live_part(number, event) for number, event in enumerate(events, events.first_number))
        return tuple(event for event in found if event is not None)

    def _next_version(self) -> Newest:
        after = Newest.__new__(Newest)
        after._measure, after._shared = self._measure, self._shared
        after.amount, after.named, after.repeats = self.amount, self.named, False
        self._shared.version += 1
        after._version = self._shared.version
        return after

    def _enter(self, number: int, event: Event) -> None:
        fact, places, measure = event.fact, self._shared.places, self._measure
        if not isinstance(fact, PartitionsAdded):
            self.amount += 1
            return
        repeats = True
        for partition in fact.partitions:
            adds = partition_amount(partition, measure)
            before = places.put(partition.key, Place(number, adds))
            if before is None:
                self.amount += adds
                repeats = False
            else:
                self.amount += adds - before.amount
        unnamed = fact.count - len(fact.partitions)
        if measure is None:
            self.amount += unnamed
        self.named += len(fact.partitions)
        self.repeats = repeats and (unnamed <= 0 or measure is not None)


def remove_repeats(event: Event, fact: PartitionsAdded) -> tuple[Event, PartitionsAdded]:
    """The event and its fact with each key once, its last occurrence; the same objects when none repeats."""
    named = fact.partitions
    if len(named) < 2:
        return event, fact
    last = {partition.key: partition for partition in named}
    if len(last) == len(named):
        return event, fact
    fewer = replace(fact, partitions=tuple(last.values()), count=fact.count - len(named) + len(last))
    return replace(event, fact=fewer), fewer


def merge_rewrite(before: Event, after: Event) -> Event | None:
    """`after` plus the partitions of `before` that it does not rewrite; None when it rewrites none of them."""
    was, now = before.fact, after.fact
    if not isinstance(was, PartitionsAdded) or not isinstance(now, PartitionsAdded):
        return None
    keys = set(_keys(after))
    kept: tuple[Partition, ...] = tuple(each for each in was.partitions if each.key not in keys)
    if len(kept) == len(was.partitions):
        return None
    named = (*kept, *now.partitions)
    return replace(after, fact=replace(now, partitions=named, count=len(named)))


def drop_rewritten(events: Sequence[Event]) -> list[Event]:
    """The events without those whose partitions are all named again by a later one."""
    seen: set[str] = set()
    found: list[Event] = []
    for event in reversed(events):
        keys, fact = _keys(event), event.fact
        replaced = isinstance(fact, PartitionsAdded) and fact.count == len(keys) and seen.issuperset(keys)
        if not replaced or not keys:
            found.append(event)
        seen.update(keys)
    return found[::-1]


def _keys(event: Event) -> list[str]:
    fact = event.fact
    return [partition.key for partition in fact.partitions] if isinstance(fact, PartitionsAdded) else []
