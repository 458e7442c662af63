"""The event table of a document: each event is written once, and leaves refer to it by index.

One event may count in many leaves; the table preserves that sharing in bytes and, after decoding, in memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from streamsched.codec.events import native
from streamsched.codec.json.scalar import integer, sequence
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.event import Event


class EventTable:
    """Collects events in order of first reference."""

    __slots__ = ("_indexes", "events")

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._indexes: dict[int, int] = {}

    def indexes(self, events: Iterable[Event]) -> list[int]:
        """The indexes of `events`; new ones are appended (identity by object)."""
        found: list[int] = []
        known, table = self._indexes, self.events
        for event in events:
            index = known.setdefault(id(event), len(table))
            if index == len(table):
                table.append(event)
            found.append(index)
        return found

    def to_json(self) -> list[Any]:
        """The events as values for `native.dumps`, from their cached bytes."""
        return [orjson.Fragment(native.encode_event(event)) for event in self.events]


def read_event_table(value: object, path: str) -> list[Event]:
    """Decodes the events of a table.

    Raises:
        DecodeError: one of them is invalid.
    """
    return [native.from_json(item, f"{path}[{index}]") for index, item in enumerate(sequence(value, path))]


def events_at(value: object, table: list[Event], path: str) -> tuple[Event, ...]:
    """The events at the indexes of a JSON list.

    Raises:
        DecodeError: an index is out of range.
    """
    found: list[Event] = []
    for item in sequence(value, path):
        index = integer(item, path)
        if index >= len(table):
            raise DecodeError(path, f"refers to event {index} of {len(table)}")
        found.append(table[index])
    return tuple(found)
