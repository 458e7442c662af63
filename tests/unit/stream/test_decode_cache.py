"""`DecodeCache`: what it keeps, and how much at most."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.names import EventName
from streamsched.domain.signals.signal import Occurred
from streamsched.stream.agents.decode_cache import DecodeCache

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)


def signal(number: int) -> Occurred:
    return Occurred(Event(str(number), "test", NOON, CustomHappened(EventName("default", "go"))))


def test_the_last_events_are_found_and_at_most_two_generations_kept() -> None:
    cache = DecodeCache(generation_bytes=1000)
    keys = [b"%05d" % number + bytes(95) for number in range(100)]
    for number, key in enumerate(keys):
        cache.put(key, signal(number))
    found = [number for number, key in enumerate(keys) if cache.get(key)]
    assert found == list(range(found[0], 100))
    assert 10 <= len(found) <= 22


@pytest.mark.parametrize(("size", "kept"), [(128 << 10, True), ((128 << 10) + 1, False), (16 << 20, False)])
def test_an_event_so_large_is_kept(size: int, kept: bool) -> None:
    cache = DecodeCache()
    cache.put(bytes(size), signal(1))
    assert (cache.get(bytes(size)) is not None) == kept
