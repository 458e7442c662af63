"""Periods of an expectation: the hours, days, weeks and months of a zone's calendar. A start is a wall-clock time
without a zone.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_never

from streamsched.domain.expectations.expectation import Frequency
from streamsched.domain.time.zone import zone_of

_MONTHS = 12


def period_start(at: datetime, every: Frequency, zone: str) -> datetime:
    """The start of the period that contains the instant `at`."""
    wall = at.astimezone(zone_of(zone)).replace(tzinfo=None, fold=0)
    midnight = wall.replace(hour=0, minute=0, second=0, microsecond=0)
    match every:
        case Frequency.HOUR:
            return midnight.replace(hour=wall.hour)
        case Frequency.DAY:
            return midnight
        case Frequency.WEEK:
            return midnight - timedelta(days=wall.weekday())
        case Frequency.MONTH:
            return midnight.replace(day=1)
        case _:
            assert_never(every)


def shifted(start: datetime, every: Frequency, periods: int) -> datetime:
    """The start of the period so many periods after the one that starts at `start`; before it where negative. Hours are
    those of the clock.
    """
    match every:
        case Frequency.HOUR:
            return start + timedelta(hours=periods)
        case Frequency.DAY:
            return start + timedelta(days=periods)
        case Frequency.WEEK:
            return start + timedelta(weeks=periods)
        case Frequency.MONTH:
            months = start.year * _MONTHS + start.month - 1 + periods
            return start.replace(year=months // _MONTHS, month=months % _MONTHS + 1)
        case _:
            assert_never(every)


def since_start(at: datetime, start: datetime, zone: str) -> timedelta:
    """How long after `start` the clock of the zone shows the instant `at`; negative before it."""
    return at.astimezone(zone_of(zone)).replace(tzinfo=None, fold=0) - start
