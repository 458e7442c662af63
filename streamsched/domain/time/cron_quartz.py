"""Cron in Quartz's dialect, with CDAP's extension.

Six fields, seconds first, and an optional year as the seventh. Sunday is 1 and Saturday 7: `1-5` is Sunday to Thursday.
Exactly one of the two day fields is `?`. Days of month: `L`, `L-3`, `LW`, `L-3W`, `15W`; days of week: `L` (Saturday),
`6L` (the last Friday), `6#3` (the third). A range may wrap around (`FRI-MON`, `22-2`).

Five fields are CDAP's form: seconds are 0, and a `*` in a day field becomes `?` when the other day field is set.

Wider than Quartz: these days may be in lists. Narrower: a step of 0 is refused.
"""

from __future__ import annotations

import re
from typing import Final

from streamsched.domain.time.cron_days import (
    EVERY_DAY,
    EVERY_WEEKDAY,
    CronDays,
    DayRule,
    FromEnd,
    NearestWorkingDay,
    NthWeekday,
    Numbered,
    Weekdays,
)
from streamsched.domain.time.cron_fields import CronFields, TimesOfDay
from streamsched.domain.time.cron_term import (
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    Field,
    parse_list,
    refuse,
    sort_distinct,
    weekday,
)

_WEEKDAY: Final = weekday(1, 7)
_YEAR: Final = Field("year", 1970, 2199)

_TERM = re.compile(r"(?:(?P<all>\*)|(?P<low>\w+)(?:-(?P<high>\w+))?)?(?:/(?P<step>[0-9]+))?")
_FROM_END = re.compile(r"L(?:-(?P<before>[0-9]+))?(?P<working>W)?")
_NEAREST = re.compile(r"(?P<day>[0-9]+)W")
_LAST = re.compile(r"(?P<weekday>\w+)L")
_NTH = re.compile(r"(?P<weekday>\w+)#(?P<nth>[0-9]+)")


def parse_quartz(expression: str) -> CronFields:
    """Parses an expression; the caller checks whether it ever matches.

    Raises:
        InvalidDefinitionError: a field is wrong; the reason names it.
    """
    parts = expression.upper().split()
    if len(parts) == 5:
        parts = _as_cdap_does(parts)
    if len(parts) not in (6, 7):
        refuse(f"'{expression}' has {len(parts)} fields; write five, or six or seven that start with seconds")
    seconds, minutes, hours, days, months, weekdays, *years = parts
    if (days == "?") == (weekdays == "?"):
        refuse("exactly one of day of month and day of week must be '?'")
    return CronFields(
        TimesOfDay(
            *(
                sort_distinct(parse_list(text, f, _term))
                for text, f in ((hours, HOUR), (minutes, MINUTE), (seconds, SECOND))
            )
        ),
        CronDays.from_rules(
            [EVERY_DAY] if days == "?" else [_month_day(term) for term in days.split(",")],
            [EVERY_WEEKDAY] if weekdays == "?" else [_weekday(term) for term in weekdays.split(",")],
            either=False,
            months=parse_list(months, MONTH, _term),
            years=parse_list(years[0], _YEAR, _term) if years and years[0] != "*" else frozenset(),
        ),
        starred_minute=minutes.startswith(("*", "/")),
    )


def _as_cdap_does(parts: list[str]) -> list[str]:
    minutes, hours, days, months, weekdays = parts
    if days != "?" and weekdays == "*":
        weekdays = "?"
    if weekdays != "?" and days == "*":
        days = "?"
    return ["0", minutes, hours, days, months, weekdays]


def _month_day(term: str) -> DayRule:
    if matched := _FROM_END.fullmatch(term):
        before = int(matched["before"] or 0)
        if before > 30:
            refuse(f"'{term}' is before the first day of the month; L-30 is the farthest")
        return FromEnd(before, working=matched["working"] is not None)
    if matched := _NEAREST.fullmatch(term):
        return NearestWorkingDay(DAY.number(matched["day"]))
    return Numbered(frozenset(_term(term, DAY)))


def _weekday(term: str) -> DayRule:
    if term == "L":
        return Weekdays(frozenset({6}))
    if matched := _NTH.fullmatch(term):
        nth = int(matched["nth"])
        if not 1 <= nth <= 5:
            refuse(f"'{term}' must name the first to fifth such day of the month: #1 to #5")
        return NthWeekday(_WEEKDAY.number(matched["weekday"]) - 1, nth)
    if matched := _LAST.fullmatch(term):
        return NthWeekday(_WEEKDAY.number(matched["weekday"]) - 1, 0)
    return Weekdays(frozenset(number - 1 for number in _term(term, _WEEKDAY)))


def _term(term: str, field: Field) -> list[int]:
    matched = _TERM.fullmatch(term)
    if matched is None or not term:
        refuse(
            f"'{term}' is no {field.noun}; write numbers, ranges (1-5), steps (*/15), lists (1,3){_other_forms(field)}"
        )
    low, high, step = matched["low"], matched["high"], int(matched["step"] or 1)
    width = field.highest - field.lowest + 1
    if not 1 <= step <= width:
        refuse(f"step {step} of {field.noun} '{term}' must be from 1 to {width}")
    first = field.lowest if low is None else field.number(low)
    last = field.highest if low is None or (matched["step"] and high is None) else field.number(high or low)
    if last < first:
        if field is _YEAR:
            refuse(f"{field.noun} '{term}' runs backwards")
        last += width
    return [(number - field.lowest) % width + field.lowest for number in range(first, last + 1, step)]


def _other_forms(field: Field) -> str:
    match field.noun:
        case "day of month":
            return ", L, L-3, LW, 15W or ?"
        case "day of week":
            return ", L, 6L, 6#3 or ?"
        case _:
            return ""
