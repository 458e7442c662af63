"""An event key's home by itself: to whom an event goes on."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping, Sequence
from datetime import UTC, datetime, timedelta

from streamsched.codec.records import signal as signal_codec
from streamsched.codec.records import subscriptions as subscriptions_codec
from streamsched.domain.events.event import CustomHappened, Event, schedule_key
from streamsched.domain.names import EventName, ScheduleRef
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Occurred, Signal, Subscribe, Unsubscribe
from streamsched.domain.signals.subscription import SubscribedSchedule
from streamsched.log.topics import SIGNALS
from streamsched.stream.agents.emission import Emit
from streamsched.stream.agents.event_home import EventHome
from streamsched.stream.agents.signal_decoder import SignalDecoder
from streamsched.stream.dedupe.seen import Deduplicator
from tests.support.id_table import IdTable
from tests.support.shard_cluster import process_signals

GO = EventName("default", "go")
KEY = "event:default.go"
JOIN, REPORT, TIDY = (ScheduleRef("default", "app", name) for name in ("join", "report", "tidy"))
NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
WENT = Occurred(Event("1", "test", NOON, CustomHappened(GO)))
SHARDS = 3


def made(emit: Emit, subscriptions: MutableMapping[bytes, bytes] | None = None) -> EventHome:
    return EventHome(
        shard=0,
        shards=SHARDS,
        subscriptions={} if subscriptions is None else subscriptions,
        seen=IdTable(),
        emit=emit,
        decoder=SignalDecoder(),
        forward=lambda home, schedule, value, signal, time_ms: emit(SIGNALS, home, schedule, value),
        horizon=timedelta(days=1),
    )


def emitted(signals: Sequence[Signal]) -> list[tuple[str, int, bytes | None, bytes | None]]:
    """What the home says when these signals come, in order."""
    said: list[tuple[str, int, bytes | None, bytes | None]] = []

    def emit(topic: str, partition: int, key: bytes | None, value: bytes | None) -> None:
        said.append((topic, partition, key, value))

    station = made(emit)
    process_signals(station, signals)
    return said


def test_an_event_goes_as_it_came_to_everyone_who_listens_and_to_no_other() -> None:
    listening = [Subscribe(KEY, REPORT, 7), Subscribe(KEY, JOIN, 1), Subscribe(KEY, TIDY, 1), Unsubscribe(KEY, TIDY, 1)]
    _, value = signal_codec.encode(WENT)

    said = emitted([*listening, WENT])

    keys = [schedule_key(schedule).encode() for schedule in (REPORT, JOIN)]
    assert said == [(SIGNALS, home(key, SHARDS), key, value) for key in keys]


def test_an_event_before_anybody_listens_is_sent_nowhere() -> None:
    assert emitted([WENT, Subscribe(KEY, JOIN, 1)]) == []


def test_keys_without_listeners_leave_nothing_in_memory() -> None:
    """A key that names a run or a day comes once and never again."""

    def emit(topic: str, partition: int, key: bytes | None, value: bytes | None) -> None: ...

    station = made(emit)
    once = [Occurred(Event(str(n), "test", NOON, CustomHappened(EventName("default", f"go-{n}")))) for n in range(99)]
    before = [Subscribe(KEY, JOIN, 1), WENT, Unsubscribe(KEY, JOIN, 1)]
    signals: list[Signal] = [*before, *once]
    process_signals(station, signals)

    assert len(station._known) == 0


class CountedWrites(dict[bytes, bytes]):
    """A table that counts its writes."""

    writes = 0

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self.writes += 1
        super().__setitem__(key, value)


def test_a_turn_writes_the_row_of_an_event_key_once_and_a_restart_reads_it_back() -> None:
    said: list[bytes | None] = []

    def emit(topic: str, partition: int, key: bytes | None, value: bytes | None) -> None:
        said.append(key)

    table = CountedWrites()
    refs = [ScheduleRef("default", "app", f"s{number}") for number in range(300)]
    process_signals(made(emit, table), [Subscribe(KEY, ref, 1) for ref in refs])
    process_signals(made(emit, table), [Unsubscribe(KEY, refs[0], 1), Subscribe(KEY, refs[1], 2), WENT])

    assert table.writes == 2
    assert list(subscriptions_codec.decode(KEY, table[KEY.encode()]).listeners.items()) == [
        (refs[1], SubscribedSchedule(2)),
        *((ref, SubscribedSchedule(1)) for ref in refs[2:]),
    ]
    assert said == [schedule_key(ref).encode() for ref in refs[1:]]


def test_the_row_of_an_event_key_is_removed_with_its_last_listener() -> None:
    def emit(topic: str, partition: int, key: bytes | None, value: bytes | None) -> None: ...

    table = CountedWrites()
    events = made(emit, table)
    process_signals(events, [Subscribe(KEY, JOIN, 1)])
    process_signals(events, [Unsubscribe(KEY, JOIN, 1)])
    process_signals(events, [Subscribe(KEY, TIDY, 1), Unsubscribe(KEY, TIDY, 1)])

    assert dict(table) == {}
    assert table.writes == 1


async def test_others_have_their_turn_while_known_ids_are_put_in_order() -> None:
    table, turns = IdTable(), 0
    ids = Deduplicator(table, timedelta(days=1))
    for number in range(20_000):
        assert ids.first_seen_ms(b"key", str(number), "test", number) is None
        if number % 500 == 0:
            ids.flush()

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    await Deduplicator(IdTable(table.changelog), timedelta(days=1)).rebuild_index()
    beside.cancel()

    assert turns >= 4
