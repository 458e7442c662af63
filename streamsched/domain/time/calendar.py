"""Calendars: days on which nothing ticks and no window opens. Days are wall-clock days; the user of a calendar chooses
the zone.

>>> from datetime import date
>>> shop = Calendar.of("shop", weekdays=[6], yearly=[(12, 25)], spans=[(date(2026, 7, 1), date(2026, 7, 14))])
>>> shop.closed_by(date(2026, 7, 3)), shop.closed_by(date(2026, 7, 15))
('2026-07-01 to 2026-07-14', None)
>>> shop.open_day_from(date(2026, 12, 25))
datetime.date(2026, 12, 26)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from hashlib import sha256
from typing import Final, assert_never

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.time.cron_days import CYCLE
from streamsched.domain.time.cron_fields import Days

#: By `date.weekday()`.
WEEKDAYS: Final = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")

_LEAP_YEAR: Final = 2000


class OnClosed(StrEnum):
    """The rule for a tick on a closed day: skip it, or move it to the next or previous open day, same time."""

    SKIP = "skip"
    NEXT = "next"
    PREVIOUS = "previous"


@dataclass(frozen=True, slots=True)
class Calendar:
    """A day is closed when a weekday, a day of the year or a span closes it and it is not in `open`.

    Build it with `Calendar.of`, which normalizes: equal calendars are equal values.

    Attributes:
        weekdays: 0 (Monday) to 6.
        yearly: (month, day), ascending; (2, 29) closes leap days.
        spans: first and last day, ascending, neither touching the next.
        open: days that are open although something closes them.
    """

    name: str = ""
    weekdays: frozenset[int] = frozenset()
    yearly: tuple[tuple[int, int], ...] = ()
    spans: tuple[tuple[date, date], ...] = ()
    open: tuple[date, ...] = ()

    def __post_init__(self) -> None:
        if not (self.weekdays or self.yearly or self.spans):
            raise InvalidDefinitionError("$", "closes no day")
        if len(self.weekdays) == 7:
            raise InvalidDefinitionError("$.weekdays", "closes every day")
        if len(self.yearly) == 366:
            raise InvalidDefinitionError("$.yearly", "closes every day")
        if self.spans and self.spans[-1][1].year == date.max.year:
            raise InvalidDefinitionError("$.dates", f"closes every day from {self.spans[-1][0]} on")

    @classmethod
    def of(
        cls,
        name: str = "",
        *,
        weekdays: Iterable[int] = (),
        yearly: Iterable[tuple[int, int]] = (),
        spans: Iterable[tuple[date, date]] = (),
        open: Iterable[date] = (),  # noqa: A002 - the word of the field
    ) -> Calendar:
        """The calendar of these closed days and exceptions, normalized.

        Raises:
            InvalidDefinitionError: there is no such day, a span ends before it begins, or no day or every day is
                closed.
        """
        by_day = sorted(set(yearly))
        for number, (month, day) in enumerate(by_day):
            try:
                date(_LEAP_YEAR, month, day)
            except ValueError as exc:
                raise InvalidDefinitionError(f"$.yearly[{number}]", f"no year has {month:02}-{day:02}") from exc
        return cls(name, frozenset(weekdays), tuple(by_day), _merge_spans(spans), tuple(sorted(set(open))))

    @property
    def size(self) -> int:
        """The number of its days and spans."""
        return len(self.weekdays) + len(self.yearly) + len(self.spans) + len(self.open)

    def __hash__(self) -> int:
        """Costs the same for a calendar of any size."""
        return hash((self.name, self.weekdays, self.size, *self.yearly[:2], *self.spans[:2], *self.open[:2]))

    @property
    def id(self) -> str:
        """A stable text, equal exactly for equal calendars."""
        return sha256(repr(self._in_order()).encode()).hexdigest()[:16]

    def closed_by(self, day: date) -> str | None:
        """What closes a day, as text; None when it is open."""
        if day in self.open:
            return None
        span = self._span(day)
        if span is not None:
            first, last = span
            return f"{first}" if first == last else f"{first} to {last}"
        if (day.month, day.day) in self.yearly:
            return f"{day.month:02}-{day.day:02} of every year"
        return f"every {WEEKDAYS[day.weekday()]}" if day.weekday() in self.weekdays else None

    def is_open(self, day: date) -> bool:
        """Whether nothing closes the day."""
        return self.closed_by(day) is None

    def open_day_from(self, day: date) -> date | None:
        """The first open day on or after a day; None when there is none."""
        while not self.is_open(day):
            span = self._span(day)
            later = next((each for each in self.open if each > day), None)
            beyond = day if span is None else span[1] if later is None else min(span[1], _previous_day(later) or day)
            following = _next_day(beyond)
            if following is None:
                return None
            day = following
        return day

    def open_day_until(self, day: date) -> date | None:
        """The last open day on or before a day; None when there is none."""
        while not self.is_open(day):
            span = self._span(day)
            earlier = next((each for each in reversed(self.open) if each < day), None)
            beyond = day if span is None else span[0] if earlier is None else max(span[0], _next_day(earlier) or day)
            preceding = _previous_day(beyond)
            if preceding is None:
                return None
            day = preceding
        return day

    def __str__(self) -> str:
        return f"calendar {self.name}" if self.name else "a calendar"

    def _span(self, day: date) -> tuple[date, date] | None:
        index = bisect_right(self.spans, (day, date.max)) - 1
        return self.spans[index] if index >= 0 and self.spans[index][1] >= day else None

    def _in_order(self) -> tuple[object, ...]:
        return self.name, sorted(self.weekdays), self.yearly, self.spans, self.open


@dataclass(frozen=True, slots=True)
class OpenDays:
    """Days some of which a calendar closes; those are skipped or moved (`on_closed`). Several may move to one day."""

    days: Days
    calendar: Calendar
    on_closed: OnClosed = OnClosed.SKIP

    def day_from(self, day: date) -> date | None:
        """The first on or after a day; None when there is none."""
        match self.on_closed:
            case OnClosed.SKIP:
                return self._find_first(day)
            case OnClosed.NEXT:
                # Moving keeps the order, so the first day moved here is the first one since the last open day.
                shut = _previous_day(day)
                last = None if shut is None else self.calendar.open_day_until(shut)
                found = self.days.day_from(date.min if last is None else _next_day(last) or day)
                return found and self.calendar.open_day_from(found)
            case OnClosed.PREVIOUS:
                first = self.calendar.open_day_from(day)
                found = first and self.days.day_from(first)
                return found and self.calendar.open_day_until(found)
            case _:
                assert_never(self.on_closed)

    def day_until(self, day: date) -> date | None:
        """The last on or before a day; None when there is none."""
        match self.on_closed:
            case OnClosed.SKIP:
                return self._find_last(day)
            case OnClosed.NEXT:
                last = self.calendar.open_day_until(day)
                found = last and self.days.day_until(last)
                return found and self.calendar.open_day_from(found)
            case OnClosed.PREVIOUS:
                shut = _next_day(day)
                first = None if shut is None else self.calendar.open_day_from(shut)
                found = self.days.day_until(date.max if first is None else _previous_day(first) or day)
                return found and self.calendar.open_day_until(found)
            case _:
                assert_never(self.on_closed)

    def _find_first(self, day: date) -> date | None:
        found, year = self.days.day_from(day), self._last_year_to_search(day)
        while found is not None and found.year <= year:
            opened = self.calendar.open_day_from(found)
            if opened is None or opened == found:
                return opened
            found = self.days.day_from(opened)
        return None

    def _find_last(self, day: date) -> date | None:
        found, year = self.days.day_until(day), self._first_year_to_search(day)
        while found is not None and found.year >= year:
            opened = self.calendar.open_day_until(found)
            if opened is None or opened == found:
                return opened
            found = self.days.day_until(opened)
        return None

    def _last_year_to_search(self, day: date) -> int:
        """The last year to search: after the last day that the calendar names, everything repeats."""
        named = [last for _, last in self.calendar.spans[-1:]] + list(self.calendar.open[-1:])
        return max([day, *named]).year + CYCLE

    def _first_year_to_search(self, day: date) -> int:
        named = [first for first, _ in self.calendar.spans[:1]] + list(self.calendar.open[:1])
        return min([day, *named]).year - CYCLE


def _merge_spans(spans: Iterable[tuple[date, date]]) -> tuple[tuple[date, date], ...]:
    merged: list[tuple[date, date]] = []
    for first, last in sorted(spans):
        if last < first:
            raise InvalidDefinitionError("$.dates", f"{first}/{last} ends before it begins")
        if merged and first.toordinal() <= merged[-1][1].toordinal() + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return tuple(merged)


def _next_day(day: date) -> date | None:
    return None if day == date.max else date.fromordinal(day.toordinal() + 1)


def _previous_day(day: date) -> date | None:
    return None if day == date.min else date.fromordinal(day.toordinal() - 1)
