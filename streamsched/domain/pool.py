"""Pools: places that runs of any program share, given to waiting jobs in the order of a line.

Priority is a head start: a job stands in the line as if it had been satisfied `age` earlier for each point. So the high
go first, everybody comes nearer while he waits, and nobody starves: a job satisfied later than (the difference of their
priorities) * `age` stands behind. The order of two jobs never changes by waiting, so it is kept sorted.

    >>> noon = datetime.fromisoformat("2013-01-08T12:00:00Z")
    >>> f"{turn_at(noon, 10, timedelta(minutes=1)):%H:%M}", f"{turn_at(noon, -5, timedelta(minutes=1)):%H:%M}"
    ('11:50', '12:05')
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.group import Occupancy, check_group_name

#: What a point of priority is worth where nobody has set anything else.
AGE: Final = timedelta(minutes=1)
#: Priorities are from minus this to this.
HIGHEST: Final = 1000


@dataclass(frozen=True, slots=True)
class Pool:
    """A place of the pool is free, and no job that could start now stands before this one.

    Attributes:
        size: how many runs at once, unless a size was set online.
        priority: higher goes first; unless one was set online.
    """

    name: str
    size: int
    priority: int = 0
    wait: bool = True

    def __post_init__(self) -> None:
        check_group_name(self.name, "$.name")
        if self.size < 1:
            raise InvalidDefinitionError("$.size", f"must be at least 1 but is {self.size}")
        check_priority(self.priority, "$.priority")

    def __str__(self) -> str:
        return f"a place of {self.size} in pool {self.name}, priority {self.priority}"


class Turn(NamedTuple):
    """A job's place in the line: as if it had been satisfied then (UTC); jobs of one instant stand by their numbers."""

    at: datetime
    sequence: int
    job: str


@dataclass(frozen=True, slots=True)
class Line:
    """A pool as it stands.

    Attributes:
        places: who has them; its limit is the size set online.
        turns: the first jobs of the line that could start if a place were free, in order. A job that something else
            holds back stands in no line.
        age: what a point of priority is worth.
    """

    places: Occupancy = field(default_factory=Occupancy)
    turns: tuple[Turn, ...] = ()
    age: timedelta = AGE

    def size(self, pool: Pool) -> int:
        """How many places there are for who asks for this pool."""
        return pool.size if self.places.limit is None else self.places.limit

    def before(self, turn: Turn) -> tuple[Turn, ...]:
        """Who stands before it."""
        return self.turns[: bisect_left(self.turns, turn)]

    def joined(self, turns: Collection[Turn]) -> Line:
        """The line when these stand in it."""
        return replace(self, turns=tuple(sorted({*self.turns, *turns})))

    def left(self, job: str) -> Line:
        """The line without that job."""
        return replace(self, turns=tuple(turn for turn in self.turns if turn.job != job))

    def without(self, runs: Collection[str]) -> Line:
        """The pool when these runs have ended."""
        return replace(self, places=self.places.without(runs))

    def taken_by(self, run: str) -> Line:
        """The pool after `run` has taken a place."""
        return replace(self, places=self.places.taken_by(run, 1))


def turn_at(satisfied_at: datetime, priority: int, age: timedelta) -> datetime:
    """Where a job stands in the line (UTC)."""
    return satisfied_at - priority * age


def pools_by_hand(pools: Iterable[Pool | None]) -> tuple[Pool, ...]:
    """Where a run started by hand takes a place, of all pools that its program's schedules are in: each once, of the
    smallest size that they say. Sorted by name.
    """
    smallest: dict[str, Pool] = {}
    for pool in pools:
        if pool is not None and (pool.name not in smallest or pool.size < smallest[pool.name].size):
            smallest[pool.name] = pool
    return tuple(smallest[name] for name in sorted(smallest))


def slots_name(pool: str) -> str:
    """The name under which places of a pool are held, beside the groups; none of them can have it."""
    return f"pool:{pool}"


def check_priority(priority: int, path: str) -> None:
    """Raises:
    InvalidDefinitionError: it is no priority.
    """
    if not -HIGHEST <= priority <= HIGHEST:
        raise InvalidDefinitionError(path, f"must be from {-HIGHEST} to {HIGHEST} but is {priority}")
