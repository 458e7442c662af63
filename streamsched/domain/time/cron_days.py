"""The days a cron expression matches, in any dialect: months, years, and the days of each shape of month.

A month has one of 28 shapes: four lengths times seven first weekdays. All day rules of the dialects (`MON`, `13`,
`L-2`, `15W`, `FRI#3`) depend on the shape only, so they are evaluated once for each shape, and equal sets of days
compare equal whatever the dialect.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Final, assert_never

#: The Gregorian calendar repeats after this many years; what has no match in them never matches.
CYCLE: Final = 400

_SHAPES: Final = tuple((first, length) for length in range(28, 32) for first in range(7))
_ALL_DAYS: Final = frozenset(range(1, 32))


@dataclass(frozen=True, slots=True)
class Numbered:
    """Days of the month by their numbers."""

    days: frozenset[int]


@dataclass(frozen=True, slots=True)
class FromEnd:
    """The last day of the month, or `before` days earlier; with `working`, the working day nearest to it."""

    before: int = 0
    working: bool = False


@dataclass(frozen=True, slots=True)
class NearestWorkingDay:
    """The weekday Monday to Friday nearest to a day of the month, within the month."""

    day: int


@dataclass(frozen=True, slots=True)
class Weekdays:
    """Days of the week, Sunday = 0."""

    weekdays: frozenset[int]


@dataclass(frozen=True, slots=True)
class NthWeekday:
    """The first to fifth such weekday (Sunday = 0) of the month; the last one when `nth` is 0."""

    weekday: int
    nth: int


DayRule = Numbered | FromEnd | NearestWorkingDay | Weekdays | NthWeekday

EVERY_DAY: Final = Numbered(_ALL_DAYS)
EVERY_WEEKDAY: Final = Weekdays(frozenset(range(7)))


@dataclass(frozen=True, slots=True)
class CronDays:
    """The days an expression matches. Build it with `CronDays.from_rules`.

    Attributes:
        months: 1 to 12.
        shapes: for each shape of month (length, then first weekday from Monday) a number whose bit `d` says whether
            day `d` matches.
        years: those that match; empty: all.
    """

    months: frozenset[int]
    shapes: tuple[int, ...]
    years: frozenset[int] = frozenset()

    @classmethod
    def from_rules(
        cls,
        month_days: Iterable[DayRule],
        weekdays: Iterable[DayRule],
        *,
        either: bool,
        months: frozenset[int],
        years: frozenset[int] = frozenset(),
    ) -> CronDays:
        """Days matched by both groups of rules or, with `either`, by one. A group matches if any of its rules does."""
        by_number, by_weekday = tuple(month_days), tuple(weekdays)
        shapes: list[int] = []
        for first, length in _SHAPES:
            left = _any(by_number, first, length)
            right = _any(by_weekday, first, length)
            shapes.append(left | right if either else left & right)
        return cls(months, tuple(shapes), years)

    def day_from(self, day: date) -> date | None:
        """The first match on or after a day; None when there is none."""
        year, month, first = day.year, day.month, day.day
        for _ in range(CYCLE * 12 + 1):
            left = self._month(year, month) >> first
            if left:
                return date(year, month, first + (left & -left).bit_length() - 1)
            year, month, first = (year, month + 1, 1) if month < 12 else (year + 1, 1, 1)
            if year > date.max.year:
                return None
        return None

    def day_until(self, day: date) -> date | None:
        """The last match on or before a day; None when there is none."""
        year, month, last = day.year, day.month, day.day
        for _ in range(CYCLE * 12 + 1):
            left = self._month(year, month) & ((2 << last) - 1)
            if left:
                return date(year, month, left.bit_length() - 1)
            year, month, last = (year, month - 1, 31) if month > 1 else (year - 1, 12, 31)
            if year < date.min.year:
                return None
        return None

    def _month(self, year: int, month: int) -> int:
        if month not in self.months or (self.years and year not in self.years):
            return 0
        return self.shapes[_shape(year, month)]


@lru_cache(maxsize=1024)
def _shape(year: int, month: int) -> int:
    first, length = monthrange(year, month)
    return (length - 28) * 7 + first


def _any(rules: Iterable[DayRule], first: int, length: int) -> int:
    days = 0
    for rule in rules:
        for day in _days(rule, first, length):
            days |= 1 << day
    return days


def _days(rule: DayRule, first: int, length: int) -> Iterable[int]:
    """The days a rule names in a month that begins with weekday `first` (Monday = 0) and has `length` days."""
    match rule:
        case Numbered(days=days):
            return (day for day in days if day <= length)
        case FromEnd(before=before, working=working):
            day = length - before
            if day < 1:
                return ()
            return (_nearest_working(day, first, length) if working else day,)
        case NearestWorkingDay(day=day):
            return (_nearest_working(day, first, length),) if day <= length else ()
        case Weekdays(weekdays=weekdays):
            return (day for day in range(1, length + 1) if _weekday(day, first) in weekdays)
        case NthWeekday(weekday=weekday, nth=nth):
            such = [day for day in range(1, length + 1) if _weekday(day, first) == weekday]
            return such[nth - 1 : nth] if nth else such[-1:]
        case _:
            assert_never(rule)


def _nearest_working(day: int, first: int, length: int) -> int:
    match _weekday(day, first):
        case 6:
            return day - 1 if day > 1 else day + 2
        case 0:
            return day + 1 if day < length else day - 2
        case _:
            return day


def _weekday(day: int, first: int) -> int:
    """Sunday = 0."""
    return (first + day) % 7
