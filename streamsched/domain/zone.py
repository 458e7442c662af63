"""Time zones: IANA names only, and what a wall-clock time means where the clock is put forward or back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache, partial
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from streamsched.domain.errors import InvalidDefinitionError

_SECOND: Final = timedelta(seconds=1)


def check_zone(zone: str, path: str) -> None:
    """Accepts an IANA time zone such as `Europe/Berlin`.

    Raises:
        InvalidDefinitionError: nobody knows such a zone; it is never taken for GMT.
    """
    if _find(zone) is None:
        near = get_close_matches(zone, _names(), n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise InvalidDefinitionError(path, f"'{zone}' is no IANA time zone{hint}")


def zone_of(zone: str) -> ZoneInfo:
    """The rules of a zone that was checked.

    Raises:
        InvalidDefinitionError: it is unknown here; the installation's time zone data lacks it.
    """
    found = _find(zone)
    if found is None:
        raise InvalidDefinitionError("$.zone", f"'{zone}' is no IANA time zone")
    return found


def first_instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """The instant (UTC) at which a wall clock of `zone` first shows `wall` (naive) or, in a gap, anything later.

    A time that the clock shows twice is the first of the two; a time it skips is the instant of the jump.
    """
    early = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    late = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    if early <= late:
        return early
    # In a gap fold=1 uses the offset after the jump and so lands before it, fold=0 lands after it: the jump is between.
    return _first_second(late, early, lambda instant: instant.astimezone(zone).replace(tzinfo=None) >= wall)


def jumps(zone: ZoneInfo, since: datetime, until: datetime) -> list[datetime]:
    """The instants (UTC) in (since, until] at which a clock of `zone` is put forward or back, ascending."""
    found: list[datetime] = []
    low = since
    while low < until:
        high = min(low + timedelta(hours=1), until)
        if _has_jumped(zone, low, high):
            found.append(_first_second(low, high, partial(_has_jumped, zone, low)))
        low = high
    return found


def _has_jumped(zone: ZoneInfo, since: datetime, instant: datetime) -> bool:
    return since.astimezone(zone).utcoffset() != instant.astimezone(zone).utcoffset()


def _first_second(low: datetime, high: datetime, holds: Callable[[datetime], bool]) -> datetime:
    """The first whole second in (low, high] from which `holds` holds; it does at `high` and does not at `low`."""
    origin = low.replace(microsecond=0)
    before, after = 0, -((origin - high) // _SECOND)
    while after - before > 1:
        middle = (before + after) // 2
        before, after = (before, middle) if holds(origin + middle * _SECOND) else (middle, after)
    return origin + after * _SECOND


def shows(instant: datetime, wall: datetime, zone: ZoneInfo) -> bool:
    """Whether a wall clock of `zone` shows `wall` (naive) at an instant."""
    return instant.astimezone(zone).replace(tzinfo=None, fold=0) == wall


@lru_cache(maxsize=512)
def _find(zone: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # The database answers unknown keys, absolute paths and names of folders in three different ways.
        return None


@lru_cache(maxsize=1)
def _names() -> tuple[str, ...]:
    return tuple(sorted(available_timezones()))
