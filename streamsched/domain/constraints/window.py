"""Time windows: hours of a zone's wall clock in which jobs may start."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.time.calendar import Calendar
from streamsched.domain.time.zone import check_zone, first_instant, jumps, last_instant, zone_of

_DAY: Final = timedelta(days=1)
#: Days examined in one step of the search for an opening.
_STEP_DAYS: Final = 5


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The wall clock of `zone` is in [start, end), across midnight when start > end. Whole seconds.

    Attributes:
        calendar: the window does not open on days the calendar closes; one that opened the day before stays open.
    """

    start: time
    end: time
    zone: str = "UTC"
    wait: bool = True
    calendar: Calendar | None = None

    def __post_init__(self) -> None:
        if self.start == self.end:
            raise InvalidDefinitionError("$.end", f"must not equal the start, {self.start:%H:%M}")
        for name, wall in (("start", self.start), ("end", self.end)):
            if wall.tzinfo is not None or wall.microsecond:
                raise InvalidDefinitionError(f"$.{name}", f"must be a plain time of day in whole seconds but is {wall}")
        check_zone(self.zone, "$.zone")

    def __str__(self) -> str:
        closing = f" but for {self.calendar}" if self.calendar else ""
        return f"window {_wall(self.start)}–{_wall(self.end)} {self.zone}{closing}"


def next_opening(window: TimeWindow, now: datetime) -> datetime:
    """The first instant (UTC) after `now` at which the window, closed at `now`, is open.

    A window whose start falls into a DST gap opens at the first instant after the gap; one that lies within the gap
    stays closed that day. A clock set back into the window, or before its start, opens it again.
    """
    zone = zone_of(window.zone)
    day = now.astimezone(zone).date() - _DAY
    while True:
        if window.calendar is not None:
            day = window.calendar.open_day_from(day) or day
        for opening in _openings(window, day, zone):
            if opening > now and is_open(window, opening):
                return opening
        day += _STEP_DAYS * _DAY


def _openings(window: TimeWindow, day: date, zone: ZoneInfo) -> list[datetime]:
    """Candidate opening instants from a day on, sorted, for enough days that one of them has no clock change."""
    walls = [datetime.combine(day + number * _DAY, window.start) for number in range(_STEP_DAYS + 1)]
    starts = [first_instant(wall, zone) for wall in walls]
    repeated = [last_instant(wall, zone) for wall in walls]
    return sorted([*starts, *repeated, *jumps(zone, starts[0] - _DAY, starts[-1])])


def is_open(window: TimeWindow, now: datetime) -> bool:
    """Whether the zone's wall clock is inside the window at `now` (UTC)."""
    local = now.astimezone(zone_of(window.zone))
    day, wall = local.date(), local.time()
    if window.start < window.end:
        inside = window.start <= wall < window.end
    else:
        inside = wall >= window.start or wall < window.end
        day = day if wall >= window.start else day - _DAY
    return inside and (window.calendar is None or window.calendar.is_open(day))


def _wall(wall: time) -> str:
    return wall.isoformat("seconds" if wall.second else "minutes")
