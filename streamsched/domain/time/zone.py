"""Time zones: IANA names only, and wall-clock times at DST changes.

Names and rules are those of the package `tzdata` alone, not of the machine: so two hosts with the same packages
compute the same ticks, and `tzdata_version` names what they compute them by.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from functools import lru_cache, partial
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import tzdata

from streamsched.domain.errors import InvalidDefinitionError

_DATA: Final = Path(tzdata.__file__).parent
#: In IANA's data, and says of itself that no zone was chosen.
_NO_ZONE: Final = frozenset({"Factory"})
#: Such as `CET+1`: an offset belongs to none of these names. That of `Etc/GMT+1` has the opposite sign.
_ABBREVIATION: Final = re.compile(r"([A-Za-z]+)(?:[+-][\d:]+)?")
_SECOND: Final = timedelta(seconds=1)


def tzdata_version() -> str:
    """The release of IANA's data by which this process computes ticks, such as `2026a`."""
    return tzdata.IANA_VERSION


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """All names of zones and their links, as IANA spells them."""
    return frozenset((_DATA / "zones").read_text("ascii").split()) - _NO_ZONE


def check_zone(zone: str, path: str) -> None:
    """Accepts an IANA time zone such as `Europe/Berlin`.

    Raises:
        InvalidDefinitionError: the zone is unknown; there is no fallback to GMT.
    """
    if zone not in zone_names():
        near = _near_zone(zone)
        hint = f"; did you mean '{near}'?" if near else ""
        raise InvalidDefinitionError(path, f"'{zone}' is no IANA time zone{hint}")


def _near_zone(text: str) -> str | None:
    """The zone that a text may mean: an abbreviation without the offset behind it, or a place of nearly this name."""
    short = _ABBREVIATION.fullmatch(text)
    if short and (name := short[1].upper()) in zone_names():
        return name
    places = (name for name in sorted(zone_names()) if "/" in name)  # EST is not what CEST means
    return next(iter(get_close_matches(text, places, n=1)), None)


def zone_of(zone: str) -> ZoneInfo:
    """The rules of a checked zone.

    Raises:
        InvalidDefinitionError: the installation's time zone data lacks it.
    """
    found = find_zone(zone)
    if found is None:
        raise InvalidDefinitionError("$.zone", f"'{zone}' is no IANA time zone")
    return found


def zone_or_utc(zone: str) -> tzinfo:
    """The rules of a zone; those of UTC when they are not known here."""
    return find_zone(zone) or UTC


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A clock is set forward (a gap: [old, new) is skipped) or back (an overlap: [new, old) occurs twice).

    Attributes:
        at: the instant (UTC).
        old: wall-clock time at that instant by the old offset (naive).
        new: wall-clock time by the new offset (naive).
    """

    at: datetime
    old: datetime
    new: datetime

    @property
    def is_forward(self) -> bool:
        """Whether the clock is put forward, so that it skips times; put back, it shows times twice."""
        return self.old < self.new


def change_at(wall: datetime, zone: ZoneInfo) -> ClockChange | None:
    """The change by which a clock of `zone` skips or repeats `wall` (naive); None when it occurs exactly once."""
    # Fold 0 uses the offset before the change, fold 1 the one after it; so the change is between the two.
    before, after = wall.replace(tzinfo=zone, fold=0), wall.replace(tzinfo=zone, fold=1)
    if before.utcoffset() == after.utcoffset():
        return None
    early, late = before.astimezone(UTC), after.astimezone(UTC)
    return _change(zone, min(early, late), max(early, late))


def changes(zone: ZoneInfo, since: datetime, until: datetime) -> list[ClockChange]:
    """The changes in (since, until], ascending; two within one hour that cancel out are not found."""
    return [_change(zone, jump - _SECOND, jump) for jump in jumps(zone, since, until)]


def _change(zone: ZoneInfo, low: datetime, high: datetime) -> ClockChange:
    at = _first_second(low, high, partial(_has_jumped, zone, low))
    before = low.astimezone(zone)
    offset = before.utcoffset() or timedelta(0)
    return ClockChange(at, (at + offset).replace(tzinfo=None), at.astimezone(zone).replace(tzinfo=None, fold=0))


def first_instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """The instant (UTC) at which a wall clock of `zone` first reaches `wall` (naive).

    For a time that occurs twice the first of the two; for a skipped time the instant of the jump.
    """
    change = change_at(wall, zone)
    if change is not None and change.is_forward:
        return change.at
    return wall.replace(tzinfo=zone, fold=0).astimezone(UTC)


def last_instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """As `first_instant`, but the second of the two for a time that occurs twice."""
    change = change_at(wall, zone)
    if change is not None and change.is_forward:
        return change.at
    return wall.replace(tzinfo=zone, fold=1).astimezone(UTC)


def jumps(zone: ZoneInfo, since: datetime, until: datetime) -> list[datetime]:
    """The instants (UTC) in (since, until] at which a clock of `zone` is set forward or back, ascending."""
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


@lru_cache(maxsize=512)
def find_zone(zone: str) -> ZoneInfo | None:
    """The rules of an IANA time zone; None: there is none of this name."""
    if zone not in zone_names():
        return None
    with _DATA.joinpath("zoneinfo", *zone.split("/")).open("rb") as rules:
        return ZoneInfo.from_file(rules, key=zone)
