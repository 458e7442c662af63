"""Jitter: never early, within its length, in order, and the tick can be given from the moment it fires."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson
from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.schedule import Misfire
from streamsched.domain.ticks.fire_times import next_fire
from streamsched.domain.ticks.jitter import fires_at, last_fired_instant, tick_fired_at
from streamsched.domain.triggers.time_leaf import At, Cron, Every, TimeLeaf
from streamsched.ports.timers import DueTimer
from streamsched.testing.examples import examples
from streamsched.timers.firing import firing

SCHEDULE = ScheduleRef("default", "app", "nightly")
CREATED = datetime(2024, 3, 1, tzinfo=UTC)

_jitters = st.sampled_from([timedelta(0), timedelta(seconds=7), timedelta(minutes=10), timedelta(days=3)])
leaves: st.SearchStrategy[TimeLeaf] = st.one_of(
    st.builds(
        lambda expression, zone, jitter: Cron(expression, zone, jitter=jitter),
        st.sampled_from(["* * * * * *", "*/15 * * * *", "30 2 * * *", "0 4 * * MON"]),
        st.sampled_from(["UTC", "Europe/Berlin"]),
        _jitters,
    ),
    st.builds(Every, st.timedeltas(timedelta(seconds=1), timedelta(days=1)), jitter=_jitters),
    st.just(At(CREATED + timedelta(days=30))),
)
instants = st.timedeltas(timedelta(0), timedelta(days=40)).map(lambda ahead: CREATED + ahead)


def _due_at(value: bytes | None) -> datetime:
    assert value is not None
    return datetime.fromisoformat(orjson.loads(value)["data"]["due_at"])


@examples(200)
@given(leaves, instants)
def test_a_tick_fires_within_its_jitter_and_before_the_next_is_due(leaf: TimeLeaf, after: datetime) -> None:
    due = next_fire(leaf, after, created_at=CREATED)
    if due is None:
        return
    fires = fires_at(leaf, due, SCHEDULE, created_at=CREATED)
    following = next_fire(leaf, due, created_at=CREATED)
    assert due <= fires <= due + (timedelta(0) if isinstance(leaf, At) else leaf.jitter)
    assert following is None or fires < following
    assert fires == fires_at(leaf, due, SCHEDULE, created_at=CREATED)
    assert tick_fired_at(leaf, fires, created_at=CREATED) == due


@examples(200)
@given(leaves, instants, st.integers(0, 90))
def test_due_are_those_ticks_that_have_fired(leaf: TimeLeaf, since: datetime, seconds: int) -> None:
    now = since + timedelta(seconds=seconds)
    until = last_fired_instant(leaf, now, SCHEDULE, created_at=CREATED)
    assert until <= now
    tick = next_fire(leaf, since - timedelta(microseconds=1), created_at=CREATED)
    while tick is not None and tick <= now:
        assert (fires_at(leaf, tick, SCHEDULE, created_at=CREATED) <= now) == (tick <= until)
        tick = next_fire(leaf, tick, created_at=CREATED)


@examples(100)
@given(leaves, st.sampled_from(Misfire), st.lists(st.timedeltas(timedelta(0), timedelta(hours=9)), max_size=6))
def test_timers_fire_each_tick_once_never_early_and_on_time_when_they_look_on_time(
    leaf: TimeLeaf, policy: Misfire, pauses: list[timedelta]
) -> None:
    first = next_fire(leaf, CREATED, created_at=CREATED)
    assert first is not None
    waited: datetime | None = fires_at(leaf, first, SCHEDULE, created_at=CREATED)
    seen: list[datetime] = []
    for pause in pauses:
        if waited is None:
            break
        now = waited + pause
        timer = DueTimer(SCHEDULE, 1, "leaf", leaf, policy, waited, CREATED)
        decided = firing(timer, now)
        ticks = [_due_at(record.value) for record in decided.records]
        if pause <= timedelta(seconds=1):
            assert ticks
        assert all(fires_at(leaf, tick, SCHEDULE, created_at=CREATED) <= now for tick in ticks)
        seen += ticks
        waited = decided.next_at
        assert waited is None or waited > now
    assert seen == sorted(set(seen))


def test_schedules_spread() -> None:
    leaf, due = Cron("0 0 * * *", jitter=timedelta(hours=1)), datetime(2024, 3, 2, tzinfo=UTC)
    late = [
        (fires_at(leaf, due, ScheduleRef("default", "app", f"s{n}"), created_at=CREATED) - due) / timedelta(hours=1)
        for n in range(1000)
    ]
    assert len(set(late)) == 1000
    tenths = [sum(tenth / 10 <= each < (tenth + 1) / 10 for each in late) for tenth in range(10)]
    assert all(60 < count < 140 for count in tenths)
