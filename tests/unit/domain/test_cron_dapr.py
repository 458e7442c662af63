"""Dapr's dialect: robfig's six fields, descriptors, intervals, a zone in front, and its own DST rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.ticks.fire_times import check_cron, next_fire, previous_fire
from streamsched.domain.time.dialect import Dialect, InGap, InOverlap
from streamsched.domain.time.duration import parse_go_duration
from streamsched.domain.triggers.trigger import Cron

FRIDAY = datetime(2024, 3, 1, 12, tzinfo=UTC)


def dapr(expression: str, zone: str = "UTC") -> Cron:
    return Cron(expression, zone, Dialect.DAPR)


@pytest.mark.parametrize(
    ("expression", "tick"),
    [
        ("* * * * * *", "2024-03-01T12:00:01"),
        ("0 0 4 * * *", "2024-03-02T04:00:00"),
        ("0 0 4 ? ? ?", "2024-03-02T04:00:00"),
        ("0 +5 04 * * *", "2024-03-02T04:05:00"),
        ("0 0 4 * * sat", "2024-03-02T04:00:00"),
        ("0 0 4 1,,2 * *", "2024-03-02T04:00:00"),
        ("0 */90 4 * * *", "2024-03-02T04:00:00"),
        ("0 *-5 12 * * *", "2024-03-01T12:01:00"),
        # A star that steps by more than one is no star: either day.
        ("0 0 4 */30 * SUN", "2024-03-03T04:00:00"),
        ("0 0 4 */1 * SUN", "2024-03-03T04:00:00"),
        ("0 0 4 13 * FRI", "2024-03-08T04:00:00"),
        ("0 0 4 1-31 * FRI", "2024-03-02T04:00:00"),
        ("@daily", "2024-03-02T00:00:00"),
        ("@weekly", "2024-03-03T00:00:00"),
        ("@every 90s", "2024-03-01T12:01:30"),
        ("@every 1h30m1.5s", "2024-03-01T13:30:01.5"),
        ("TZ=Asia/Tokyo 0 0 4 * * *", "2024-03-01T19:00:00"),
        ("CRON_TZ=Asia/Tokyo @daily", "2024-03-01T15:00:00"),
    ],
)
def test_the_next_tick(expression: str, tick: str) -> None:
    check_cron(dapr(expression))
    assert next_fire(dapr(expression), FRIDAY, created_at=FRIDAY) == datetime.fromisoformat(tick + "+00:00")


@pytest.mark.parametrize(
    ("descriptor", "equivalent"),
    [
        ("@yearly", "0 0 0 1 1 *"),
        ("@annually", "0 0 0 1 1 *"),
        ("@monthly", "0 0 0 1 * *"),
        ("@weekly", "0 0 0 * * 0"),
        ("@daily", "0 0 0 * * *"),
        ("@midnight", "0 0 0 * * *"),
        ("@hourly", "0 0 * * * *"),
    ],
)
def test_a_descriptor_ticks_as_the_fields_it_stands_for(descriptor: str, equivalent: str) -> None:
    at = FRIDAY
    for _ in range(3):
        tick = next_fire(dapr(descriptor), at, created_at=FRIDAY)
        assert tick is not None
        assert tick == next_fire(dapr(equivalent), at, created_at=FRIDAY)
        at = tick


@pytest.mark.parametrize("expression", ["0 30 * * * *", "0 * * 1,15 * Sun", "@hourly", "@every 1h30m", "@daily"])
def test_the_examples_of_the_proposal_are_accepted(expression: str) -> None:
    check_cron(dapr(expression))


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("", "empty spec string"),
        ("   ", "empty spec string"),
        ("* * * * *", "expected exactly 6 fields, found 5: [* * * * *]"),
        ("x * * * * *", "failed to parse int from x"),
        ("* * * * * 7", "end of range (7) above maximum (6): 7"),
        ("* * * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * * FRI-SUN", "beginning of range (5) beyond end of range (0): FRI-SUN"),
        ("1-2-3 * * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * * *", "too many slashes: 1/2/3"),
        ("*/0 * * * * *", "step of range should be a positive number: */0"),
        ("*/-1 * * * * *", "negative number (-1) not allowed: -1"),
        ("-1 * * * * *", "failed to parse int from "),
        (", * * * * *", "',' names no second, so it could never match"),
        ("* * * L * *", "failed to parse int from L"),
        (
            "@Daily",
            "unrecognized descriptor: @Daily "
            "(known: @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, @every)",
        ),
        (
            "@every 1d",
            "failed to parse duration @every 1d: '1d' is no duration; write numbers with units, as in 90s, 15m, 2h30m",
        ),
        ("@every 0s", "'@every 0s' must be at least one millisecond"),
        ("@every -5m", "'@every -5m' must be at least one millisecond"),
        ("@every 200ms", "'@every 200ms' must be at least one second"),
        ("2h45m", "expected exactly 6 fields, found 1: [2h45m]"),
        ("TZ=Asia/Tokyo", "'TZ=Asia/Tokyo' names a zone, but no schedule follows it"),
        ("TZ=Asia/Tokyo @every 5m", "'TZ=Asia/Tokyo @every 5m' names a zone, but an interval has none"),
        ("TZ=Mars 0 0 4 * * *", "provided bad location Mars: unknown time zone Mars"),
        ("0 0 0 30 2 *", "'0 0 0 30 2 *' never matches: no such month has that day"),
    ],
)
def test_a_refused_expression_says_what_dapr_says(expression: str, reason: str) -> None:
    with pytest.raises(InvalidDefinitionError) as refused:
        check_cron(dapr(expression))
    assert (refused.value.path, refused.value.reason.partition(";")[0]) == ("$.expression", reason.partition(";")[0])


def test_a_zone_in_front_must_be_the_one_beside() -> None:
    check_cron(dapr("TZ=Asia/Tokyo 0 0 4 * * *", "Asia/Tokyo"))
    with pytest.raises(InvalidDefinitionError, match=r"\$\.zone: is Europe/Berlin, but the expression says Asia/Tokyo"):
        check_cron(dapr("TZ=Asia/Tokyo 0 0 4 * * *", "Europe/Berlin"))


def test_an_interval_counts_from_creation_and_has_no_first_tick_before_it() -> None:
    leaf = dapr("@every 1m")
    assert next_fire(leaf, FRIDAY + timedelta(seconds=61), created_at=FRIDAY) == FRIDAY + timedelta(minutes=2)
    assert previous_fire(leaf, FRIDAY + timedelta(seconds=121), created_at=FRIDAY) == FRIDAY + timedelta(minutes=2)
    assert previous_fire(leaf, FRIDAY + timedelta(minutes=1), created_at=FRIDAY) is None


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("1h", 3_600_000_000),
        ("1.5s", 1_500_000),
        (".5m", 30_000_000),
        ("1.m", 60_000_000),
        ("0", 0),
        ("-3us", -3),
        ("1h2m3s4ms5us6ns", 3_723_004_005),
        ("7µs", 7),
        ("1s1s", 2_000_000),
        ("+2s", 2_000_000),
    ],
)
def test_go_durations(text: str, microseconds: int) -> None:
    assert parse_go_duration(text) == timedelta(microseconds=microseconds)


@pytest.mark.parametrize("text", ["", "1", "s", ".s", "1d", "1h 2m", "--1s", "1e3s", "2562047h48m", "9" * 5000 + "s"])
def test_what_go_does_not_take_for_a_duration(text: str) -> None:
    with pytest.raises(InvalidDefinitionError):
        parse_go_duration(text, "$.dueTime")


BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("leaf", "after", "ticks"),
    [
        (
            dapr("0 30 2 * * *", BERLIN),
            "2024-03-30T12:00+01:00",
            ["2024-04-01T02:30+02:00"],
        ),
        (
            dapr("0 30 2 * * *", BERLIN),
            "2024-10-26T12:00+02:00",
            ["2024-10-27T02:30+02:00", "2024-10-27T02:30+01:00", "2024-10-28T02:30+01:00"],
        ),
        (
            dapr("0 30 * * * *", BERLIN),
            "2024-03-31T00:45+01:00",
            ["2024-03-31T01:30+01:00", "2024-03-31T03:30+02:00"],
        ),
        (
            Cron("0 30 2 * * *", BERLIN, Dialect.DAPR, InGap.AFTER, InOverlap.FIRST),
            "2024-03-30T12:00+01:00",
            ["2024-03-31T03:00+02:00", "2024-04-01T02:30+02:00"],
        ),
    ],
)
def test_where_clocks_change(leaf: Cron, after: str, ticks: list[str]) -> None:
    at, seen = datetime.fromisoformat(after), []
    for _ in ticks:
        following = next_fire(leaf, at, created_at=at)
        assert following is not None
        seen.append(following)
        at = following
    assert seen == [datetime.fromisoformat(tick) for tick in ticks]
