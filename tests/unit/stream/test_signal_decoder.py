"""`SignalDecoder`: what it keeps, and how much at most."""

from __future__ import annotations

from datetime import UTC, datetime

from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.names import EventName
from streamsched.domain.signals.signal import Occurred
from streamsched.stream.agents.signal_decoder import SignalDecoder

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)


def signal(number: int) -> Occurred:
    return Occurred(Event(str(number), "test", NOON, CustomHappened(EventName("default", "go"))))


def test_the_last_events_are_found_and_at_most_two_generations_kept() -> None:
    decoder = SignalDecoder(generation_bytes=1000)
    keys = [b"%05d" % number + bytes(95) for number in range(100)]
    for number, key in enumerate(keys):
        decoder.remember(key, signal(number))
    found = [number for number, key in enumerate(keys) if decoder.find(key)]
    assert found == list(range(found[0], 100))
    assert 10 <= len(found) <= 22


def test_a_large_event_is_kept_for_ten_seconds() -> None:
    now = [100.0]
    decoder = SignalDecoder(clock=lambda: now[0])
    decoder.remember(bytes(4 << 20), signal(1))
    decoder.remember(bytes(128 << 10), signal(2))
    now[0] = 109.9
    assert decoder.find(bytes(4 << 20)) == signal(1)
    now[0] = 110.0
    assert decoder.find(bytes(4 << 20)) is None
    assert decoder.find(bytes(128 << 10)) == signal(2)


def test_large_events_are_16_mib_together_or_one() -> None:
    decoder = SignalDecoder(clock=lambda: 0.0)
    values = [bytes([number]) * (6 << 20) for number in range(4)]
    for number, value in enumerate(values):
        decoder.remember(value, signal(number))
    assert [decoder.find(value) for value in values] == [None, None, signal(2), signal(3)]
    decoder.remember(bytes(40 << 20), signal(9))
    assert [decoder.find(value) for value in values] == [None] * 4
    assert decoder.find(bytes(40 << 20)) == signal(9)
