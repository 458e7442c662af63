"""Grains of time: the granularity of a value that names a period, and the calendar by which periods follow each other.

Everything here is about one clock, as it shows the time: a day has 24 hours, and every hour exists. Zones are the
business of `domain.time.period`. Weeks are those of ISO 8601: from Monday on, in the year that has their Thursday.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, assert_never


class Grain(StrEnum):
    """From fine to coarse."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"

    @property
    def rank(self) -> int:
        """Greater is coarser."""
        return _ORDER.index(self)

    def divides(self, coarse: Grain) -> bool:
        """Whether each period of the coarser grain consists of whole ones of this. Weeks do not divide months and
        years.
        """
        return self.rank < coarse.rank and self is not Grain.WEEK


_ORDER: Final = tuple(Grain)
#: Length of the prefix of an ISO text that names its period; a week is named otherwise.
_LENGTHS: Final = {Grain.HOUR: 13, Grain.DAY: 10, Grain.MONTH: 7, Grain.YEAR: 4}


def period_start(shown: datetime, grain: Grain) -> datetime:
    """What the clock shows at the beginning of the period in which it shows `shown`."""
    match grain:
        case Grain.HOUR:
            return shown.replace(minute=0, second=0, microsecond=0)
        case Grain.DAY:
            return shown.replace(hour=0, minute=0, second=0, microsecond=0)
        case Grain.WEEK:
            return period_start(shown, Grain.DAY) - timedelta(days=shown.weekday())
        case Grain.MONTH:
            return period_start(shown, Grain.DAY).replace(day=1)
        case Grain.YEAR:
            return period_start(shown, Grain.DAY).replace(month=1, day=1)
        case _:
            assert_never(grain)


def shift_start(start: datetime, grain: Grain, periods: int = 1) -> datetime:
    """The start of the period so many after the one of this grain that starts at `start`; before it where negative.

    Raises:
        OverflowError, ValueError: it is out of the calendar of Python.
    """
    match grain:
        case Grain.HOUR:
            return start + timedelta(hours=periods)
        case Grain.DAY:
            return start + timedelta(days=periods)
        case Grain.WEEK:
            return start + timedelta(weeks=periods)
        case Grain.MONTH:
            years, month = divmod(start.month - 1 + periods, 12)
            return start.replace(year=start.year + years, month=month + 1)
        case Grain.YEAR:
            return start.replace(year=start.year + periods)
        case _:
            assert_never(grain)


def period_name(shown: datetime, grain: Grain) -> str:
    """The text of the period of this grain in which the clock shows `shown`: `2013-01-07T05`, `2013-01-07`, `2013-W02`,
    `2013-01`, `2013`.
    """
    if grain is Grain.WEEK:
        year, week, _ = shown.isocalendar()
        return f"{year:04d}-W{week:02d}"
    return shown.isoformat()[: _LENGTHS[grain]]
