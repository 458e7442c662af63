"""Periods in all zones, against a naive model that walks the days of a zone in UTC; and the spellings of instants."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.time.grain import Grain
from streamsched.domain.time.period import NO_ZONE, Period, period
from streamsched.domain.time.period_text import LONGEST, NoPeriod
from streamsched.domain.time.zone import zone_names, zone_of
from streamsched.testing.examples import examples

BEGIN, END = datetime(2010, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
#: Zones by the offsets they have in these years; of several that are equal, one.
ZONES: Final = sorted(zone_names())


@cache
def offsets(zone: str) -> tuple[tuple[datetime, timedelta], ...]:
    """The offset at the beginning, and each change of it, found by steps of six hours and then of minutes."""
    clock, at = zone_of(zone), BEGIN
    found = [(at, _offset(clock, at))]
    while at < END:
        after = at + 6 * HOUR
        while _offset(clock, after) != found[-1][1]:
            instant = at
            while _offset(clock, instant) == found[-1][1]:
                instant += MINUTE
            found.append((instant, _offset(clock, instant)))
        at = after
    return tuple(found)


def _offset(clock: ZoneInfo, instant: datetime) -> timedelta:
    return instant.astimezone(clock).utcoffset() or timedelta(0)


def distinct_zones() -> list[str]:
    return sorted({offsets(zone): zone for zone in ZONES}.values())


def hours_of(zone: str, day: date) -> list[datetime]:
    """The instants of a day at which an hour begins: the clock shows a full hour, or an hour whose beginning it never
    shows. Minute by minute in UTC.
    """
    clock, found, labels = zone_of(zone), [], set[int]()
    at = datetime(day.year, day.month, day.day, tzinfo=UTC) - 26 * HOUR
    for _ in range(78 * 60):
        shown = at.astimezone(clock)
        if shown.date() == day and (shown.minute == 0 or shown.hour not in labels):
            found.append(at)
        if shown.date() == day:
            labels.add(shown.hour)
        at += MINUTE
    return found


def changed_days(zone: str) -> Iterator[date]:
    """The local days before, at and after each change."""
    for instant, _ in offsets(zone)[1:]:
        for shift in (-24 * HOUR, -MINUTE, 0 * HOUR, 24 * HOUR):
            yield (instant + shift).astimezone(zone_of(zone)).date()


def check_day(zone: str, day: date) -> None:
    found = period(day.isoformat(), Grain.DAY, zone)
    model = hours_of(zone, day)
    if not model:
        assert isinstance(found, NoPeriod), (zone, day)
        return
    assert isinstance(found, Period), (zone, day)
    parts = found.parts(Grain.HOUR)
    assert [each.start for each in parts] == model, (zone, day)
    assert len({each.key for each in parts}) == len(parts), (zone, day)
    for each in parts:
        assert period(each.key, Grain.HOUR, zone) == each
        assert each.containing_period(Grain.DAY) == found
        assert period(each.start.isoformat(), Grain.HOUR, zone) == each


#: Changes by half an hour, by two hours, at midnight and at one minute past it, a day that was skipped, offsets of
#: minutes, summer time that is behind.
SPECIAL: Final = (
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "America/Sao_Paulo",
    "America/Havana",
    "America/St_Johns",
    "Asia/Gaza",
    "Asia/Pyongyang",
    "America/Caracas",
    "Pacific/Apia",
    "Asia/Kathmandu",
    "Europe/Dublin",
    "Africa/Casablanca",
)


@pytest.mark.parametrize("zone", [*SPECIAL, "Antarctica/Casey", "America/Nuuk"])
def test_the_hours_of_the_days_of_a_zone_are_those_its_clocks_show(zone: str) -> None:
    days = sorted(set(changed_days(zone)))
    for day in [*days[:12], *days[-6:], date(2011, 12, 30), date(2026, 3, 1)]:
        check_day(zone, day)


@pytest.mark.nightly
def test_the_hours_of_the_changed_days_of_all_zones_are_those_their_clocks_show() -> None:
    for zone in distinct_zones():
        for day in sorted(set(changed_days(zone))):
            check_day(zone, day)


@pytest.mark.nightly
def test_all_days_of_all_zones_follow_each_other_and_have_24_hours_where_no_clock_changes() -> None:
    for zone in distinct_zones():
        changed = set(changed_days(zone))
        day = period("2010-01-01", Grain.DAY, zone)
        while isinstance(day, Period) and day.start < END:
            parts = day.parts(Grain.HOUR)
            assert parts[0].start == day.start
            assert len(parts) == 24 or date.fromisoformat(day.key) in changed, (zone, day.key)
            day = day.next_period()


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", "2026-03-29", 23),
        ("Europe/Berlin", "2026-03-28", 24),
        ("Europe/Berlin", "2026-10-25", 25),
        ("Antarctica/Troll", "2026-03-29", 22),
        ("Antarctica/Troll", "2026-10-25", 26),
        ("Australia/Lord_Howe", "2026-04-05", 24),
        ("Australia/Lord_Howe", "2026-10-04", 24),
        ("Pacific/Apia", "2011-12-31", 24),
        ("UTC", "2026-03-29", 24),
    ],
)
def test_a_day_has_so_many_hours(zone: str, day: str, hours: int) -> None:
    found = period(day, Grain.DAY, zone)

    assert isinstance(found, Period)
    assert len(found.parts(Grain.HOUR)) == hours
    assert found.end - found.start == timedelta(hours=hours) or zone == "Australia/Lord_Howe"


def test_a_skipped_day_is_none_and_its_neighbours_follow_each_other() -> None:
    before = period("2011-12-29", Grain.DAY, "Pacific/Apia")
    month = period("2011-12", Grain.MONTH, "Pacific/Apia")

    assert period("2011-12-30", Grain.DAY, "Pacific/Apia") == NoPeriod("clocks of Pacific/Apia skip it")
    assert isinstance(before, Period)
    assert isinstance(month, Period)
    assert before.next_period().key == "2011-12-31"
    assert len(month.parts(Grain.DAY)) == 30
    assert before.containing_period(Grain.WEEK).key == "2011-W52"


GRAINS = st.sampled_from(list(Grain))
INSTANTS = st.datetimes(datetime(1980, 1, 1), datetime(2036, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def _next_in(one: Period, whole: Period) -> Period:
    """The next finer period of the whole. A clock that is set back over its end shows others in between."""
    found = one.next_period()
    while found.containing_period(whole.grain) != whole:
        found = found.next_period()
    return found


def test_hours_are_in_order_where_the_clock_is_set_back_over_midnight() -> None:
    """In St. John's at 00:01 on 30 October 1988, by two hours: some of the 29th come after the first of the 30th."""
    month = period("1988-10", Grain.MONTH, "America/St_Johns")
    assert isinstance(month, Period)
    hours = month.parts(Grain.HOUR)
    assert [each.start for each in hours] == sorted({each.start for each in hours})
    assert len(hours) == 31 * 24 + 2


