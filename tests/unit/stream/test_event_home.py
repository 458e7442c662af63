"""An event key's home by itself: to whom an event goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from streamsched.codec import signal as signal_codec
from streamsched.domain.event import CustomHappened, Event, schedule_key
from streamsched.domain.home import home
from streamsched.domain.names import EventName, ScheduleRef
from streamsched.domain.signal import Occurred, Signal, Subscribe, Unsubscribe
from streamsched.ports.broker import Chunk, Record
from streamsched.ports.topics import SIGNALS
from streamsched.stream.emission import Emit
from streamsched.stream.event_home import EventHome, Seen
from streamsched.stream.memo import Memo

GO = EventName("default", "go")
KEY = "event:default.go"
JOIN, REPORT, TIDY = (ScheduleRef("default", "app", name) for name in ("join", "report", "tidy"))
NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
WENT = Occurred(Event("1", "test", NOON, CustomHappened(GO)))
SHARDS = 3


def made(emit: Emit) -> EventHome:
    return EventHome(
        shard=0,
        shards=SHARDS,
        subscriptions={},
        seen={},
        emit=emit,
        memo=Memo(),
        horizon=timedelta(days=1),
    )


def emitted(signals: Sequence[Signal]) -> list[tuple[str, int, bytes | None, bytes | None]]:
    """What the home says when these signals come, in order."""
    said: list[tuple[str, int, bytes | None, bytes | None]] = []

    def emit(topic: str, partition: int, key: bytes | None, value: bytes | None) -> None:
        said.append((topic, partition, key, value))

    station = made(emit)
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


def test_keys_to_which_nobody_listens_leave_nothing_in_memory() -> None:
    """A key that names a run or a day comes once and never again."""

    def emit(topic: str, partition: int, key: bytes | None, value: bytes | None) -> None: ...

    station = made(emit)
    once = [Occurred(Event(str(n), "test", NOON, CustomHappened(EventName("default", f"go-{n}")))) for n in range(99)]
    before = [Subscribe(KEY, JOIN, 1), WENT, Unsubscribe(KEY, JOIN, 1)]
    signals: list[Signal] = [*before, *once]

    records = [Record(place, *signal_codec.encode(signal), 0) for place, signal in enumerate(signals)]
    station.take(Chunk(SIGNALS, 0, records, len(records)))

    assert len(station._known) == 0


async def test_others_have_their_turn_while_known_ids_are_put_in_order() -> None:
    table = {b"key\x1ftest\x1f%d" % n: b"%d" % (n % 7) for n in range(20_000)}
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    await Seen(table, timedelta(days=1)).recall()
    beside.cancel()

    assert turns >= 4
