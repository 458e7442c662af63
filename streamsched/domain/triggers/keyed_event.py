"""An event as a correlation divides it: by its keys and by the parts of each, and what of it has no key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from streamsched.domain.events.event import CustomHappened, Event, PartitionsAdded, ProgramReached
from streamsched.domain.events.match import Match
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.event_slice import select_partitions
from streamsched.domain.triggers.keys.key_value import NoKey
from streamsched.domain.triggers.run_keys import run_slices


@dataclass(frozen=True, slots=True)
class KeyedEvent:
    """An event as a `per` divides it. Texts that name the same period are the same value.

    Attributes:
        places: part of a key → indexes of its partitions; of an event without partitions the only one is 0.
        without: index → why there is no key.
    """

    per: Per
    event: Event
    places: Mapping[str, Sequence[int]]
    without: Mapping[int, NoKey]

    def slices(self) -> Iterator[tuple[str, str, Event]]:
        """Yields (key, part of the key, part of the event that is of both)."""
        if self.per.run_of is not None:
            yield from ((key, key, part) for key, part in run_slices(self.per.run_of, self.event))
            return
        for part, some in self.places.items():
            fact = self.event.fact
            event = select_partitions(self.event, fact, some) if isinstance(fact, PartitionsAdded) else self.event
            yield from ((cell, part, event) for cell in self.per.cells(part))


def keyed_event(per: Per, event: Event, *, most: int | None = None) -> KeyedEvent:
    """Divides an event by the parts of its keys; reads no further after `most` + 1 parts."""
    places: dict[str, list[int]] = {}
    without: dict[int, NoKey] = {}
    if per.run_of is not None:
        return KeyedEvent(per, event, places, without)
    for place, columns in enumerate(_columns(event)):
        part = per.part(columns)
        if isinstance(part, NoKey):
            without[place] = part
            continue
        places.setdefault(part, []).append(place)
        if most is not None and len(places) > most:
            break
    if not places and not without and isinstance(event.fact, PartitionsAdded):
        without[0] = NoKey("it names no partition")
    return KeyedEvent(per, event, places, without)


def event_slices(per: Per, event: Event) -> Iterator[tuple[str, str, Event]]:
    """As `KeyedEvent.slices`; nothing for an event without a key."""
    return keyed_event(per, event).slices()


def part_of_slice(per: Per, event: Event) -> str | NoKey:
    """The part of a key of which an event is that `slices` has yielded; it is the same for all its partitions."""
    return next((per.part(columns) for columns in _columns(event)), NoKey(""))


class WithoutKey(NamedTuple):
    """Partitions of an event that some leaf wants and none finds a key for. An event without partitions is one.

    Attributes:
        missed: how many of `among` there are.
        why: why the first of them has none.
    """

    missed: int
    among: int
    why: str

    def __str__(self) -> str:
        if self.among < 2:
            return f"it has no key: {self.why}"
        if self.missed == self.among:
            return f"none of its {self.among} partitions has a key: {self.why}"
        return f"{self.missed} of its {self.among} partitions have no key: {self.why}"


def without_key(heard: Sequence[tuple[Match, KeyedEvent]]) -> WithoutKey | None:
    """What of an event has no key; None: nothing. The leaves that listen to it are given by what they want and how they
    divide it.
    """
    if not any(keyed.without for _, keyed in heard):
        return None
    columns = list(_columns(heard[0][1].event)) or [{}]
    missed: dict[int, NoKey] = {}
    for match, keyed in heard:
        for place, why in keyed.without.items():
            if match.accepts(columns[place]) and not any(
                other.accepts(columns[place]) for other, also in heard if place not in also.without
            ):
                missed.setdefault(place, why)
    return WithoutKey(len(missed), len(columns), next(iter(missed.values())).why) if missed else None


def _columns(event: Event) -> Iterator[Mapping[str, str]]:
    match event.fact:
        case PartitionsAdded(partitions=partitions):
            for partition in partitions:
                yield partition.values
        case CustomHappened(attributes=values) | ProgramReached(arguments=values):
            yield values
        case _:
            return
