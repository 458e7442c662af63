"""When time leaves tick: cron expressions in an IANA zone, intervals of real time, single instants.

Where a zone puts its clock forward or back:

    expression                              clock put forward (gap)         clock put back (overlap)
    hours are named (`30 2 * * *`)          a skipped time ticks at the     the first of the two
                                            first instant after, once
    … and minute starts with `*`            the same                        both
      (`*/15 1-4 * * *`)
    every hour matches (`30 * * * *`)       nothing: a gap takes no time    both
    `every`                                 real time throughout            real time throughout
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, assert_never
from zoneinfo import ZoneInfo

from streamsched.domain.cron_fields import CronFields, parse_cron
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.trigger import At, Cron, Every, TimeLeaf
from streamsched.domain.zone import check_zone, first_instant, shows, zone_of

__all__ = ["check_cron", "check_zone", "next_fire"]

_SECOND: Final = timedelta(seconds=1)
#: No zone puts its clock back by more today.
_LONGEST_OVERLAP: Final = timedelta(hours=3)


def check_cron(expression: str, zone: str, path: str) -> None:
    """Accepts an expression that can match, in a zone that exists.

    Raises:
        InvalidDefinitionError: a field is wrong, the expression never matches, or the zone is unknown.
    """
    check_zone(zone, path)
    try:
        parse_cron(expression)
    except InvalidDefinitionError as exc:
        raise InvalidDefinitionError(path, exc.reason) from exc


def next_fire(leaf: TimeLeaf, after: datetime, *, created_at: datetime) -> datetime | None:
    """The first tick (UTC) strictly after `after`, or None when there is none any more.

    An interval without a start counts from `created_at`, its first tick one interval later; one with a start ticks
    at the start itself.

    Raises:
        InvalidDefinitionError: a cron expression or zone that was never checked is wrong.
    """
    match leaf:
        case Cron(expression=expression, zone=zone):
            return _next_cron(parse_cron(expression), zone_of(zone), after.astimezone(UTC))
        case Every(interval=interval, start=start):
            return _next_interval(start or created_at + interval, interval, after)
        case At(instant=instant):
            return instant.astimezone(UTC) if instant > after else None
        case _:
            assert_never(leaf)


def _next_interval(first: datetime, interval: timedelta, after: datetime) -> datetime | None:
    try:
        passed = (after - first) // interval + 1 if after >= first else 0
        return (first + passed * interval).astimezone(UTC)
    except OverflowError:
        return None


def _next_cron(fields: CronFields, zone: ZoneInfo, after: datetime) -> datetime | None:
    """Walks the wall-clock matches in order and asks of each at which instants it ticks.

    `first_instant` never falls as the wall clock rises, so the first match whose first instant is not before the best
    found so far ends the walk. Matches that come a second time after the clock is put back may lie before `after`'s
    own wall time: there the walk begins earlier by what the clock is put back.
    """
    twice = fields.hourly or fields.starred_minute
    best: datetime | None = None
    try:
        begin = after.astimezone(zone)
        wall: datetime | None = begin.replace(tzinfo=None, microsecond=0, fold=0) + _SECOND
        if twice and wall is not None:
            wall -= max(_offset(after, zone) - _offset(after + _LONGEST_OVERLAP, zone), timedelta(0))
        while wall is not None and (wall := fields.from_wall(wall)) is not None:
            first = first_instant(wall, zone)
            if best is not None and first >= best:
                return best
            for tick in _ticks(wall, first, zone, hourly=fields.hourly, twice=twice):
                if tick > after and (best is None or tick < best):
                    best = tick
            if best is not None and not twice:
                return best
            wall += _SECOND
    except OverflowError:
        return best
    return best


def _ticks(wall: datetime, first: datetime, zone: ZoneInfo, *, hourly: bool, twice: bool) -> tuple[datetime, ...]:
    """The instants at which one wall-clock match ticks, ascending."""
    if not shows(first, wall, zone):
        return () if hourly else (first,)
    second = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return (first, second) if twice and second > first else (first,)


def _offset(instant: datetime, zone: ZoneInfo) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta(0)