@examples(300)
@given(INSTANTS, GRAINS, st.sampled_from(SPECIAL))
def test_finer_periods_divide_a_coarser_one(instant: datetime, coarse: Grain, zone: str) -> None:
    whole = _around(instant, coarse, zone)

    assert whole.start <= instant
    assert instant < whole.end or coarse is Grain.HOUR
    assert period(whole.key, coarse, zone) == whole
    for fine in Grain:
        if fine.divides(coarse) and (fine, coarse) != (Grain.HOUR, Grain.YEAR):
            parts = whole.parts(fine)
            assert parts[0].start == whole.start
            assert parts[-1].end == whole.end or parts[-1].start >= whole.end, (
                "after the clock was set back over its end"
            )
            assert all(_next_in(one, whole) == other for one, other in itertools.pairwise(parts))
            assert {each.containing_period(coarse) for each in (parts[0], parts[-1])} == {whole}


def _around(instant: datetime, grain: Grain, zone: str) -> Period:
    """The period of a day or more around an instant, or an hour of that day."""
    day = period(instant.astimezone(zone_of(zone)).date().isoformat(), Grain.DAY, zone)
    assert isinstance(day, Period)
    if grain is Grain.HOUR:
        return next(each for each in reversed(day.parts(grain)) if each.start <= instant or each.start == day.start)
    return day if grain is Grain.DAY else day.containing_period(grain)


