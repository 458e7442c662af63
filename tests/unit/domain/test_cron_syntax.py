"""What cron expressions are read and refused, and next ticks without clock changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.ticks.fire_times import check_cron, check_zone, next_fire
from streamsched.domain.triggers.trigger import At, Cron, Every

FRIDAY = datetime(2024, 3, 1, 12, tzinfo=UTC)


QUARTZ = 'is of Quartz: give dialect="quartz", where days of the week are 1 (Sunday) to 7'


@pytest.mark.parametrize(
    ("expression", "tick"),
    [
        ("* * * * *", "2024-03-01T12:01:00"),
        ("*/15 * * * *", "2024-03-01T12:15:00"),
        ("5/20 * * * *", "2024-03-01T12:05:00"),
        ("30 * * * * *", "2024-03-01T12:00:30"),
        ("0,30 0 4 * * *", "2024-03-02T04:00:00"),
        ("0 4 * * 7", "2024-03-03T04:00:00"),
        ("0 4 * * 0", "2024-03-03T04:00:00"),
        ("0 4 * * sun", "2024-03-03T04:00:00"),
        ("0 4 * * SAT-SUN", "2024-03-02T04:00:00"),
        ("0 4 * * 5-7", "2024-03-02T04:00:00"),
        ("0 4 * * MON-FRI", "2024-03-04T04:00:00"),
        ("0 4 13 * FRI", "2024-03-08T04:00:00"),
        ("0 4 * JAN,jul *", "2024-07-01T04:00:00"),
        ("0 0 29 2 *", "2028-02-29T00:00:00"),
        ("0 0 31 * *", "2024-03-31T00:00:00"),
        ("0 0 29 2 */7", "2032-02-29T00:00:00"),
        ("@daily", "2024-03-02T00:00:00"),
        ("@HOURLY", "2024-03-01T13:00:00"),
        ("  0   5  * * * ", "2024-03-02T05:00:00"),
    ],
)
def test_the_next_tick(expression: str, tick: str) -> None:
    check_cron(Cron(expression))
    assert next_fire(Cron(expression), FRIDAY, created_at=FRIDAY) == datetime.fromisoformat(tick + "Z")


def test_a_tick_is_strictly_after() -> None:
    assert next_fire(Cron("0 12 * * *"), FRIDAY, created_at=FRIDAY) == FRIDAY + timedelta(days=1)
    assert next_fire(Cron("0 12 * * *"), FRIDAY - timedelta(microseconds=1), created_at=FRIDAY) == FRIDAY


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("* * * *", "'* * * *' has 4 fields; write five, or six that start with seconds"),
        ("", "'' has 0 fields; write five, or six that start with seconds"),
        ("0 0 12 * * ? 2024", "'0 0 12 * * ? 2024' has 7 fields; write five, or six that start with seconds"),
        ("60 * * * *", "minute 60 is not from 0 to 59"),
        ("* 24 * * *", "hour 24 is not from 0 to 23"),
        ("* * 0 * *", "day of month 0 is not from 1 to 31"),
        ("* * * 13 *", "month 13 is not from 1 to 12"),
        ("* * * * 8", "day of week 8 is not from 0 to 7"),
        ("* * * FOO *", "'FOO' is no month: a number or JAN to DEC is wanted"),
        ("* * ? * *", f"'?' {QUARTZ}"),
        ("* * L * *", f"'L' {QUARTZ}"),
        ("* * * * 5#3", f"'5#3' {QUARTZ}"),
        ("1,,2 * * * *", "'' is no minute; write numbers, ranges (1-5), steps (*/15) and lists (1,3)"),
        ("-1 * * * *", "'-1' is no minute; write numbers, ranges (1-5), steps (*/15) and lists (1,3)"),
        ("٣ * * * *", "'٣' is no minute: a number is wanted"),
        ("30-10 * * * *", "minute '30-10' runs backwards"),
        ("* * * * FRI-MON", "day of week 'FRI-MON' runs backwards"),
        ("*/0 * * * *", "step 0 of minute '*/0' must be from 1 to 60"),
        ("*/90 * * * *", "step 90 of minute '*/90' must be from 1 to 60"),
        ("0 0 30 2 *", "'0 0 30 2 *' never matches: no such month has that day"),
        ("0 0 31 2,4,6,9,11 *", "'0 0 31 2,4,6,9,11 *' never matches: no such month has that day"),
        (
            "@reboot",
            "unknown nickname '@reboot' (known: @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly)",
        ),
    ],
)
def test_a_refused_expression_says_which_field_is_wrong(expression: str, reason: str) -> None:
    with pytest.raises(InvalidDefinitionError) as refused:
        check_cron(Cron(expression))
    assert (refused.value.path, refused.value.reason) == ("$.expression", reason)


def test_the_thirtieth_of_february_may_stand_beside_a_day_of_the_week() -> None:
    check_cron(Cron("0 0 30 2 MON"))


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "", "PST", "../etc/passwd", "/etc/localtime", "Europe", "GMT+25", "a\0b"]
)
def test_an_unknown_zone_is_an_error_never_gmt(zone: str) -> None:
    with pytest.raises(InvalidDefinitionError, match="is no IANA time zone") as refused:
        check_zone(zone, "$.trigger.timeZone")
    assert refused.value.path == "$.trigger.timeZone"
    with pytest.raises(InvalidDefinitionError, match="is no IANA time zone"):
        next_fire(Cron("* * * * *", zone), FRIDAY, created_at=FRIDAY)


def test_an_interval_counts_from_creation_and_first_ticks_one_interval_later() -> None:
    hourly = Every(timedelta(hours=1))
    assert next_fire(hourly, FRIDAY, created_at=FRIDAY) == FRIDAY + timedelta(hours=1)
    late = FRIDAY + timedelta(hours=5, minutes=1)
    assert next_fire(hourly, late, created_at=FRIDAY) == FRIDAY + timedelta(hours=6)


def test_an_interval_with_a_start_ticks_at_the_start_and_keeps_its_phase_whenever_it_was_created() -> None:
    start = FRIDAY + timedelta(minutes=10)
    hourly = Every(timedelta(hours=1), start)
    assert next_fire(hourly, FRIDAY, created_at=FRIDAY) == start
    assert next_fire(hourly, start, created_at=FRIDAY) == start + timedelta(hours=1)
    long_after = FRIDAY + timedelta(days=9)
    assert next_fire(hourly, long_after, created_at=long_after) == start + timedelta(days=9)


def test_an_instant_ticks_once_and_is_answered_in_utc() -> None:
    once = At(datetime.fromisoformat("2024-03-01T14:00+01:00"))
    assert next_fire(once, FRIDAY, created_at=FRIDAY) == FRIDAY + timedelta(hours=1)
    assert next_fire(once, FRIDAY + timedelta(hours=1), created_at=FRIDAY) is None


def test_the_end_of_time_is_no_tick_and_no_crash() -> None:
    last = datetime.max.replace(tzinfo=UTC)
    for leaf in (Cron("0 0 1 1 *", "Asia/Kolkata"), Cron("* * * * *"), Every(timedelta(days=400))):
        assert next_fire(leaf, last, created_at=FRIDAY) is None
