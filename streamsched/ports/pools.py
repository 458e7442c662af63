"""Pools as people see and steer them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from streamsched.domain.group import Occupancy
from streamsched.domain.names import ScheduleRef


@dataclass(frozen=True, slots=True)
class Member:
    """A schedule that starts its runs in a pool; `online`: its priority was set, whatever its definition says."""

    schedule: ScheduleRef
    priority: int
    online: bool


@dataclass(frozen=True, slots=True)
class PoolRecord:
    """A pool that a job asked for or somebody set.

    Attributes:
        places: who has them; its limit is the size set online.
        age: what a point of priority is worth.
        waiting: how many jobs stand in line.
        members: its schedules, high priority first.
        changed_at: when it was set the last time (UTC).
    """

    name: str
    places: Occupancy
    age: timedelta
    waiting: int
    members: tuple[Member, ...]
    changed_at: datetime | None


class Pools(Protocol):
    """What people ask and do about pools."""

    async def all(self) -> Sequence[PoolRecord]:
        """Ordered by name."""
        ...

    async def set(
        self, name: str, size: int | None, age: timedelta | None, reason: str, *, now: datetime
    ) -> PoolRecord:
        """From here on so many runs at once (0 shuts it, None leaves it to the schedules) and so much for a point of
        priority (None: as it was). Runs go on; the line is put in its new order and looked at.
        """
        ...

    async def prioritize(self, schedule: ScheduleRef, priority: int | None, reason: str, *, now: datetime) -> str:
        """From here on the schedule has this priority, None: its own; its waiting jobs move in the line. Returns the
        pool.

        Raises:
            NotFoundError: no such schedule, or it is in no pool.
        """
        ...
