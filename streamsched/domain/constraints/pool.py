"""Pools: slots shared by runs of any program, given to waiting jobs in the order of a queue.

A job is queued by its satisfaction time minus `age` for each point of priority. Higher priority comes first and no job
starves: a job satisfied more than (difference of priorities) * `age` later is behind. The relative order of two jobs
never changes while they wait, so the queue is kept sorted.

    >>> noon = datetime.fromisoformat("2013-01-08T12:00:00Z")
    >>> f"{position_at(noon, 10, timedelta(minutes=1)):%H:%M}", f"{position_at(noon, -5, timedelta(minutes=1)):%H:%M}"
    ('11:50', '12:05')
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from streamsched.domain.constraints.group import Occupancy, check_group_name
from streamsched.domain.limits import MOST_SLOTS, add_duration, check_count, longer

#: Default time that one point of priority is worth.
AGE: Final = timedelta(minutes=1)
#: Priorities range from -HIGHEST to HIGHEST.
HIGHEST: Final = 1000


@dataclass(frozen=True, slots=True)
class Pool:
    """A slot of the pool is free, and no job that could start now is ahead of this one.

    Attributes:
        size: concurrent runs, unless a size was set online.
        priority: higher comes first; overridden by one set online.
    """

    name: str
    size: int
    priority: int = 0
    wait: bool = True

    def __post_init__(self) -> None:
        check_group_name(self.name, "$.name")
        check_count(self.size, "$.size", most=MOST_SLOTS)
        check_priority(self.priority, "$.priority")

    def __str__(self) -> str:
        return f"a place of {self.size} in pool {self.name}, priority {self.priority}"


class QueuePosition(NamedTuple):
    """A job's position in a pool's queue, ordered by `at` (`position_at`, UTC), then sequence, then job id."""

    at: datetime
    sequence: int
    job: str


@dataclass(frozen=True, slots=True)
class PoolQueue:
    """The current state of a pool.

    Attributes:
        places: occupied slots; its limit is the size set online.
        positions: the first jobs, in order, that only wait for a slot. A job held by another constraint is not queued.
        age: the time that one point of priority is worth.
    """

    places: Occupancy = field(default_factory=Occupancy)
    positions: tuple[QueuePosition, ...] = ()
    age: timedelta = AGE

    def size(self, pool: Pool) -> int:
        """The number of slots: as set online, else as the constraint declares."""
        return pool.size if self.places.limit is None else self.places.limit

    def positions_before(self, position: QueuePosition) -> tuple[QueuePosition, ...]:
        """The positions ahead of this one."""
        return self.positions[: bisect_left(self.positions, position)]

    def with_positions(self, positions: Collection[QueuePosition]) -> PoolQueue:
        """The queue with these positions added."""
        return replace(self, positions=tuple(sorted({*self.positions, *positions})))

    def without_job(self, job: str) -> PoolQueue:
        """The queue without that job."""
        return replace(self, positions=tuple(position for position in self.positions if position.job != job))

    def remove_runs(self, runs: Collection[str]) -> PoolQueue:
        """The pool after these runs have ended."""
        return replace(self, places=self.places.remove_runs(runs))

    def add_run(self, run: str) -> PoolQueue:
        """The pool after `run` has taken a slot."""
        return replace(self, places=self.places.add_run(run, 1))


def position_at(satisfied_at: datetime, priority: int, age: timedelta) -> datetime:
    """The time (UTC) that orders a job in the queue: `satisfied_at` minus `age` for each point of priority."""
    return add_duration(satisfied_at, -longer(age, priority) if priority >= 0 else longer(age, -priority))


def pools_of_manual_run(pools: Iterable[Pool | None]) -> tuple[Pool, ...]:
    """The pools a manual run takes a slot in: those of all schedules of its program, each with the smallest size
    declared. Sorted by name.
    """
    smallest: dict[str, Pool] = {}
    for pool in pools:
        if pool is not None and (pool.name not in smallest or pool.size < smallest[pool.name].size):
            smallest[pool.name] = pool
    return tuple(smallest[name] for name in sorted(smallest))


def slots_name(pool: str) -> str:
    """The name under which slots of a pool are stored among the groups; not a valid group name."""
    return f"pool:{pool}"


def check_priority(priority: int, path: str) -> None:
    """Raises:
    InvalidDefinitionError: it is out of range.
    """
    check_count(priority, path, least=-HIGHEST, most=HIGHEST)
