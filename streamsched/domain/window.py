"""Time windows: hours of the wall clock of some zone in which jobs may start."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.zone import check_zone, first_instant, jumps, zone_of


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The wall clock of `zone` is in [start, end), across midnight when start > end. Whole seconds."""

    start: time
    end: time
    zone: str = "UTC"
    wait: bool = True

    def __post_init__(self) -> None:
        if self.start == self.end:
            raise InvalidDefinitionError("$.end", f"must not equal the start, {self.start:%H:%M}")
        for name, wall in (("start", self.start), ("end", self.end)):
            if wall.tzinfo is not None or wall.microsecond:
                raise InvalidDefinitionError(f"$.{name}", f"must be a plain time of day in whole seconds but is {wall}")
        check_zone(self.zone, "$.zone")

    def __str__(self) -> str:
        return f"window {_wall(self.start)}–{_wall(self.end)} {self.zone}"


def next_opening(window: TimeWindow, now: datetime) -> datetime:
    """The first instant (UTC) after `now` at which the window, closed at `now`, is open.

    A window whose start the clock skips opens when the clock has jumped into it, and one that lies in the gap as a
    whole stays shut that day; a clock put back into the window, or before its start, opens it again.
    """
    zone = zone_of(window.zone)
    today = now.astimezone(zone).date()
    walls = [datetime.combine(today + timedelta(days=day), window.start) for day in range(-1, 5)]
    starts = (first_instant(wall, zone) for wall in walls)
    again = (wall.replace(tzinfo=zone, fold=1).astimezone(UTC) for wall in walls)
    candidates = sorted([*starts, *again, *jumps(zone, now, now + timedelta(days=4))])
    return next(instant for instant in candidates if instant > now and is_open(window, instant))


def is_open(window: TimeWindow, now: datetime) -> bool:
    """Whether the wall clock there is inside the window at `now` (UTC)."""
    wall = now.astimezone(zone_of(window.zone)).time()
    if window.start < window.end:
        return window.start <= wall < window.end
    return wall >= window.start or wall < window.end


def _wall(wall: time) -> str:
    return wall.isoformat("seconds" if wall.second else "minutes")
