"""Who listens to an event key."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from streamsched.codec.records import subscriptions as codec
from streamsched.domain.errors import DecodeError
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.names import EventName, ScheduleRef
from streamsched.domain.signals.signal import Drop, Occurred, Put, Signal, Subscribe, Unsubscribe
from streamsched.domain.signals.subscription import Subscriptions, route
from streamsched.domain.triggers.trigger import CustomEvent

GO = EventName("default", "go")
KEY = "event:default.go"
JOIN, REPORT = ScheduleRef("default", "app", "join"), ScheduleRef("default", "app", "report")
WENT = Occurred(Event("1", "test", datetime(2013, 1, 1, tzinfo=UTC), CustomHappened(GO)))


def after(*signals: Signal) -> Subscriptions | None:
    known: Subscriptions | None = None
    for signal in signals:
        known = route(known, signal)
    return known


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
        pytest.param([Subscribe(KEY, JOIN, 2), Unsubscribe(KEY, JOIN, 3)], None, id="a newer definition lets go"),
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
def test_generations_decide_who_listens(signals: list[Signal], listeners: dict[ScheduleRef, int] | None) -> None:
    assert after(*signals) == (None if listeners is None else Subscriptions(KEY, listeners))


def test_a_signal_that_changes_nothing_gives_back_the_very_same_value() -> None:
    known = after(Subscribe(KEY, JOIN, 2))

    for signal in (Subscribe(KEY, JOIN, 2), Subscribe(KEY, JOIN, 1), Unsubscribe(KEY, JOIN, 1), WENT):
        assert route(known, signal) is known


def test_subscriptions_come_back_equal_from_their_bytes() -> None:
    known = Subscriptions(KEY, {JOIN: 1, REPORT: 12})

    assert codec.decode(KEY, codec.encode(known)) == known


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b'{"v":2,"listeners":{}}',
        b'{"v":1}',
        b'{"v":1,"listeners":{"a":1}}',
        b'{"v":1,"listeners":{"a.b.c":true}}',
    ],
)
def test_bytes_that_are_no_subscriptions_are_refused(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        codec.decode(KEY, raw)
