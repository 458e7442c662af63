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
from streamsched.domain.events.event_list import EventList, EventPage


class EventTable:
    """Collects events in order of first reference."""

    __slots__ = ("_count", "_encoded", "_events", "_indexes")

    def __init__(self) -> None:
        #: JSON of the events: of one, or of several with commas between.
        self._encoded: list[bytes] = []
        #: Those of which the identity is known. One that was read from a page would be gone, and another get its `id`.
        self._events: list[Event] = []
        self._indexes: dict[int, int] = {}
        self._count = 0

    def indexes(self, events: Iterable[Event]) -> list[int]:
        """The indexes of `events`; new ones are appended (identity by object). Those of whole pages are always new."""
        found: list[int] = []
        pieces = events.pieces() if isinstance(events, EventList) else events
        for piece in pieces:
            if not isinstance(piece, EventPage):
                found.append(self._index(piece))
            elif (encoded := piece.encoded()) is None:
                found += map(self._index, piece.read())
            else:
                count = piece.stop - piece.start
                found += range(self._count, self._count + count)
                self._encoded.append(encoded)
                self._count += count
        return found

    def _index(self, event: Event) -> int:
        index = self._indexes.setdefault(id(event), self._count)
        if index == self._count:
            self._encoded.append(native.encode_event(event))
            self._events.append(event)
            self._count += 1
        return index

    def to_json(self) -> list[Any]:
        """The events as values for `native.dumps`."""
        return [orjson.Fragment(encoded) for encoded in self._encoded]


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