@examples(500)
@given(INSTANTS, st.sampled_from(SPECIAL), st.data())
def test_an_instant_is_one_key_in_every_spelling(instant: datetime, zone: str, data: st.DataObject) -> None:
    hour = _around(instant, Grain.HOUR, zone)

    for clock in (zone, data.draw(st.sampled_from(SPECIAL)), NO_ZONE):
        shown = hour.start.astimezone(zone_of(clock))
        for text in spellings(shown, data):
            assert period(text, Grain.HOUR, zone) == hour, text


def spellings(shown: datetime, data: st.DataObject) -> Iterator[str]:
    """Texts with the offset of a clock."""
    offset = shown.utcoffset() or timedelta(0)
    sign, ahead = ("-", -offset) if offset < timedelta(0) else ("+", offset)
    hours, minutes = divmod(ahead // MINUTE, 60)
    offsets = [f"{sign}{hours:02}:{minutes:02}", f"{sign}{hours:02}{minutes:02}"]
    offsets += [f"{sign}{hours:02}"] if not minutes else []
    offsets += ["Z", " UTC", "z"] if not offset else []
    dates = [f"{shown:%Y-%m-%d}", f"{shown:%Y%m%d}", f"{shown.year}-{shown.month}-{shown.day}", f"{shown:%G-W%V-%u}"]
    times = [f"{shown:%H:%M}", f"{shown:%H%M}", f"{shown:%H:%M:%S}", f"{shown:%H%M%S}", f"{shown:%H:%M:%S}.000"]
    parts = st.tuples(*map(st.sampled_from, (dates, ["T", " ", "_", "-", "t"], times, offsets)))
    for _ in range(6):
        text = "".join(data.draw(parts))
        yield text
        yield text.replace(":", "%3A").replace("+", "%2B").replace(" ", "%20")


@examples(500)
@given(
    st.text(max_size=80) | st.from_regex(r"[0-9TtZzWw: +_.%-]{0,70}", fullmatch=True), GRAINS, st.sampled_from(SPECIAL)
)
def test_any_text_names_a_period_or_says_why_not(text: str, grain: Grain, zone: str) -> None:
    for clock in (zone, NO_ZONE):
        found = period(text, grain, clock)
        if isinstance(found, Period):
            assert len(text) <= LONGEST
            assert period(found.key, grain, clock) == found
        else:
            assert len(found.why) < 200


@examples(300)
@given(st.datetimes(), GRAINS)
def test_what_earlier_releases_accepted_has_the_key_it_had(at: datetime, grain: Grain) -> None:
    """`2013-01-07T05`, `2013-01-07`, `2013-01`, `2013`, and the hours with a space, `_` or `-`, and with minutes."""
    lengths = {Grain.HOUR: 13, Grain.DAY: 10, Grain.MONTH: 7, Grain.YEAR: 4}
    if grain is Grain.WEEK or at.year == 9999:
        return
    key = at.isoformat()[: lengths[grain]]
    texts = [key, f" {key} "]
    if grain is Grain.HOUR:
        texts = [f"{key[:10]}{mark}{key[11:]}{rest}" for mark in "T _-" for rest in ("", ":00", "00", "-00")]
    for text in texts:
        found = period(text, grain)
        assert isinstance(found, Period), text
        assert found.key == key
