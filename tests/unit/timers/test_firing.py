"""What a due timer sends: pure, by the clock it is given."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.records import signal as signal_codec
from streamsched.domain.events.event import Ticked
from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.schedule import Misfire
from streamsched.domain.signals.signal import Occurred
from streamsched.domain.triggers.trigger import At, Every, TimeLeaf, leaf_id
from streamsched.ports.timers import DueTimer
from streamsched.timers.firing import firing

START = datetime(2026, 1, 1, tzinfo=UTC)
REF = ScheduleRef("default", "a", "s")


def due(leaf: TimeLeaf | None, due_at: datetime, misfire: Misfire = Misfire.ALL) -> DueTimer:
    return DueTimer(REF, 3, leaf_id(leaf) if leaf else "gone", leaf, misfire, due_at, START)


@given(st.integers(1, 7200), st.integers(0, 40_000), st.sampled_from(Misfire))
def test_ticks_are_never_of_the_future_and_the_next_one_always_is(interval: int, late: int, misfire: Misfire) -> None:
    leaf = Every(timedelta(seconds=interval))
    first = START + leaf.interval
    now = first + timedelta(seconds=late)

    fired = firing(due(leaf, first, misfire), now)

    assert fired.next_at is not None
    assert fired.next_at > now
    for record in fired.records:
        signal = signal_codec.decode(record.key.encode(), record.value)
        assert isinstance(signal, Occurred)
        assert isinstance(signal.event.fact, Ticked)
        assert first <= signal.event.fact.due_at <= now


def test_the_same_tick_has_the_same_bytes_from_any_process_at_any_time() -> None:
    timer = due(Every(timedelta(minutes=1)), START + timedelta(minutes=1))

    (prompt,) = firing(timer, START + timedelta(minutes=1)).records
    late, _ = firing(timer, START + timedelta(minutes=2)).records

    assert prompt == late


def test_an_instant_ticks_once() -> None:
    fired = firing(due(At(START), START), START)

    assert len(fired.records) == 1
    assert fired.next_at is None


def test_a_timer_whose_leaf_is_gone_ends() -> None:
    fired = firing(due(None, START), START)

    assert (list(fired.records), fired.next_at) == ([], None)
