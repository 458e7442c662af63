"""Each event stands once in a table, at the index by which leaves refer to it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import orjson

from streamsched.codec.events.event_table import EventTable, events_at, read_event_table
from streamsched.codec.events.native import dumps
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.events.event_list import EventList, EventPage
from streamsched.domain.names import EventName

MANY = 1_000


def event(number: int) -> Event:
    return Event(f"e{number}", "test", datetime(2026, 1, 1, tzinfo=UTC), CustomHappened(EventName("default", "go")))


def read(table: EventTable, indexes: list[int]) -> Iterator[str]:
    """The ids of the events at these indexes, after encoding and decoding."""
    events = read_event_table(orjson.loads(dumps(table.to_json())), "$")
    return (each.id for each in events_at(indexes, events, "$"))


def test_an_event_of_two_leaves_stands_once() -> None:
    table, events = EventTable(), [event(n) for n in range(3)]

    indexes = [*table.indexes(events), *table.indexes(events[1:])]

    assert indexes == [0, 1, 2, 1, 2]
    assert len(table.to_json()) == 3


def test_events_that_nothing_else_holds_are_not_taken_for_one_another() -> None:
    table = EventTable()

    indexes = [index for number in range(MANY) for index in table.indexes([event(number)])]

    assert list(read(table, indexes)) == [f"e{number}" for number in range(MANY)]


def test_pages_without_their_bytes_are_read_and_not_taken_for_one_another() -> None:
    table, events = EventTable(), EventList(event(number) for number in range(MANY))
    for start in range(0, MANY, 10):
        events.pack(EventPage(start, start + 10, lambda start=start: [event(n) for n in range(start, start + 10)]))

    indexes = table.indexes(events.drop_first(3))

    assert list(read(table, indexes)) == [f"e{number}" for number in range(3, MANY)]
