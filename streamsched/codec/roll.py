"""Events of several leaves in one document: each is written once and referred to by its place.

One event may count in many leaves; the roll keeps that sharing through the wire, in memory as in bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from streamsched.codec import native
from streamsched.codec.scalar import integer, sequence
from streamsched.domain.errors import DecodeError
from streamsched.domain.event import Event


class Roll:
    """Collects events in order of first mention."""

    __slots__ = ("_places", "events")

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._places: dict[int, int] = {}

    def places(self, events: Iterable[Event]) -> list[int]:
        """The places of `events`, each entered when it is new (the same object is the same event)."""
        found: list[int] = []
        known, roll = self._places, self.events
        for event in events:
            place = known.setdefault(id(event), len(roll))
            if place == len(roll):
                roll.append(event)
            found.append(place)
        return found

    def to_json(self) -> list[Any]:
        """The events as values `native.dumps` writes, each as the bytes it was written as before."""
        return [orjson.Fragment(native.encoded(event)) for event in self.events]


def read_roll(value: object, path: str) -> list[Event]:
    """The events of a roll.

    Raises:
        DecodeError: one of them is none.
    """
    return [native.from_json(item, f"{path}[{place}]") for place, item in enumerate(sequence(value, path))]


def called(value: object, roll: list[Event], path: str) -> tuple[Event, ...]:
    """The events at the places of a JSON list.

    Raises:
        DecodeError: a place that the roll does not have.
    """
    found: list[Event] = []
    for item in sequence(value, path):
        place = integer(item, path)
        if place >= len(roll):
            raise DecodeError(path, f"refers to event {place} of {len(roll)}")
        found.append(roll[place])
    return tuple(found)
