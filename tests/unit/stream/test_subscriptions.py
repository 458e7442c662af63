"""Who listens to an event key: the rows that an event home writes to the table of subscriptions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from streamsched.codec.records import subscriptions as codec
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.names import EventName, ScheduleRef
from streamsched.domain.signals.signal import Drop, Occurred, Put, Signal, Subscribe, Unsubscribe
from streamsched.domain.signals.subscription import SubscribedSchedule, Subscriptions
from streamsched.domain.triggers.trigger import CustomEvent
from streamsched.stream.agents.event_home import EventHome
from streamsched.stream.agents.signal_decoder import SignalDecoder
from tests.support.id_table import IdTable
from tests.support.shard_cluster import process_signals

GO = EventName("default", "go")
KEY = "event:default.go"
JOIN, REPORT, TIDY = (ScheduleRef("default", "app", name) for name in ("join", "report", "tidy"))
WENT = Occurred(Event("1", "test", datetime(2013, 1, 1, tzinfo=UTC), CustomHappened(GO)))


class Table(dict[bytes, bytes]):
    """A table of subscriptions that counts its writes."""

    writes = 0

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self.writes += 1
        super().__setitem__(key, value)

    def __delitem__(self, key: bytes) -> None:
        self.writes += 1
        super().__delitem__(key)


def process(table: Table, *signals: Signal) -> None:
    """Processes signals by an event home that has just recovered this table."""
    station = EventHome(
        shard=0,
        shards=3,
        subscriptions=table,
        seen=IdTable(),
        emit=lambda topic, partition, key, value: None,
        decoder=SignalDecoder(),
        forward=lambda home, schedule, value, signal, time_ms: None,
        horizon=timedelta(days=1),
    )
    process_signals(station, signals)


@pytest.mark.parametrize(
    ("signals", "listeners"),
    [
        pytest.param([Subscribe(KEY, JOIN, 1)] * 2, {JOIN: 1}, id="a repeat changes nothing"),
        pytest.param([Subscribe(KEY, JOIN, 2), Subscribe(KEY, JOIN, 1)], {JOIN: 2}, id="the newest generation stays"),
        pytest.param([Subscribe(KEY, JOIN, 1), Subscribe(KEY, JOIN, 2)], {JOIN: 2}, id="a newer one takes over"),
        pytest.param(
            [Subscribe(KEY, JOIN, 2), Unsubscribe(KEY, JOIN, 1)], {JOIN: 2}, id="an older one takes nothing away"
        ),
        pytest.param([Subscribe(KEY, JOIN, 2), Unsubscribe(KEY, JOIN, 2)], None, id="the same generation goes"),
        pytest.param([Subscribe(KEY, JOIN, 2), Unsubscribe(KEY, JOIN, 3)], None, id="a newer definition ends it"),
        pytest.param([Unsubscribe(KEY, JOIN, 3)], None, id="who never listened"),
        pytest.param(
            [Subscribe(KEY, JOIN, 1), Subscribe(KEY, REPORT, 1), Unsubscribe(KEY, JOIN, 1)],
            {REPORT: 1},
            id="the others stay",
        ),
        pytest.param(
            [Subscribe(KEY, JOIN, 1), Put(JOIN, 9, True, CustomEvent(GO)), Drop(JOIN, 9)],
            {JOIN: 1},
            id="signals of a schedule's home are not ours",
        ),
    ],
)
@pytest.mark.parametrize("restarts", [False, True])
def test_generations_decide_who_listens(
    signals: list[Signal], listeners: dict[ScheduleRef, int] | None, restarts: bool
) -> None:
    """In one chunk, and signal by signal, each by an event home that knows no more than the table."""
    table = Table()
    for some in [[each] for each in signals] if restarts else [signals]:
        process(table, *some)

    found = {key: codec.decode(key.decode(), row) for key, row in table.items()}
    wanted = {ref: SubscribedSchedule(generation) for ref, generation in (listeners or {}).items()}
    assert found == ({KEY.encode(): Subscriptions(KEY, wanted)} if wanted else {})


def test_a_signal_that_changes_nothing_writes_nothing() -> None:
    table = Table()
    process(table, Subscribe(KEY, JOIN, 2))

    process(table, Subscribe(KEY, JOIN, 2), Subscribe(KEY, JOIN, 1), Unsubscribe(KEY, JOIN, 1), WENT)

    assert table.writes == 1


def test_subscriptions_come_back_equal_from_their_bytes() -> None:
    known = Subscriptions(
        KEY, {JOIN: SubscribedSchedule(1), REPORT: SubscribedSchedule(12, 2**32 - 1), TIDY: SubscribedSchedule(2, 0)}
    )

    assert codec.decode(KEY, codec.encode(known)) == known


def test_a_subscription_takes_its_events_to_the_place_it_names_last() -> None:
    """Of one generation the last says where; an older one changes nothing."""
    table = Table()
    process(table, Subscribe(KEY, JOIN, 2, 5), Subscribe(KEY, JOIN, 2, 7), Subscribe(KEY, JOIN, 1, 9))

    assert codec.decode(KEY, table[KEY.encode()]).listeners == {JOIN: SubscribedSchedule(2, 7)}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b'{"v":3,"listeners":{}}',
        b'{"v":2,"listeners":{"a.b.c":1},"affinities":{"a.b.c":"1"}}',
        b'{"v":1}',
        b'{"v":1,"listeners":{"a":1}}',
        b'{"v":1,"listeners":{"a.b.c":true}}',
    ],
)
def test_bytes_that_are_no_subscriptions_are_refused(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        codec.decode(KEY, raw)
