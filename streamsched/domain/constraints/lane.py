"""Lanes: the runs of one key of a schedule, or of a whole schedule, of which at most so many run at a time, in order.

    >>> serial = Concurrency(1, wait=True, of=ConcurrencyScope.KEY)
    >>> name = lane_of(serial, ScheduleKey(ScheduleRef("default", "app", "load"), "2013-01-07"))
    >>> print(name, "-", lane_of(Concurrency(1), name.schedule_key))
    key 2013-01-07 of default.app.load - None

A place is given to the job satisfied first: while it waits, whatever else holds it, later jobs of its lane wait behind
it, and those of other lanes do not. A job held by a command is in no lane. A job of two lanes that its key holds keeps
no place in that of its schedule.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple, assert_never

from streamsched.domain.constraints.constraint import Concurrency, ConcurrencyScope
from streamsched.domain.constraints.pool import QueuePosition
from streamsched.domain.jobs.job import ScheduleKey
from streamsched.domain.names import ScheduleRef


class LaneName(NamedTuple):
    """Identifies a lane. `key` is "" for a lane of a schedule, and where the schedule does not correlate."""

    schedule: ScheduleRef
    scope: ConcurrencyScope
    key: str = ""

    @property
    def schedule_key(self) -> ScheduleKey:
        """The schedule, and the key where the lane is of one key, whose runs the lane counts."""
        return ScheduleKey(self.schedule, self.key)

    def __str__(self) -> str:
        return f"key {self.key} of {self.schedule}" if self.key else str(self.schedule)


@dataclass(frozen=True, slots=True)
class Lane:
    """The current state of a lane.

    Attributes:
        runs: its non-terminal runs.
        positions: its first waiting jobs, sorted by satisfaction; at least as many as places are free.
    """

    runs: tuple[str, ...] = ()
    positions: tuple[QueuePosition, ...] = ()

    def positions_before(self, position: QueuePosition) -> tuple[QueuePosition, ...]:
        """The positions ahead of this one."""
        return self.positions[: bisect_left(self.positions, position)]

    def with_position(self, position: QueuePosition) -> Lane:
        """The lane with this job waiting."""
        if position in self.positions:
            return self
        return replace(self, positions=tuple(sorted({*self.positions, position})))

    def without_job(self, job: str) -> Lane:
        """The lane without that waiting job."""
        return replace(self, positions=tuple(position for position in self.positions if position.job != job))

    def with_run(self, run: str) -> Lane:
        """The lane after a run has started."""
        return replace(self, runs=(*self.runs, run))

    def remove_runs(self, runs: Collection[str]) -> Lane:
        """The lane after these runs have ended."""
        return replace(self, runs=tuple(run for run in self.runs if run not in runs))


def lane_of(constraint: Concurrency, schedule_key: ScheduleKey) -> LaneName | None:
    """The lane of a job of this schedule key under the constraint; None when that counts the program's runs, and for a
    submission to a program, which is in no lane.
    """
    if schedule_key.schedule is None:
        return None
    match constraint.of:
        case ConcurrencyScope.PROGRAM:
            return None
        case ConcurrencyScope.SCHEDULE:
            return LaneName(schedule_key.schedule, constraint.of)
        case ConcurrencyScope.KEY:
            return LaneName(schedule_key.schedule, constraint.of, schedule_key.key)
        case _:
            assert_never(constraint.of)
