"""Quartz's dialect as CDAP has it: what is read, what is refused, and that 1 is Sunday."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.ticks.fire_times import check_cron, next_fire, parse_cron
from streamsched.domain.time.dialect import Dialect
from streamsched.domain.triggers.trigger import Cron

FRIDAY = datetime(2024, 3, 1, 12, tzinfo=UTC)


def quartz(expression: str) -> Cron:
    return Cron(expression, dialect=Dialect.QUARTZ)


@pytest.mark.parametrize(
    ("expression", "ticks"),
    [
        ("0 4 * * *", ["03-02 04:00", "03-03 04:00"]),
        ("0 4 * * 1", ["03-03 04:00", "03-10 04:00"]),
        ("0 4 ? * 1-5", ["03-03 04:00", "03-04 04:00", "03-05 04:00", "03-06 04:00", "03-07 04:00", "03-10 04:00"]),
        ("0 4 ? * MON-FRI", ["03-04 04:00", "03-05 04:00"]),
        ("0 4 ? * fri-mon", ["03-02 04:00", "03-03 04:00", "03-04 04:00", "03-08 04:00"]),
        ("0 22-2 * * ?", ["03-01 22:00", "03-01 23:00", "03-02 00:00", "03-02 01:00", "03-02 02:00", "03-02 22:00"]),
        ("30 0 12 ? * 2", ["03-04 12:00:30"]),
        ("0 0 12 L * ?", ["03-31 12:00", "04-30 12:00", "05-31 12:00"]),
        ("0 0 12 L-3 * ?", ["03-28 12:00", "04-27 12:00"]),
        ("0 0 12 LW * ?", ["03-29 12:00", "04-30 12:00", "05-31 12:00", "06-28 12:00"]),
        ("0 0 12 L-2W * ?", ["03-29 12:00", "04-29 12:00"]),
        ("0 0 12 15W * ?", ["03-15 12:00", "04-15 12:00", "05-15 12:00", "06-14 12:00"]),
        ("0 0 12 1W * ?", ["04-01 12:00", "05-01 12:00", "06-03 12:00"]),
        ("0 0 12 31W * ?", ["03-29 12:00", "05-31 12:00"]),
        ("0 0 12 ? * 6L", ["03-29 12:00", "04-26 12:00"]),
        ("0 0 12 ? * FRIL", ["03-29 12:00", "04-26 12:00"]),
        ("0 0 12 ? * 6#3", ["03-15 12:00", "04-19 12:00"]),
        ("0 0 12 ? * FRI#5", ["03-29 12:00", "05-31 12:00", "08-30 12:00"]),
        ("0 0 12 ? * L", ["03-02 12:00", "03-09 12:00"]),
        ("0 0 12 1,L * ?", ["03-31 12:00", "04-01 12:00", "04-30 12:00"]),
        ("0 0/20 12 * * ?", ["03-01 12:20", "03-01 12:40", "03-02 12:00"]),
        ("0 /20 12 * * ?", ["03-01 12:20", "03-01 12:40"]),
        ("0 10-30/10 12 * * ?", ["03-01 12:10", "03-01 12:20", "03-01 12:30", "03-02 12:10"]),
        ("0 0 0 29 2 ? 2028", ["2028-02-29 00:00"]),
        ("0 0 12 1 1 ? 2025-2026", ["2025-01-01 12:00", "2026-01-01 12:00"]),
        ("0 0 12 1 1 ? *", ["2025-01-01 12:00", "2026-01-01 12:00", "2027-01-01 12:00"]),
    ],
)
def test_the_next_ticks(expression: str, ticks: list[str]) -> None:
    check_cron(quartz(expression))
    at = FRIDAY
    for tick in ticks:
        following = next_fire(quartz(expression), at, created_at=FRIDAY)
        assert following == datetime.fromisoformat(tick if tick.startswith("20") else f"2024-{tick}").replace(
            tzinfo=UTC
        )
        assert following is not None
        at = following


def test_the_last_year_named_is_the_end() -> None:
    assert next_fire(quartz("0 0 12 1 1 ? 2023"), FRIDAY, created_at=FRIDAY) is None


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("* * * *", "'* * * *' has 4 fields; write five, or six or seven that start with seconds"),
        ("0 0 1 * 2", "exactly one of day of month and day of week must be '?'"),
        ("0 0 0 * * *", "exactly one of day of month and day of week must be '?'"),
        ("0 0 0 ? * ?", "exactly one of day of month and day of week must be '?'"),
        ("0 0 ? * *", None),
        ("0 4 ? * 0", "day of week 0 is not from 1 to 7"),
        ("0 4 ? * 8", "day of week 8 is not from 1 to 7"),
        ("0 4 ? * 6#6", "'6#6' must name the first to fifth such day of the month: #1 to #5"),
        ("0 4 L-31 * ?", "'L-31' is before the first day of the month; L-30 is the farthest"),
        ("0 4 32W * ?", "day of month 32 is not from 1 to 31"),
        ("0 4 1-5W * ?", "'5W' is no day of month: a number is wanted"),
        ("0 L * * ?", "'L' is no hour: a number is wanted"),
        (
            "0 0 1.5 * ?",
            "'1.5' is no day of month; write numbers, ranges (1-5), steps (*/15), lists (1,3), L, L-3, LW, 15W or ?",
        ),
        (
            "0 0 ? * 2##3",
            "'2##3' is no day of week; write numbers, ranges (1-5), steps (*/15), lists (1,3), L, 6L, 6#3 or ?",
        ),
        ("0 */0 * * ?", "step 0 of hour '*/0' must be from 1 to 24"),
        ("0 0/25 * * ?", "step 25 of hour '0/25' must be from 1 to 24"),
        ("0 0 0 1 1 ? 2030-2020", "year '2030-2020' runs backwards"),
        ("0 0 0 1 1 ? 1969", "year 1969 is not from 1970 to 2199"),
        ("0 0 31 2 ?", "'0 0 31 2 ?' never matches: no such month has that day"),
        ("0 0 0 29 2 ? 2023", "'0 0 0 29 2 ? 2023' never matches: no such month has that day"),
        ("0 0 31W 2,4 ?", "'0 0 31W 2,4 ?' never matches: no such month has that day"),
        ("0 0 L-30 2 ?", "'0 0 L-30 2 ?' never matches: no such month has that day"),
        ("@daily", "'@daily' has 1 fields; write five, or six or seven that start with seconds"),
        (", * * * ?", "'' is no minute; write numbers, ranges (1-5), steps (*/15), lists (1,3)"),
        ("9" * 2000, "is longer than 1000 characters"),
    ],
)
def test_a_refused_expression_says_which_field_is_wrong(expression: str, reason: str | None) -> None:
    if reason is None:
        check_cron(quartz(expression))
        return
    with pytest.raises(InvalidDefinitionError) as refused:
        check_cron(quartz(expression))
    assert (refused.value.path, refused.value.reason) == ("$.expression", reason)


@pytest.mark.parametrize(
    ("expression", "unix"),
    [
        ("0 4 * * ?", "0 4 * * *"),
        ("0 4 ? * 2-6", "0 4 * * 1-5"),
        ("0 30 4 1,15 * ?", "30 4 1,15 * *"),
        ("*/5 * * JUN ?", "*/5 * * 6 *"),
    ],
)
def test_what_two_dialects_say_alike_is_one_value(expression: str, unix: str) -> None:
    assert parse_cron(expression, Dialect.QUARTZ) == parse_cron(unix, Dialect.UNIX)


def test_unix_numbers_mean_other_days_here() -> None:
    assert parse_cron("0 4 ? * 1-5", Dialect.QUARTZ) == parse_cron("0 4 * * 0-4", Dialect.UNIX)
