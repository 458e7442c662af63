"""Maps wall-clock matches to instants, forwards and backwards.

A wall-clock time has a first and a last instant; they differ in an overlap, and both are the instant of the jump for a
time in a gap. Both are monotonic in wall-clock time. So the ticks are the first instants of all matches, or the last
ones, or both, and the next tick is the smallest one after a given instant: one search for each pass of the clock, from
the first wall-clock time whose instant in that pass is late enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from streamsched.domain.time.cron_fields import CronFields, Days, TimesOfDay, wall_from, wall_until
from streamsched.domain.time.zone import change_at

_SECOND: Final = timedelta(seconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class DstPolicy:
    """Which times tick at DST changes.

    Attributes:
        gap: a skipped time ticks at the instant of the jump; several are one tick.
        first: a time that occurs twice ticks the first time.
        second: … the second time. At least one of the two is set.
    """

    gap: bool
    first: bool
    second: bool


def usual_passes(fields: CronFields) -> DstPolicy:
    """What ticks at DST changes unless a leaf says otherwise, as `domain.ticks.fire_times` lists it."""
    if fields.times.is_hourly:
        return DstPolicy(gap=False, first=True, second=True)
    return DstPolicy(gap=True, first=True, second=fields.starred_minute)


@dataclass(frozen=True, slots=True)
class Walk:
    """All ticks of these times of day on these days in a zone. Does not raise; beyond `datetime.max` there are none."""

    times: TimesOfDay
    days: Days
    zone: ZoneInfo
    passes: DstPolicy

    def tick_after(self, after: datetime) -> datetime | None:
        """The first tick (UTC) strictly after an instant; None when there is none."""
        try:
            found = [self._tick_from(wall, second) for wall, second in self._starts(after.astimezone(UTC))]
        except OverflowError:
            return None
        return min((tick for tick in found if tick is not None), default=None)

    def tick_before(self, before: datetime) -> datetime | None:
        """The last tick (UTC) strictly before an instant; None when there is none."""
        try:
            found = [self._tick_until(wall, second) for wall, second in self._ends(before.astimezone(UTC))]
        except OverflowError:
            return None
        return max((tick for tick in found if tick is not None), default=None)

    def _starts(self, after: datetime) -> Iterator[tuple[datetime, bool]]:
        """For each pass to search, the first wall-clock time whose instant in it is after `after`."""
        local = after.astimezone(self.zone)
        wall, repeated = local.replace(tzinfo=None, microsecond=0, fold=0), local.fold == 1
        change = change_at(wall, self.zone)
        if change is None:
            yield wall + _SECOND, not self.passes.first
            return
        if self.passes.first:
            yield (change.old if repeated else wall + _SECOND), False
        if self.passes.second:
            yield (wall + _SECOND if repeated else change.new), True

    def _ends(self, before: datetime) -> Iterator[tuple[datetime, bool]]:
        """For each pass to search, the last wall-clock time whose instant in it is before `before`."""
        local = (before - _MICROSECOND).astimezone(self.zone)
        wall, repeated = local.replace(tzinfo=None, microsecond=0, fold=0), local.fold == 1
        change = change_at(wall, self.zone)
        if change is None:
            yield wall, self.passes.second
            return
        if self.passes.first:
            yield (change.old - _SECOND if repeated else wall), False
        if self.passes.second:
            yield (wall if repeated else change.new - _SECOND), True

    def _tick_from(self, wall: datetime, second: bool) -> datetime | None:
        while (found := wall_from(self.times, self.days, wall)) is not None:
            tick, beyond = self._tick(found, second)
            if tick is not None:
                return tick
            wall = beyond[1]
        return None

    def _tick_until(self, wall: datetime, second: bool) -> datetime | None:
        while (found := wall_until(self.times, self.days, wall)) is not None:
            tick, beyond = self._tick(found, second)
            if tick is not None:
                return tick
            wall = beyond[0]
        return None

    def _tick(self, wall: datetime, second: bool) -> tuple[datetime | None, tuple[datetime, datetime]]:
        """When a match ticks in a pass; None if never, and the wall-clock times just before and after its gap."""
        change = change_at(wall, self.zone)
        if change is None or not change.is_forward:
            return wall.replace(tzinfo=self.zone, fold=second).astimezone(UTC), (wall, wall)
        return (change.at if self.passes.gap else None), (change.old - _SECOND, change.new)
