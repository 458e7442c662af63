"""A cron expression as sets of numbers: Unix's five fields, or six that start with seconds.

Lists, ranges, steps (`*/15`, `8-18/2`, `5/10`), names of months and days, 7 as Sunday, and `@hourly` … `@yearly`.
As in crontab(5), days of month and of week are alternatives when neither begins with `*`; else both must match.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from calendar import monthrange
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NoReturn

from streamsched.domain.errors import InvalidDefinitionError

_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

_NICKNAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "@yearly": "0 0 1 1 *",
        "@annually": "0 0 1 1 *",
        "@monthly": "0 0 1 * *",
        "@weekly": "0 0 * * 0",
        "@daily": "0 0 * * *",
        "@midnight": "0 0 * * *",
        "@hourly": "0 * * * *",
    }
)

_TERM = re.compile(r"(?:(?P<all>\*)|(?P<low>\w+)(?:-(?P<high>\w+))?)(?:/(?P<step>\d+))?")

#: The Gregorian calendar repeats after this many years; what has no match in them has none at all.
_CYCLE: Final = 400


@dataclass(frozen=True, slots=True)
class _Field:
    noun: str
    lowest: int
    highest: int
    names: tuple[str, ...] = ()


_SECOND: Final = _Field("second", 0, 59)
_MINUTE: Final = _Field("minute", 0, 59)
_HOUR: Final = _Field("hour", 0, 23)
_DAY: Final = _Field("day of month", 1, 31)
_MONTH: Final = _Field("month", 1, 12, _MONTHS)
_WEEKDAY: Final = _Field("day of week", 0, 7, _DAYS)
_FIELDS: Final = (_SECOND, _MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)


@dataclass(frozen=True, slots=True)
class CronFields:
    """What an expression matches, each field ascending. `weekdays` count from Sunday = 0.

    Attributes:
        either_day: days of month and of week are alternatives.
        hourly: every hour of the day matches.
        starred_minute: the minute was written with `*`.
    """

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    hourly: bool
    starred_minute: bool

    def from_wall(self, wall: datetime) -> datetime | None:
        """The first match at or after a wall-clock time (naive, whole seconds); None when there is none any more."""
        day = wall.date()
        if self._holds(day):
            found = self._time_from(wall.time())
            if found is not None:
                return datetime.combine(day, found)
        following = self._day_after(day)
        return following and datetime.combine(following, time(self.hours[0], self.minutes[0], self.seconds[0]))

    def _holds(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_day or by_weekday if self.either_day else by_day and by_weekday

    def _day_after(self, day: date) -> date | None:
        year, month, first = day.year, day.month, day.day + 1
        for _ in range(_CYCLE * 12 + 1):
            if month in self.months:
                for number in range(first, monthrange(year, month)[1] + 1):
                    if self._holds(date(year, month, number)):
                        return date(year, month, number)
            year, month, first = (year, month + 1, 1) if month < 12 else (year + 1, 1, 1)
            if year > date.max.year:
                return None
        return None

    def _time_from(self, at: time) -> time | None:
        for hour in self.hours[bisect_left(self.hours, at.hour) :]:
            if hour > at.hour:
                return time(hour, self.minutes[0], self.seconds[0])
            for minute in self.minutes[bisect_left(self.minutes, at.minute) :]:
                if minute > at.minute:
                    return time(hour, minute, self.seconds[0])
                second = bisect_left(self.seconds, at.second)
                if second < len(self.seconds):
                    return time(hour, minute, self.seconds[second])
        return None


@lru_cache(maxsize=4096)
def parse_cron(expression: str) -> CronFields:
    """Reads an expression. The error's path is `$`: who calls knows where the expression stands.

    Raises:
        InvalidDefinitionError: a field is wrong (the reason names it), or the expression can never match.
    """
    if expression.startswith("@"):
        nickname = _NICKNAMES.get(expression.lower())
        if nickname is None:
            _refuse(f"'{expression}' is no nickname we know (known: {', '.join(_NICKNAMES)})")
        expression = nickname
    parts = expression.split()
    if len(parts) == 5:
        parts = ["0", *parts]
    if len(parts) != 6:
        _refuse(f"'{expression}' has {len(parts)} fields; write five, or six that start with seconds")
    seconds, minutes, hours, days, months, weekdays = (
        _values(part, field) for part, field in zip(parts, _FIELDS, strict=True)
    )
    fields = CronFields(
        seconds=tuple(sorted(seconds)),
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=days,
        months=months,
        weekdays=frozenset(number % 7 for number in weekdays),
        either_day=not parts[3].startswith("*") and not parts[5].startswith("*"),
        hourly=len(hours) == 24,
        starred_minute=parts[1].startswith("*"),
    )
    if fields.from_wall(datetime(2000, 1, 1)) is None:  # noqa: DTZ001 - a wall clock has no zone
        _refuse(f"'{expression}' never matches: no such month has that day")
    return fields


def _values(text: str, field: _Field) -> frozenset[int]:
    return frozenset(number for term in text.split(",") for number in _term(term, field))


def _term(term: str, field: _Field) -> range:
    matched = _TERM.fullmatch(term)
    if matched is None:
        _refuse(f"'{term}' is no {field.noun}; write numbers, ranges (1-5), steps (*/15) and lists (1,3)")
    # Sunday's second number is for those who write it; a star or an open step must not meet Sunday twice.
    highest = 6 if field is _WEEKDAY else field.highest
    low, high, step = matched["low"], matched["high"], int(matched["step"] or 1)
    if not 1 <= step <= highest - field.lowest + 1:
        _refuse(f"step {step} of {field.noun} '{term}' must be from 1 to {highest - field.lowest + 1}")
    if matched["all"]:
        return range(field.lowest, highest + 1, step)
    first = _number(low, field)
    if high is not None:
        last = _number(high, field)
        if field is _WEEKDAY and last == 0 and first > 0 and high.upper() == "SUN":
            last = 7
        if last < first:
            _refuse(f"{field.noun} '{term}' runs backwards")
        return range(first, last + 1, step)
    return range(first, max(first, highest) + 1, step) if matched["step"] else range(first, first + 1)


def _number(text: str, field: _Field) -> int:
    if text.upper() in field.names:
        return field.names.index(text.upper()) + field.lowest
    if not (text.isascii() and text.isdigit()):
        names = f" or {field.names[0]} to {field.names[-1]}" if field.names else ""
        _refuse(f"'{text}' is no {field.noun}: a number{names} is wanted")
    if not field.lowest <= int(text) <= field.highest:
        _refuse(f"{field.noun} {text} is not from {field.lowest} to {field.highest}")
    return int(text)


def _refuse(reason: str) -> NoReturn:
    raise InvalidDefinitionError("$", reason)
