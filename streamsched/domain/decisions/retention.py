"""Retention: how long ended jobs and runs stay in the live tables, and how long in the history. What is old is dropped
by partitions of time, which are the shorter the shorter everything is kept (`part_of`).

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

#: So many partitions of the history are created ahead.
AHEAD: Final = 3
_DAY: Final = timedelta(days=1)
_HOUR: Final = timedelta(hours=1)
#: What is kept for less time has a partition for each hour; at least that long and by months, one for each month.
_BY_HOURS: Final = timedelta(days=3)
_BY_MONTHS: Final = timedelta(days=90)


class TimePartition(NamedTuple):
    """A half-open span of time [begins, ends) (UTC) that is kept or dropped as a whole."""

    begins: datetime
    ends: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Retention times of an installation.

    Attributes:
        jobs: jobs, runs and their history after their end, rounded up to the end of their partition.
        audit: the audit, the history of schedules, programs, groups and apps, rounded up likewise; what is stored of
            deleted schedules.
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


def part_of(at: datetime, keep: timedelta, *, months: bool = False) -> TimePartition:
    """The partition (UTC) of an instant in a table of which everything is kept for `keep`: an hour, a day, or with
    `months` a month. So nothing is kept longer by more than a third, or by an hour.

    >>> part_of(datetime(2026, 3, 1, 12, 30, tzinfo=UTC), timedelta(hours=36)).ends
    datetime.datetime(2026, 3, 1, 13, 0, tzinfo=datetime.timezone.utc)
    """
    if keep < _BY_HOURS:
        begins = at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        return TimePartition(begins, begins + _HOUR)
    return month_of(at) if months and keep >= _BY_MONTHS else day_of(at)


def day_of(at: datetime) -> TimePartition:
    """The day (UTC) of an instant."""
    begins = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return TimePartition(begins, begins + _DAY)


def month_of(at: datetime) -> TimePartition:
    """The month (UTC) of an instant."""
    begins = day_of(at).begins.replace(day=1)
    return TimePartition(begins, (begins + 31 * _DAY).replace(day=1))
