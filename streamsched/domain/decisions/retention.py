"""Retention: how long ended jobs and runs stay in the live tables, and how long in the history.

>>> keeps = Retention(jobs=timedelta(days=30))
>>> keeps.leaves_before(datetime(2026, 3, 1, tzinfo=UTC), lookback=timedelta(days=2))
datetime.datetime(2026, 2, 27, 0, 0, tzinfo=datetime.timezone.utc)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from streamsched.domain.constraints.constraint import Constraint, LastRun
from streamsched.domain.limits import add_duration

#: Partitions of the history are created this long ahead.
AHEAD: Final = timedelta(days=3)
_DAY: Final = timedelta(days=1)


class TimePartition(NamedTuple):
    """A half-open span of time [begins, ends) (UTC) that is kept or dropped as a whole."""

    begins: datetime
    ends: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Retention times of an installation.

    Attributes:
        jobs: jobs, runs and their history after their end, rounded up to the end of the day.
        audit: the audit log of schedules, programs, groups and apps, rounded up to the end of the month; what is stored
            of deleted schedules.
        log: how long the log keeps records. What is needed to recognise a repeated one is kept as long.
        warm: how long ended jobs and runs stay in the live tables.
    """

    jobs: timedelta = timedelta(days=30)
    audit: timedelta = timedelta(days=365)
    log: timedelta = timedelta(days=7)
    warm: timedelta = timedelta(hours=1)

    def forgets_before(self, now: datetime) -> datetime:
        """Schedules that were deleted before this instant are forgotten: no record of them is in the log any more, and
        no job of theirs in the history.
        """
        return add_duration(now, -max(self.audit, self.jobs, self.log))

    def leaves_before(self, now: datetime, *, lookback: timedelta) -> datetime:
        """Rows that ended before this instant move to the history. `lookback` is the longest look-back of a constraint;
        runs within it stay, whatever `warm` is.
        """
        return add_duration(now, -max(self.warm, lookback))


def looks_back(constraint: Constraint) -> timedelta:
    """The maximum age of an ended run that can affect the constraint."""
    return constraint.interval if isinstance(constraint, LastRun) else timedelta(0)


def day_of(at: datetime) -> TimePartition:
    """The day (UTC) of an instant."""
    begins = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return TimePartition(begins, begins + _DAY)


def month_of(at: datetime) -> TimePartition:
    """The month (UTC) of an instant."""
    begins = day_of(at).begins.replace(day=1)
    return TimePartition(begins, (begins + 31 * _DAY).replace(day=1))
