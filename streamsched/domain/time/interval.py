"""Ticks at a fixed interval of real time, independent of the wall clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from streamsched.domain.time.calendar import Calendar
from streamsched.domain.time.zone import first_instant

#: Search range for an open day; the Gregorian calendar repeats after 400 years.
_SEARCHED: Final = timedelta(days=400 * 366)


@dataclass(frozen=True, slots=True)
class Interval:
    """`first`, and every `interval` after it, except on days that the calendar closes in `zone`."""

    first: datetime
    interval: timedelta
    calendar: Calendar | None
    zone: ZoneInfo

    def tick_after(self, after: datetime) -> datetime | None:
        """The first tick (UTC) strictly after an instant; None when there is none."""
        try:
            tick = self._next_tick(after)
            while self.calendar is not None:
                opened = self.calendar.open_day_from(day := self._day(tick))
                if opened == day:
                    break
                if opened is None or tick - after > _SEARCHED:
                    return None
                # With a clock set back over midnight, the end of a day comes after the start of the next one.
                tick = self._next_tick(max(tick, self._begin(opened) - timedelta(microseconds=1)))
        except OverflowError:
            return None
        return tick

    def count(self, after: datetime, before: datetime) -> int:
        """How many ticks are strictly between two instants, whatever the calendar closes. Takes no longer for more."""
        begin = (after - self.first) // self.interval + 1 if after >= self.first else 0
        end = -((self.first - before) // self.interval)
        return max(0, end - begin)

    def tick_before(self, before: datetime) -> datetime | None:
        """The last tick (UTC) strictly before an instant; None when there is none."""
        tick = self._previous_tick(before)
        while self.calendar is not None and tick is not None:
            opened = self.calendar.open_day_until(day := self._day(tick))
            if opened == day:
                break
            if opened is None or before - tick > _SEARCHED:
                return None
            tick = self._previous_tick(min(tick, self._begin(date.fromordinal(opened.toordinal() + 1))))
        return tick

    def _next_tick(self, after: datetime) -> datetime:
        passed = (after - self.first) // self.interval + 1 if after >= self.first else 0
        return (self.first + passed * self.interval).astimezone(UTC)

    def _previous_tick(self, before: datetime) -> datetime | None:
        if before <= self.first:
            return None
        passed = -((self.first - before) // self.interval) - 1
        return (self.first + passed * self.interval).astimezone(UTC)

    def _day(self, instant: datetime) -> date:
        return instant.astimezone(self.zone).date()

    def _begin(self, day: date) -> datetime:
        return first_instant(datetime.combine(day, time.min), self.zone)
