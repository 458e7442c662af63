"""A cron expression as sets of numbers: the common representation of all dialects."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Protocol

from streamsched.domain.time.cron_days import CronDays


class Days(Protocol):
    """Days in order: `CronDays`, or `OpenDays` of a calendar."""

    def day_from(self, day: date) -> date | None:
        """The first on or after a day; None when there is none."""
        ...

    def day_until(self, day: date) -> date | None:
        """The last on or before a day; None when there is none."""
        ...


@dataclass(frozen=True, slots=True)
class TimesOfDay:
    """Every combination of these hours, minutes and seconds; each ascending, none empty."""

    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    seconds: tuple[int, ...]

    @property
    def is_hourly(self) -> bool:
        """Every hour of the day matches."""
        return len(self.hours) == 24

    @property
    def first_time(self) -> time:
        return time(self.hours[0], self.minutes[0], self.seconds[0])

    @property
    def last_time(self) -> time:
        return time(self.hours[-1], self.minutes[-1], self.seconds[-1])

    def time_from(self, at: time) -> time | None:
        """The first at or after a time; None when there is none that day."""
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

    def time_until(self, at: time) -> time | None:
        """The last at or before a time; None when there is none that day."""
        for hour in reversed(self.hours[: bisect_right(self.hours, at.hour)]):
            if hour < at.hour:
                return time(hour, self.minutes[-1], self.seconds[-1])
            for minute in reversed(self.minutes[: bisect_right(self.minutes, at.minute)]):
                if minute < at.minute:
                    return time(hour, minute, self.seconds[-1])
                second = bisect_right(self.seconds, at.second)
                if second:
                    return time(hour, minute, self.seconds[second - 1])
        return None


@dataclass(frozen=True, slots=True)
class CronFields:
    """The times an expression matches.

    Attributes:
        starred_minute: the minute field begins with `*`, so the expression is periodic rather than a time of day.
    """

    times: TimesOfDay
    days: CronDays
    starred_minute: bool = False


def wall_from(times: TimesOfDay, days: Days, wall: datetime) -> datetime | None:
    """The first match at or after a wall-clock time (naive, whole seconds); None when there is none."""
    day, at = wall.date(), wall.time()
    found = days.day_from(day)
    if found == day:
        later = times.time_from(at)
        if later is not None:
            return datetime.combine(day, later)
        found = None if day == date.max else days.day_from(date.fromordinal(day.toordinal() + 1))
    return None if found is None else datetime.combine(found, times.first_time)


def wall_until(times: TimesOfDay, days: Days, wall: datetime) -> datetime | None:
    """The last match at or before a wall-clock time (naive, whole seconds); None when there is none."""
    day, at = wall.date(), wall.time()
    found = days.day_until(day)
    if found == day:
        earlier = times.time_until(at)
        if earlier is not None:
            return datetime.combine(day, earlier)
        found = None if day == date.min else days.day_until(date.fromordinal(day.toordinal() - 1))
    return None if found is None else datetime.combine(found, times.last_time)
