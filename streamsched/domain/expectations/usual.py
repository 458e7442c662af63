"""By when something usually is there: the middle of the recent times, and a spread that most of them keep.

>>> times = [timedelta(hours=8, minutes=minute) for minute in (0, 4, 8, 2, 6)]
>>> usual_time(times)
datetime.timedelta(seconds=29940)
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

#: Periods of which something must have come before there is a usual time, and the newest that count.
LEAST: Final = 5
NEWEST: Final = 20
#: The spread: so many times the median distance from the median, and at least so long.
SPREAD: Final = 3
LEAST_SPREAD: Final = timedelta(minutes=15)
_MINUTE: Final = timedelta(minutes=1)


def usual_time(times: Sequence[timedelta], *, least_spread: timedelta = LEAST_SPREAD) -> timedelta | None:
    """By how long after the start of a period something usually is there, in whole minutes, rounded up; None when it
    was there in fewer than `LEAST` periods. Only the newest `NEWEST` count.

    Args:
        times: of each period in which it came, how long after its start (negative: before), the newest last.
    """
    newest = times[-NEWEST:]
    if len(newest) < LEAST:
        return None
    middle = _median(newest)
    distance = _median([abs(each - middle) for each in newest])
    by = middle + max(SPREAD * distance, least_spread)
    return -(-by // _MINUTE) * _MINUTE


def _median(values: Sequence[timedelta]) -> timedelta:
    """The middle one, of an even number the mean of the two."""
    ordered = sorted(values)
    half = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) // 2
