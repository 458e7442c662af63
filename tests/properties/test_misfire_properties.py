"""Missed ticks against a model that lists every tick there is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamsched.domain.schedules.catchup import CatchUp
from streamsched.domain.schedules.schedule import Misfire
from streamsched.domain.ticks.fire_times import next_fire
from streamsched.domain.ticks.misfire import COUNTED, ON_TIME, due_ticks
from streamsched.domain.triggers.trigger import At, Cron, Every, TimeLeaf
from streamsched.testing.examples import examples

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)

#: Half of them within a day of a change of European or American clocks.
moments = st.timedeltas(timedelta(0), timedelta(days=700)).map(
    lambda after: datetime(2024, 1, 1, tzinfo=UTC) + after
) | (
    st.tuples(
        st.sampled_from([datetime(2024, *change, tzinfo=UTC) for change in ((3, 31, 1), (10, 27, 1), (11, 3, 6))]),
        st.timedeltas(-HOUR * 24, HOUR * 24),
    ).map(lambda near: near[0] + near[1])
)
rhythms: st.SearchStrategy[TimeLeaf] = st.one_of(
    st.builds(
        Cron,
        st.sampled_from(["0 * * * *", "*/7 * * * *", "30 2 * * *", "*/15 1-4 * * *", "0 6 * * 1-5", "17 */3 * * *"]),
        st.sampled_from(ZONES),
    ),
    st.builds(Every, st.timedeltas(SECOND * 20, HOUR * 9), st.none() | moments),
)
leaves: st.SearchStrategy[TimeLeaf] = rhythms | st.builds(At, moments)
absences = st.timedeltas(timedelta(0), HOUR * 30) | st.timedeltas(timedelta(0), MINUTE * 2)
windows = st.none() | st.timedeltas(SECOND, HOUR * 20)


def every_tick(leaf: TimeLeaf, first: datetime, until: datetime, created_at: datetime) -> list[datetime]:
    ticks = [first]
    while (tick := next_fire(leaf, ticks[-1], created_at=created_at)) is not None and tick <= until:
        ticks.append(tick)
    return ticks


def wanted(due: list[datetime], now: datetime, misfire: Misfire, bounds: CatchUp) -> list[datetime]:
    """What the documentation says, said over the whole list."""
    if misfire is Misfire.SKIP:
        return [tick for tick in due[-1:] if now - tick <= ON_TIME]
    grace = None if bounds.window is None else max(bounds.window, ON_TIME)
    fresh = [tick for tick in due if grace is None or now - tick <= grace]
    return fresh[-bounds.at_most :] if misfire is Misfire.ALL else fresh[-1:]


@examples(300)
@given(leaves, moments, absences, st.sampled_from(Misfire), st.builds(CatchUp, windows, st.integers(1, 9)))
def test_a_plan_fires_what_its_policy_says_and_never_early(
    leaf: TimeLeaf, created_at: datetime, absence: timedelta, misfire: Misfire, bounds: CatchUp
) -> None:
    first = next_fire(leaf, created_at, created_at=created_at)
    assume(first is not None)
    assert first is not None
    now = first + absence

    plan = due_ticks(leaf, first, now, misfire, bounds, created_at=created_at)

    due = every_tick(leaf, first, now, created_at)
    fired = wanted(due, now, misfire, bounds)
    assert list(plan.fire) == fired
    assert plan.skipped == min(len(due) - len(fired), COUNTED)
    assert plan.tick == plan.next_at == next_fire(leaf, now, created_at=created_at)


@examples(200)
@given(
    rhythms,
    moments,
    absences,
    st.builds(CatchUp, windows, st.integers(1, 12), st.timedeltas(SECOND, HOUR)),
    st.lists(st.timedeltas(timedelta(0), MINUTE), max_size=8),
)
def test_spread_ticks_keep_order_and_distance_and_none_that_was_promised_is_lost_or_doubled(
    leaf: TimeLeaf,
    created_at: datetime,
    absence: timedelta,
    bounds: CatchUp,
    delays: list[timedelta],
) -> None:
    """The timer is checked when it is due, or up to a minute later, until it is on time again."""
    first = next_fire(leaf, created_at, created_at=created_at)
    assert first is not None
    now, tick, due_at = first + absence, first, first
    promised = wanted(every_tick(leaf, first, now, created_at), now, Misfire.ALL, bounds)
    fired: list[tuple[datetime, datetime]] = []
    skipped = 0
    for visit in range(60):
        plan = due_ticks(leaf, tick, now, Misfire.ALL, bounds, created_at=created_at, due_at=due_at)
        fired += [(each, now) for each in plan.fire]
        skipped += plan.skipped if visit else 0
        assert plan.tick is not None
        assert plan.next_at is not None
        if plan.tick == plan.next_at:
            break
        tick, due_at = plan.tick, plan.next_at
        now = due_at + (delays[visit] if visit < len(delays) else timedelta(0))

    times = [each for each, _ in fired]
    assert times == sorted(set(times))
    assert all(each <= at for each, at in fired)
    assert all(later - earlier >= bounds.spacing for (_, earlier), (_, later) in pairwise(fired[:-1]))
    if not skipped:  # nothing came behind them that pushed older ones over the bound
        assert times[: len(promised)] == promised[: len(times)]
        assert len(times) >= len(promised) or len(times) == 60


def test_a_window_does_not_run_out_while_ticks_are_spread() -> None:
    leaf, first = Every(MINUTE), datetime(2026, 1, 1, tzinfo=UTC)
    bounds = CatchUp(HOUR, 100, spacing=SECOND * 59)
    tick, due_at, now = first, first, first + HOUR
    fired: list[datetime] = []
    for _ in range(50):
        plan = due_ticks(leaf, tick, now, Misfire.ALL, bounds, created_at=first - MINUTE, due_at=due_at)
        fired += plan.fire
        assert plan.skipped == 0
        assert plan.tick is not None
        assert plan.next_at is not None
        tick, due_at, now = plan.tick, plan.next_at, plan.next_at

    assert fired == [first + n * MINUTE for n in range(50)]


def test_an_absence_in_the_middle_of_a_catch_up_ages_what_was_left() -> None:
    leaf, first = Every(MINUTE), datetime(2026, 1, 1, tzinfo=UTC)
    bounds = CatchUp(10 * MINUTE, 100, spacing=SECOND)

    plan = due_ticks(
        leaf, first, first + 3 * HOUR, Misfire.ALL, bounds, created_at=first - MINUTE, due_at=first + 2 * HOUR
    )

    assert plan.fire == (first + 81 * MINUTE,)  # an hour late, ten minutes are allowed; of the rest the newest hundred
    assert plan.skipped == 81


@given(leaves, moments, st.timedeltas(timedelta(microseconds=1), timedelta(days=3)), st.sampled_from(Misfire))
def test_what_is_not_due_is_waited_for(leaf: TimeLeaf, now: datetime, ahead: timedelta, misfire: Misfire) -> None:
    plan = due_ticks(leaf, now + ahead, now, misfire, created_at=now)
    assert (plan.fire, plan.tick, plan.next_at, plan.skipped) == ((), now + ahead, now + ahead, 0)


@pytest.mark.parametrize("window", [None, HOUR])
def test_a_year_of_missed_seconds_is_planned_at_once(window: timedelta | None) -> None:
    now = datetime(2024, 6, 1, tzinfo=UTC)
    year = now - timedelta(days=366)
    plan = due_ticks(Cron("* * * * * *"), year, now, Misfire.ALL, CatchUp(window, 3), created_at=now)
    assert plan.fire == (now - 2 * SECOND, now - SECOND, now)
    assert plan.skipped == COUNTED
