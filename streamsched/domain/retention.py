"""How long what has ended is kept, and where: among what is alive, in the history, nowhere.

>>> keeps = Retention(jobs=timedelta(days=30))
>>> keeps.leaves_before(datetime(2026, 3, 1, tzinfo=UTC), lookback=timedelta(days=2))
datetime.datetime(2026, 2, 27, 0, 0, tzinfo=datetime.timezone.utc)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from streamsched.domain.constraint import Constraint, LastRun

#: History has its partition this long before it begins.
AHEAD: Final = timedelta(days=3)
_DAY: Final = timedelta(days=1)


class Part(NamedTuple):
    """A span of time that is kept or dropped whole (UTC); the end does not belong to it."""

    begins: datetime
    ends: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What an installation keeps.

    Attributes:
        jobs: jobs and runs after their end, and what was decided about them; then until the end of that day.
        audit: what was done to schedules, programs, groups and apps; then until the end of that month.
        warm: what has ended stays beside what is alive for this long, where it is found at once.
    """

    jobs: timedelta = timedelta(days=30)
    audit: timedelta = timedelta(days=365)
    warm: timedelta = timedelta(hours=1)

    def leaves_before(self, now: datetime, *, lookback: timedelta) -> datetime:
        """What ended before then leaves for the history; constraints look back on runs for `lookback`, and find them
        all, however little is kept.
        """
        return now - max(self.warm, lookback)


def looks_back(constraint: Constraint) -> timedelta:
    """How old a run that has ended may be and still count for the constraint."""
    return constraint.interval if isinstance(constraint, LastRun) else timedelta(0)


def day_of(at: datetime) -> Part:
    """The day (UTC) of an instant."""
    begins = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return Part(begins, begins + _DAY)


def month_of(at: datetime) -> Part:
    """The month (UTC) of an instant."""
    begins = day_of(at).begins.replace(day=1)
    return Part(begins, (begins + 31 * _DAY).replace(day=1))
