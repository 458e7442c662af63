"""An event key's home by itself: to whom an event goes on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from streamsched.codec import signal as signal_codec
from streamsched.domain.event import CustomHappened, Event, schedule_key
from streamsched.domain.home import home
from streamsched.domain.names import EventName, ScheduleRef
from streamsched.domain.signal import Occurred, Signal, Subscribe, Unsubscribe
from streamsched.ports.broker import Chunk, Record
from streamsched.ports.topics import SIGNALS
from streamsched.stream.event_home import EventHome
from streamsched.stream.memo import Memo

GO = EventName("default", "go")
KEY = "event:default.go"
JOIN, REPORT, TIDY = (ScheduleRef("default", "app", name) for name in ("join", "report", "tidy"))
WENT = Occurred(Event("1", "test", datetime(2013, 1, 1, tzinfo=UTC), CustomHappened(GO)))
SHARDS = 3


def emitted(signals: Sequence[Signal]) -> list[tuple[str, int, bytes | None, bytes | None]]:
    """What the home says when these signals come, in order."""
    said: list[tuple[str, int, bytes | None, bytes | None]] = []

    def emit(topic: str, partition: int, key: bytes | None, value: bytes | None) -> None:
        said.append((topic, partition, key, value))

    station = EventHome(
        shard=0,
        shards=SHARDS,
        subscriptions={},
        seen={},
        emit=emit,
        memo=Memo(),
        horizon=timedelta(days=1),
    )
    records = [Record(place, *signal_codec.encode(signal), 0) for place, signal in enumerate(signals)]
    station.take(Chunk(SIGNALS, 0, records, len(records)))
    return said


def test_an_event_goes_as_it_came_to_everyone_who_listens_and_to_nobody_else() -> None:
    listening = [Subscribe(KEY, REPORT, 7), Subscribe(KEY, JOIN, 1), Subscribe(KEY, TIDY, 1), Unsubscribe(KEY, TIDY, 1)]
    _, value = signal_codec.encode(WENT)

    said = emitted([*listening, WENT])

    keys = [schedule_key(schedule).encode() for schedule in (REPORT, JOIN)]
    assert said == [(SIGNALS, home(key, SHARDS), key, value) for key in keys]


def test_an_event_before_anybody_listens_goes_to_nobody() -> None:
    assert emitted([WENT, Subscribe(KEY, JOIN, 1)]) == []
