"""Cron against a model that looks at every minute, and against croniter where no clock changes."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from hypothesis import assume, example, given
from hypothesis import strategies as st

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.ticks.fire_times import check_cron, next_fire, parse_cron, previous_fire
from streamsched.domain.time.dialect import Dialect, InGap, InOverlap
from streamsched.domain.triggers.trigger import Cron, TimeLeaf
from streamsched.testing.examples import examples

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "America/Havana",
    "America/Asuncion",
]
MINUTE = timedelta(minutes=1)


def _field(low: int, high: int) -> st.SearchStrategy[str]:
    numbers = st.integers(low, high)
    ranges = st.tuples(numbers, numbers).map(sorted)
    term = st.one_of(
        numbers.map(str),
        ranges.map(lambda pair: f"{pair[0]}-{pair[1]}"),
        st.tuples(ranges, st.integers(1, 5)).map(lambda both: f"{both[0][0]}-{both[0][1]}/{both[1]}"),
    )
    return st.one_of(
        st.just("*"),
        st.integers(2, (high - low) // 2 + 1).map(lambda step: f"*/{step}"),
        st.lists(term, min_size=1, max_size=3).map(",".join),
    )


def _expressions(day: st.SearchStrategy[str], month: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    fields = st.tuples(_field(0, 59), _field(0, 23), day, month, _field(0, 6))
    return fields.map(" ".join).filter(_can_match)


def _can_match(expression: str) -> bool:
    try:
        parse_cron(expression)
    except InvalidDefinitionError:
        return False
    return True


any_expression = _expressions(_field(1, 31), _field(1, 12))
daily_expression = _expressions(st.sampled_from(["*", "*/2", "1-31"]), st.just("*"))

crons = st.builds(
    Cron,
    daily_expression,
    st.sampled_from(ZONES),
    in_gap=st.none() | st.sampled_from(InGap),
    in_overlap=st.none() | st.sampled_from(InOverlap),
)

# Days around the changes of 2024 in these zones, and any others.
near_changes = st.sampled_from([(3, 9), (3, 30), (4, 6), (10, 5), (10, 26), (11, 2), (7, 1)]).flatmap(
    lambda day: st.integers(0, 60 * 48).map(lambda minute: datetime(2024, *day, tzinfo=UTC) + minute * MINUTE)
)


def _matches(expression: str, wall: datetime) -> bool:
    """What crontab(5) says, field by field, with no thought for speed."""
    minute, hour, day, month, weekday = expression.split()

    def in_field(text: str, value: int, low: int, high: int) -> bool:
        for term in text.split(","):
            span, _, step = term.partition("/")
            first, last = (low, high) if span == "*" else (int(part) for part in (span.split("-") * 2)[:2])
            if value in range(first, last + 1, int(step or 1)):
                return True
        return False

    by_day = in_field(day, wall.day, 1, 31)
    by_weekday = in_field(weekday, wall.isoweekday() % 7, 0, 6)
    starred = day.startswith("*") or weekday.startswith("*")
    return (
        in_field(minute, wall.minute, 0, 59)
        and in_field(hour, wall.hour, 0, 23)
        and in_field(month, wall.month, 1, 12)
        and (by_day and by_weekday if starred else by_day or by_weekday)
    )


def _model(leaf: Cron, after: datetime, minutes: int) -> list[datetime]:
    """Ticks in the `minutes` after `after`: what a person with a wall clock and a list of skipped times would do."""
    expression, zone = leaf.expression, ZoneInfo(leaf.zone)
    minute_field, hour_field = expression.split()[:2]
    hourly = all(_matches(f"* {hour_field} * * *", datetime(2024, 1, 1, hour)) for hour in range(24))  # noqa: DTZ001
    in_gap = InGap.SKIP if hourly else leaf.in_gap or InGap.AFTER
    usual = InOverlap.BOTH if minute_field.startswith("*") else InOverlap.FIRST
    in_overlap = InOverlap.BOTH if hourly else leaf.in_overlap or usual
    shown: set[datetime] = set()
    ticks: list[datetime] = []
    instant = after - 26 * 60 * MINUTE
    previous = instant.astimezone(zone).replace(tzinfo=None)
    while instant < after + minutes * MINUTE:
        instant += MINUTE
        wall = instant.astimezone(zone).replace(tzinfo=None)
        tick = _matches(expression, wall)
        if in_overlap is InOverlap.FIRST:
            tick = tick and wall not in shown
        elif in_overlap is InOverlap.SECOND:
            tick = tick and not _comes_again(instant, zone)
        skipped = previous + MINUTE
        while skipped < wall:  # the clock jumped over these
            tick = tick or (in_gap is InGap.AFTER and _matches(expression, skipped))
            skipped += MINUTE
        shown.add(wall)
        previous = wall
        if tick and instant > after:
            ticks.append(instant)
    return ticks


def _comes_again(instant: datetime, zone: ZoneInfo) -> bool:
    """Whether the clock will show the same once more; no zone here puts it back by more than an hour."""
    walls = (instant.astimezone(zone).replace(tzinfo=None), *((instant + n * MINUTE) for n in range(1, 61)))
    return any(later.astimezone(zone).replace(tzinfo=None) == walls[0] for later in walls[1:])


def _ticks(leaf: TimeLeaf, after: datetime, until: datetime) -> list[datetime]:
    ticks, at = [], after
    while (following := next_fire(leaf, at, created_at=after)) is not None and following <= until:
        ticks.append(following)
        at = following
    return ticks


_piece = st.text("0123456789*/,-?LWCH#@+.TZ= ", max_size=6) | st.sampled_from(
    [
        "*",
        "?",
        "0",
        "MON",
        "FRI#3",
        "LW",
        "L-3",
        "15W",
        "6L",
        "1-5",
        "*/7",
        "JAN-3",
        "22-2",
        "@every",
        "@daily",
        "TZ=UTC",
    ]
)


@examples(500)
@given(st.lists(_piece, max_size=8).map(" ".join) | st.text(max_size=20), st.sampled_from(Dialect))
@example("9" * 900 + " * * * *", Dialect.UNIX)
@example("* * * * * FRI#" + "9" * 400, Dialect.QUARTZ)
@example("@every " + "9" * 900 + "h", Dialect.DAPR)
def test_whatever_is_written_is_read_or_refused(expression: str, dialect: Dialect) -> None:
    leaf, now = Cron(expression, dialect=dialect), datetime(2024, 1, 1, tzinfo=UTC)
    try:
        check_cron(leaf)
    except InvalidDefinitionError as exc:
        refused = exc.path
    else:
        refused = ""
    assert refused in ("", "$.expression")
    if refused:
        return
    tick = next_fire(leaf, now, created_at=now)
    assert tick is None or previous_fire(leaf, tick + MINUTE / 60, created_at=now) == tick


@examples(150)
@given(crons, near_changes)
@example(Cron("30 2 * * *", "Europe/Berlin"), datetime(2024, 3, 30, 12, tzinfo=UTC))
@example(Cron("*/20 1-2 * * *", "America/Havana"), datetime(2024, 11, 3, 2, tzinfo=UTC))
@example(Cron("*/5 2 * * *", "Europe/Berlin", in_overlap=InOverlap.SECOND), datetime(2024, 10, 26, 23, 50, tzinfo=UTC))
def test_ticks_are_those_of_a_clock_watched_every_minute(leaf: Cron, after: datetime) -> None:
    minutes = 36 * 60
    watched = _model(leaf, after, minutes)
    assert _ticks(leaf, after, after + minutes * MINUTE) == watched


@examples(150)
@given(crons, near_changes, st.integers(0, 59_999_999))
def test_backwards_are_the_same_ticks(leaf: Cron, after: datetime, micros: int) -> None:
    until = after + timedelta(hours=36, microseconds=micros)
    ticks, at = [], until
    while (earlier := previous_fire(leaf, at, created_at=after)) is not None and earlier > after:
        ticks.append(earlier)
        at = earlier
    forwards = _ticks(leaf, after, until)
    assert ticks == [tick for tick in reversed(forwards) if tick < until]


@examples(300)
@given(any_expression, st.datetimes(datetime(2000, 1, 1), datetime(2060, 1, 1)))  # noqa: DTZ001
def test_without_clock_changes_croniter_agrees(expression: str, wall: datetime) -> None:
    day, weekday = expression.split()[2], expression.split()[4]
    # croniter takes `*/2` for a restricted day, crontab(5) for a star; and it takes a list of all for a star.
    assume(not (day.startswith("*/") and weekday != "*") and not (weekday.startswith("*/") and day != "*"))
    assume(_spelled_out(day, 1, 31) and _spelled_out(weekday, 0, 6))
    assume(not re.search(r"\b(\d+)-\1\b", expression))  # croniter takes `4-4` for everything
    days = set() if day == "*" else _values(day, 1, 31)
    assume(not (days & {29, 30, 31} and days & {1, 2, 3}))  # croniter takes the 31st of February for 2 March
    after = wall.replace(tzinfo=UTC)
    at, oracle = after, croniter(expression, after)
    for _ in range(3):
        following = next_fire(Cron(expression), at, created_at=after)
        assert following == oracle.get_next(datetime)
        assert following is not None
        at = following


def _spelled_out(field: str, low: int, high: int) -> bool:
    """Not every value of the field written some other way than `*`."""
    return "*" in field.split(",") or _values(field, low, high) != set(range(low, high + 1))


def _values(field: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for term in field.split(","):
        span, _, step = term.partition("/")
        first, last = (low, high) if span == "*" else (int(part) for part in (span.split("-") * 2)[:2])
        found |= set(range(first, last + 1, int(step or 1)))
    return found


@pytest.mark.parametrize(
    ("expression", "after", "ours", "theirs"),
    [
        # A starred step is a star for crontab(5): both days must match. croniter takes them as alternatives.
        ("0 0 */2 * MON", "2024-01-01T12:00+00:00", "2024-01-15T00:00+00:00", "2024-01-03T00:00+00:00"),
        # February has no 31st; croniter goes on from 2 March.
        ("0 0 1,31 * *", "2024-02-17T00:00+00:00", "2024-03-01T00:00+00:00", "2024-03-31T00:00+00:00"),
        # A range of one is that one.
        ("0 4-4 * * *", "2024-01-01T12:00+00:00", "2024-01-02T04:00+00:00", "2024-01-01T13:00+00:00"),
    ],
)
def test_where_croniter_differs(expression: str, after: str, ours: str, theirs: str) -> None:
    at = datetime.fromisoformat(after)
    assert next_fire(Cron(expression), at, created_at=at) == datetime.fromisoformat(ours)
    assert croniter(expression, at).get_next(datetime) == datetime.fromisoformat(theirs)


@examples(150)
@given(any_expression, st.sampled_from(ZONES), near_changes)
def test_no_tick_lies_between_a_tick_and_the_one_before_it(expression: str, zone: str, after: datetime) -> None:
    leaf = Cron(expression, zone)
    tick = next_fire(leaf, after, created_at=after)
    assert tick is not None
    earlier = previous_fire(leaf, tick, created_at=after)
    assert earlier is not None
    assert earlier <= after
    assert next_fire(leaf, earlier, created_at=after) == tick
    assert previous_fire(leaf, tick + timedelta(microseconds=1), created_at=after) == tick


@examples(150)
@given(any_expression, st.sampled_from(ZONES), near_changes)
def test_a_tick_is_after_what_was_asked_and_nothing_lies_between(expression: str, zone: str, after: datetime) -> None:
    leaf = Cron(expression, zone)
    tick = next_fire(leaf, after, created_at=after)
    assert tick is not None
    assert tick > after
    between = after + (tick - after) / 2
    assert next_fire(leaf, between, created_at=after) == tick
