"""Calendars against a person who looks at one day after the other."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamsched.domain.constraints.window import TimeWindow
from streamsched.domain.decisions.admission import ConstraintInput, Satisfied, WaitUntil, check
from streamsched.domain.ticks.fire_times import next_fire, previous_fire
from streamsched.domain.time.calendar import Calendar, OnClosed, OpenDays
from streamsched.domain.time.cron_days import CronDays, Numbered, Weekdays
from streamsched.domain.triggers.time_leaf import Cron, Every
from streamsched.testing.examples import examples

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
FIRST, LAST = date(2024, 1, 1), date(2024, 4, 30)

_dates = st.dates(FIRST, LAST)
calendars = st.builds(
    Calendar.of,
    weekdays=st.frozensets(st.integers(0, 6), min_size=1, max_size=6),
    yearly=st.lists(_dates.map(lambda day: (day.month, day.day)), max_size=9),
    spans=st.lists(st.tuples(_dates, _dates).map(lambda both: (min(both), max(both))), max_size=3),
    open=st.lists(_dates, max_size=9),
)
patterns = st.builds(
    lambda days, weekdays, either: CronDays.from_rules(
        [Numbered(days)], [Weekdays(weekdays)], either=either, months=frozenset(range(1, 13))
    ),
    st.frozensets(st.integers(1, 28), min_size=1),
    st.frozensets(st.integers(0, 6), min_size=1),
    st.booleans(),
)


def _closed(calendar: Calendar, day: date) -> bool:
    if day in calendar.open:
        return False
    return (
        day.weekday() in calendar.weekdays
        or (day.month, day.day) in calendar.yearly
        or any(first <= day <= last for first, last in calendar.spans)
    )


def _moved(calendar: Calendar, days: list[date], on_closed: OnClosed) -> set[date]:
    found: set[date] = set()
    for day in days:
        step = {OnClosed.SKIP: timedelta(0), OnClosed.NEXT: DAY, OnClosed.PREVIOUS: -DAY}[on_closed]
        at = day
        while step and _closed(calendar, at):
            at += step
        if not _closed(calendar, at):
            found.add(at)
    return found


@examples(150)
@given(patterns, calendars, st.sampled_from(OnClosed), _dates)
def test_days_go_or_move_as_one_looks_at_each(
    pattern: CronDays, calendar: Calendar, on_closed: OnClosed, day: date
) -> None:
    around = [day + n * DAY for n in range(-800, 800)]
    held = [each for each in around if pattern.day_from(each) == each]
    wanted = _moved(calendar, held, on_closed)
    near = [each for each in around if abs(each - day) < 150 * DAY]
    days = OpenDays(pattern, calendar, on_closed)
    later, earlier = days.day_from(day), days.day_until(day)
    assert [each for each in near if day <= each <= (later or near[-1]) and each in wanted] == (
        [later] if later is not None and later in near else []
    )
    assert [each for each in near if (earlier or near[0]) <= each <= day and each in wanted] == (
        [earlier] if earlier is not None and earlier in near else []
    )


@examples(150)
@given(calendars, _dates)
def test_the_next_and_last_open_day(calendar: Calendar, day: date) -> None:
    later, earlier = calendar.open_day_from(day), calendar.open_day_until(day)
    assert later is not None
    assert earlier is not None
    assert earlier <= day <= later
    assert not _closed(calendar, later)
    assert not _closed(calendar, earlier)
    between = [earlier + n * DAY for n in range(1, (later - earlier).days)]
    assert all(_closed(calendar, each) for each in between)
    assert calendar.is_open(day) == (later == day == earlier)


@examples(150)
@given(calendars, calendars)
def test_equal_calendars_have_equal_ids(one: Calendar, other: Calendar) -> None:
    assert (one.id == other.id) == (one == other)


instants = st.integers(0, 60 * 24 * 100).map(lambda n: datetime(2024, 1, 5, tzinfo=UTC) + n * MINUTE)


@examples(100)
@given(calendars, st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]), st.integers(1, 50), instants)
def test_an_interval_ticks_on_open_days_alone(calendar: Calendar, zone: str, hours: int, after: datetime) -> None:
    created_at = datetime(2024, 1, 1, 0, 30, tzinfo=UTC)
    plain = Every(timedelta(hours=hours))
    wanted = next_fire(plain, after, created_at=created_at)
    assert wanted is not None
    for _ in range(2000):
        if not _closed(calendar, wanted.astimezone(ZoneInfo(zone)).date()):
            break
        wanted += plain.interval
    else:
        assume(False)
    leaf = Every(plain.interval, calendar=calendar, zone=zone)
    assert next_fire(leaf, after, created_at=created_at) == wanted
    before = previous_fire(leaf, wanted, created_at=created_at)
    assert before is None or (before <= after and next_fire(leaf, before, created_at=created_at) == wanted)


@examples(100)
@given(
    calendars, st.sampled_from(OnClosed), st.sampled_from(["30 2 * * *", "0 12 13 * FRI", "*/30 1-2 * * 1-5"]), instants
)
def test_backwards_are_the_same_ticks(
    calendar: Calendar, on_closed: OnClosed, expression: str, after: datetime
) -> None:
    leaf = Cron(expression, "Europe/Berlin", calendar=calendar, on_closed=on_closed)
    tick = next_fire(leaf, after, created_at=after)
    assume(tick is not None)
    assert tick is not None
    assert previous_fire(leaf, tick + MINUTE / 60, created_at=after) == tick
    earlier = previous_fire(leaf, tick, created_at=after)
    assert earlier is None or (earlier <= after and next_fire(leaf, earlier, created_at=after) == tick)


walls = st.builds(time, st.integers(0, 23), st.sampled_from([0, 30]))


@examples(60)
@given(walls, walls, calendars, instants)
def test_a_window_opens_at_the_first_moment_of_an_open_day_that_lies_in_it(
    start: time, end: time, calendar: Calendar, now: datetime
) -> None:
    assume(start != end)

    def is_open(instant: datetime) -> bool:
        wall = instant.time()
        if start < end:
            return start <= wall < end and not _closed(calendar, instant.date())
        opened = instant.date() if wall >= start else instant.date() - DAY
        return (wall >= start or wall < end) and not _closed(calendar, opened)

    verdict = check(TimeWindow(start, end, calendar=calendar), ConstraintInput(satisfied_at=now), now)
    if is_open(now):
        assert isinstance(verdict, Satisfied)
        return
    half = timedelta(minutes=30)
    opens = now - (now - now.replace(minute=0, second=0)) % half
    while not is_open(opens) or opens <= now:
        opens += half
    assert isinstance(verdict, WaitUntil)
    assert verdict.at == opens


@pytest.mark.parametrize("build", [lambda: Calendar.of(weekdays=range(7)), Calendar.of])
def test_what_is_no_calendar(build: Callable[[], Calendar]) -> None:
    with pytest.raises(Exception, match=r"closes (every|no) day"):
        build()
