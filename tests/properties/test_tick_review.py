"""The review of stored ticks beside a list of all ticks: what timers store stays, what they cannot want does not."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.schedule import Misfire
from streamsched.domain.ticks.fire_times import next_fire
from streamsched.domain.ticks.jitter import fires_at
from streamsched.domain.ticks.review import review_tick
from streamsched.domain.triggers.time_leaf import TimeLeaf
from streamsched.domain.triggers.trigger import Cron
from streamsched.ports.timers import DueTimer
from streamsched.testing.examples import examples
from streamsched.timers.firing import firing, review
from tests.properties.test_jitter_properties import CREATED, SCHEDULE, instants, leaves


def timer(leaf: TimeLeaf, due_at: datetime) -> DueTimer:
    return DueTimer(SCHEDULE, 1, "leaf", leaf, Misfire.ONE, due_at, CREATED)


@examples(300)
@given(leaves, instants, st.lists(st.timedeltas(timedelta(0), timedelta(hours=30)), max_size=6))
def test_what_timers_store_themselves_is_never_moved(leaf: TimeLeaf, now: datetime, steps: list[timedelta]) -> None:
    due = next_fire(leaf, now, created_at=CREATED)
    if due is None:
        return
    at: datetime | None = fires_at(leaf, due, SCHEDULE, created_at=CREATED)
    for step in steps:
        now += step
        if at is None:
            return
        assert review(timer(leaf, at), now) is None
        if at <= now:
            at = firing(timer(leaf, at), now).next_at


@examples(300)
@given(leaves, instants, st.timedeltas(timedelta(days=10), timedelta(days=800)))
def test_a_tick_that_a_clock_ahead_has_stored_is_moved_to_the_next(
    leaf: TimeLeaf, now: datetime, ahead: timedelta
) -> None:
    """At most one tick is not sent again: the next, which that clock has sent."""
    stored = next_fire(leaf, now + ahead, created_at=CREATED)
    if stored is None:
        return
    upcoming = [now]
    for _ in range(2):
        tick = next_fire(leaf, upcoming[-1], created_at=CREATED)
        if tick is not None:
            upcoming.append(tick)
    found = review(timer(leaf, fires_at(leaf, stored, SCHEDULE, created_at=CREATED)), now)

    if stored in upcoming:
        assert found is None
    else:
        assert found is not None
        assert found.due_at == fires_at(leaf, upcoming[1], SCHEDULE, created_at=CREATED)


@examples(300)
@given(leaves, instants, st.timedeltas(timedelta(seconds=1), timedelta(days=1)))
def test_an_instant_that_is_no_tick_is_moved_and_one_that_is_due_is_not(
    leaf: TimeLeaf, now: datetime, off: timedelta
) -> None:
    """As after a change of zones. What is due already, the misfire policy decides."""
    first = next_fire(leaf, now, created_at=CREATED)
    stored = now + off
    assert review(timer(leaf, now - off), now) is None
    if first is None or any(
        fires_at(leaf, tick, SCHEDULE, created_at=CREATED) == stored
        for tick in (first, next_fire(leaf, first, created_at=CREATED) or first)
    ):
        return
    found = review(timer(leaf, stored), now)
    later_tick = next_fire(leaf, stored - timedelta(microseconds=1), created_at=CREATED) == stored
    delayed = isinstance(leaf, Cron) and leaf.jitter and found is None  # the tick before, delayed by its jitter

    assert delayed or later_tick or found is not None
    if found is not None:
        assert found.due_at == fires_at(leaf, first, SCHEDULE, created_at=CREATED)


def test_why_it_was_moved() -> None:
    now = datetime.fromisoformat("2026-11-27T12:00:00+00:00")
    leaf = Cron("0 4 * * *", "Europe/Berlin")

    def moved(due_at: str) -> tuple[str, str] | None:
        at = datetime.fromisoformat(due_at)
        found = review_tick(leaf, at, schedule=ScheduleRef("a", "b", "c"), created_at=CREATED, now=now)
        return found and (found.due_at.isoformat(), found.why)

    tomorrow = "2026-11-28T03:00:00+00:00"
    assert moved(tomorrow) is None
    assert moved("2026-11-29T03:00:00+00:00") is None, "tomorrow's was sent by a clock that was ahead"
    assert moved("2027-11-29T03:00:00+00:00") == (tomorrow, "it is further ahead than the schedule can want")
    assert moved("2026-11-28T04:00:00+00:00") == (tomorrow, "zones have other rules")
    assert moved("2026-11-28T02:00:00+00:00") == (tomorrow, "zones have other rules")
