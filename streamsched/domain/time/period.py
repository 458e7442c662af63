"""Periods: the typed value of a text that names an hour, day, week, month or year, in a zone.

>>> period("2026-03-29 03:00:00+03:00", Grain.HOUR, "Europe/Berlin").key
'2026-03-29T01'
>>> day = period("20260329", Grain.DAY, "Europe/Berlin")
>>> len(day.parts(Grain.HOUR)), day.next_period().key, day.containing_period(Grain.WEEK).key
(23, '2026-03-30', '2026-W13')
>>> period("2026-03-01T05:30", Grain.HOUR).why
'the clock shows 2026-03-01 05:30, and no hour begins then'

A period is an instant and a grain, so all spellings of one instant are one period. A text without an offset is read on
the clock of the zone; one that is shown twice in autumn is the first. Without a zone, which is zone UTC, wall-clock
time counts as it is: a day always has 24 hours.

A day lasts from the first instant of its date to that of the next date that exists (Pacific/Apia had no 30 December
2011), and so do the coarser ones. An hour begins whenever the clock shows a full hour, and at a jump forward over the
full hour that leaves a part of the hour. So a day has 23, 24 or 25 hours; where clocks change by 30 minutes it has 24,
of which one lasts 30 or 90 minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import Final

from streamsched.domain.time.calendar import Calendar
from streamsched.domain.time.grain import Grain, period_name, period_start, shift_start
from streamsched.domain.time.period_text import NoPeriod, written_time
from streamsched.domain.time.zone import first_instant, jumps, zone_of

#: The zone of periods without one.
NO_ZONE: Final = "UTC"
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_OUT_OF_RANGE: Final = NoPeriod("its year is out of range")
_TIME: Final = len("2026-03-01T05:00:00")


@dataclass(frozen=True, slots=True)
class Period:
    """Made by `period`, `containing_period`, `parts` and `next_period`, so it exists: its zone's clock shows its
    beginning.

    Attributes:
        start: its first instant (UTC).
        zone: an IANA name.
    """

    start: datetime
    grain: Grain
    zone: str = NO_ZONE

    @property
    def key(self) -> str:
        """Its only canonical text, which `period` reads: `2026-03-01T05`, `2026-03-01`, `2026-W09`, `2026-03`, `2026`.
        The second of two hours of one name has its offset: `2026-10-25T02+01:00`.
        """
        shown = self._wall_start
        text = period_name(shown, self.grain)
        if shown.fold and self.grain is Grain.HOUR:
            text += self.start.astimezone(zone_of(self.zone)).isoformat()[_TIME:]
        return text

    @property
    def day(self) -> date:
        """What the calendar of its zone shows at its beginning."""
        return self._wall_start.date()

    @property
    def end(self) -> datetime:
        """The first instant after it (UTC)."""
        return self.next_period().start

    def next_period(self) -> Period:
        """The period after it.

        Raises:
            OverflowError, ValueError: it would be after the year 9999.
        """
        if self.grain is Grain.HOUR:
            return self._next_hour()
        shown = shift_start(period_start(self._wall_start, self.grain), self.grain)
        while (found := _beginning(shown, self.grain, self.zone)) is None:
            shown = shift_start(shown, self.grain)
        return found

    def containing_period(self, coarse: Grain) -> Period:
        """The period of a grain that this one divides in which it lies."""
        found = _beginning(period_start(self._wall_start, coarse), coarse, self.zone)
        assert found is not None, "the clock shows a time of it"
        return found

    def parts(self, fine: Grain) -> tuple[Period, ...]:
        """The periods of a grain that divides this one, in order; at most the 8,784 hours of a year."""
        if fine is Grain.HOUR:
            days = (self,) if self.grain is Grain.DAY else self.parts(Grain.DAY)
            hours = [hour for day in days for hour in day._hours()]
            return tuple(sorted(hours, key=attrgetter("start")))  # clocks set back over midnight mix those of two days
        end, found = self.end, [Period(self.start, fine, self.zone)]
        while (after := found[-1].next_period()).start < end:
            found.append(after)
        return tuple(found)

    def _hours(self) -> Iterator[Period]:
        """The hours of a day: those that begin on its date, also after the clock was set back from the next one."""
        end = self.end
        if (end - self.start, self._offset(self.start)) == (_DAY, self._offset(end + _DAY)):
            yield from (Period(self.start + hour * _HOUR, Grain.HOUR, self.zone) for hour in range(24))
            return
        hour = Period(self.start, Grain.HOUR, self.zone)
        while hour.start < end + _DAY:
            if hour._wall_start.date() == self._wall_start.date():
                yield hour
            hour = hour.next_period()

    @property
    def _wall_start(self) -> datetime:
        """What the clock shows at its beginning; naive, with `fold` for the second time."""
        if self.zone == NO_ZONE:
            return self.start.replace(tzinfo=None)
        return self.start.astimezone(zone_of(self.zone)).replace(tzinfo=None)

    def _offset(self, instant: datetime) -> timedelta | None:
        return instant.astimezone(zone_of(self.zone)).utcoffset()

    def _next_hour(self) -> Period:
        if self.zone == NO_ZONE:
            return Period(self.start + _HOUR, Grain.HOUR)
        zone, at = zone_of(self.zone), self.start
        while True:
            shown = at.astimezone(zone).replace(tzinfo=None)
            full = at + (period_start(shown, Grain.HOUR) + _HOUR - shown)
            at = next(iter(jumps(zone, at, full)), full)
            if _begins(at, Grain.HOUR, self.zone):
                return Period(at, Grain.HOUR, self.zone)


def period(text: str, grain: Grain, zone: str = NO_ZONE) -> Period | NoPeriod:
    """The period of this grain that begins at the time a text gives (`period_text`), or why there is none. Total.

    A text with an offset gives an instant. A date may name the week, month or year that begins with it, and a time with
    minutes any of them. A text that gives a time inside a period names none. Years are from 1 (in a zone 2) to 9998.
    """
    written = written_time(text)
    if isinstance(written, NoPeriod):
        return written
    if not _may_name(written.grain, grain, timestamp=written.timestamp):
        return NoPeriod(f"it names {_grain_with_article(written.grain)}")
    shown = written.shown
    if not MINYEAR + (zone != NO_ZONE or written.offset is not None) <= shown.year < MAXYEAR:
        return _OUT_OF_RANGE
    if written.offset is not None:
        instant = shown.replace(tzinfo=UTC) - written.offset
        shown = instant.astimezone(zone_of(zone)).replace(tzinfo=None)
        if shown.year == MAXYEAR:
            return _OUT_OF_RANGE
        return Period(instant, grain, zone) if _begins(instant, grain, zone) else _refuse_inner_time(shown, grain, zone)
    if shown != period_start(shown, grain):
        return _refuse_inner_time(shown, grain, zone)
    return _beginning(shown, grain, zone) or NoPeriod(f"clocks of {zone} skip it")


@lru_cache(maxsize=16384)
def count_of_parts(text: str, coarse: Grain, fine: Grain, zone: str, calendar: Calendar | None = None) -> int | None:
    """The number of finer periods of the coarser one that a text names, on open days; None when it names none."""
    found = keys_of_parts(text, coarse, fine, zone, calendar)
    return None if found is None else len(found)


@lru_cache(maxsize=64)
def keys_of_parts(
    text: str, coarse: Grain, fine: Grain, zone: str, calendar: Calendar | None = None
) -> tuple[str, ...] | None:
    """The finer periods of the coarser one that a text names, on open days, in order; None when it names none."""
    found = period(text, coarse, zone)
    if isinstance(found, NoPeriod):
        return None
    return tuple(part.key for part in found.parts(fine) if calendar is None or calendar.is_open(part.day))


def _may_name(written: Grain, grain: Grain, *, timestamp: bool) -> bool:
    """Whether a text of that form may name a period of this grain, if it begins then. That of an hour is the hour, and
    that of a week the week.
    """
    if written is grain:
        return True
    return timestamp if written is Grain.HOUR else written is Grain.DAY and grain.rank > written.rank


def _begins(instant: datetime, grain: Grain, zone: str) -> bool:
    """Whether a period begins at an instant (UTC)."""
    shown = instant if zone == NO_ZONE else instant.astimezone(zone_of(zone))
    start = period_start(shown, grain)
    if grain is Grain.HOUR and start == shown:
        return True
    return instant == (start if zone == NO_ZONE else first_instant(start.replace(tzinfo=None, fold=0), zone_of(zone)))


def _beginning(shown: datetime, grain: Grain, zone: str) -> Period | None:
    """The period that begins when the clock first shows a time, at which one may begin; None where it is skipped."""
    if zone == NO_ZONE:
        return Period(shown.replace(tzinfo=UTC), grain)
    start = first_instant(shown.replace(fold=0), zone_of(zone))
    then = start.astimezone(zone_of(zone)).replace(tzinfo=None, fold=0)
    return Period(start, grain, zone) if period_start(then, grain) == shown.replace(fold=0) else None


def _refuse_inner_time(shown: datetime, grain: Grain, zone: str) -> NoPeriod:
    clock = "the clock" if zone == NO_ZONE else f"the clock of {zone}"
    length = "microseconds" if shown.microsecond else "seconds" if shown.second else "minutes"
    return NoPeriod(f"{clock} shows {shown.isoformat(' ', length)}, and no {grain} begins then")


def _grain_with_article(grain: Grain) -> str:
    return f"an {grain}" if grain is Grain.HOUR else f"a {grain}"
