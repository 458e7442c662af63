"""Grains of time: the granularity of a value that names a period, and the finer periods of a coarser one.

Texts are ISO 8601 as in partition keys: `2013`, `2013-01`, `2013-01-07`, `2013-01-07T05`, also with a space, `-` or `_`
before the hour. A period is wall-clock time without a zone: a day always has 24 hours.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import MAXYEAR, datetime, timedelta
from enum import StrEnum
from typing import Final, assert_never

_TEXT: Final = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[T _-](\d\d)(?:[:-]?00)?)?)?)?")


class Grain(StrEnum):
    """From fine to coarse."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"
    YEAR = "year"

    @property
    def rank(self) -> int:
        """Greater is coarser."""
        return _ORDER.index(self)


_ORDER: Final = tuple(Grain)
#: Length of the prefix of an instant's ISO text that names its period.
_LENGTHS: Final = {Grain.HOUR: 13, Grain.DAY: 10, Grain.MONTH: 7, Grain.YEAR: 4}


def started(text: str, grain: Grain) -> datetime | None:
    """The start of the period named by a text of this grain; None when it names none. `MAXYEAR` is excluded, because
    its end cannot be represented.
    """
    found = _TEXT.fullmatch(text.strip())
    if found is None or found.re.groups - sum(part is None for part in found.groups()) != len(_ORDER) - grain.rank:
        return None
    year, month, day, hour = (None if part is None else int(part) for part in found.groups())
    try:
        start = datetime(year or 0, month or 1, day or 1, hour or 0)  # noqa: DTZ001 - wall-clock time of no zone
    except ValueError:
        return None
    return start if start.year < MAXYEAR else None


def named(start: datetime, grain: Grain) -> str:
    """The text of the period of this grain that contains an instant."""
    return start.isoformat()[: _LENGTHS[grain]]


def within(start: datetime, coarse: Grain, fine: Grain) -> tuple[str, ...]:
    """The finer periods of the coarser one that starts at `start`, in order."""
    end = next_period(start, coarse)
    found: list[str] = []
    while start < end:
        found.append(named(start, fine))
        start = next_period(start, fine)
    return tuple(found)


def next_period(start: datetime, grain: Grain) -> datetime:
    """The start of the period after the one of this grain that starts at `start`."""
    match grain:
        case Grain.HOUR:
            return start + timedelta(hours=1)
        case Grain.DAY:
            return start + timedelta(days=1)
        case Grain.MONTH:
            return start + timedelta(days=monthrange(start.year, start.month)[1])
        case Grain.YEAR:
            return start.replace(year=start.year + 1)
        case _:
            assert_never(grain)
