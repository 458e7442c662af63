"""Limits that jobs share and people set: groups, pools, and the load of clusters. Times are UTC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from streamsched.domain.constraints.group import Occupancy
from streamsched.domain.constraints.load import ClusterReading, Load, LoadGate
from streamsched.domain.names import ScheduleRef
from streamsched.domain.revision import Expected, digest


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A group that a job used or whose limit was set.

    Attributes:
        waiting: how many jobs wait for a slot.
        changed_at: when its limit was last set or removed.
    """

    name: str
    occupancy: Occupancy
    waiting: int
    changed_at: datetime | None


class GroupStore(Protocol):
    """Reads and settings of groups for API, CLI and UI."""

    async def all(self, *, after: str = "", limit: int | None = None) -> Sequence[GroupRecord]:
        """Ordered by name; at most `limit` of those after the name `after`."""
        ...

    async def set_limit(self, name: str, limit: int | None, reason: str, *, now: datetime) -> GroupRecord:
        """Sets the number of slots: 0 closes the group, None leaves it to the schedules. Runs that hold more continue;
        waiting jobs are rechecked. `reason` (who and why) is written to the history.
        """
        ...


@dataclass(frozen=True, slots=True)
class PoolMember:
    """A schedule that starts its runs in a pool; `online`: its priority was set, overriding its definition."""

    schedule: ScheduleRef
    priority: int
    online: bool


@dataclass(frozen=True, slots=True)
class PoolRecord:
    """A pool that a job used or that was set.

    Attributes:
        places: the runs in it; its limit is the size set online.
        age: the waiting time that equals one point of priority.
        waiting: how many jobs are in its queue.
        members: its schedules, high priority first.
        changed_at: when it was last set.
    """

    name: str
    places: Occupancy
    age: timedelta
    waiting: int
    members: tuple[PoolMember, ...]
    changed_at: datetime | None

    @property
    def revision(self) -> str:
        return pool_revision(self.places.limit, self.age)


def pool_revision(size: int | None, age: timedelta) -> str:
    """The revision of a pool: of its size and age, whatever runs and waits in it."""
    return digest([size, age.total_seconds()])


class PoolStore(Protocol):
    """Reads and settings of pools for API, CLI and UI."""

    async def all(self, *, after: str = "", limit: int | None = None) -> Sequence[PoolRecord]:
        """Ordered by name; at most `limit` of those after the name `after`."""
        ...

    async def get(self, name: str) -> PoolRecord:
        """Raises:
        NotFoundError: no job has used it and no one has set it.
        """
        ...

    async def set(
        self,
        name: str,
        size: int | None,
        age: timedelta | None,
        reason: str,
        *,
        now: datetime,
        expected: Expected | None = None,
    ) -> PoolRecord:
        """Sets the number of runs at a time (0 closes the pool, None leaves it to the schedules) and the waiting time
        that equals a point of priority (None: unchanged). Runs continue; the queue is reordered and rechecked.

        Raises:
            RevisionChangedError: the pool has no expected revision; nothing changed.
        """
        ...

    async def prioritize(self, schedule: ScheduleRef, priority: int | None, reason: str, *, now: datetime) -> str:
        """Sets the schedule's priority, None: that of its definition; moves its waiting jobs in the queue. Returns the
        pool.

        Raises:
            NotFoundError: no such schedule, or it is in no pool.
        """
        ...


class Probe(Protocol):
    """Reads the load of one cluster. Found by the scheme of its URL (`spark.clusters.open_probe`)."""

    async def read(self) -> ClusterReading:
        """Raises:
        UnavailableError: no answer, or one of an unknown form.
        """
        ...


@dataclass(frozen=True, slots=True)
class GateRecord:
    """The gate of one `Load` after the readings of its cluster; `waiting`: how many jobs it holds."""

    load: Load
    gate: LoadGate
    waiting: int


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The stored state of a cluster.

    Attributes:
        reading, at: the last reading and its time.
        failed: why the probe fails now, and `failing` since when.
        waiting: how many jobs wait for it.
        gates: of every `Load` that a job ever used.
    """

    name: str
    reading: ClusterReading | None
    at: datetime | None
    failed: str | None
    failing: datetime | None
    waiting: int
    gates: Sequence[GateRecord] = ()


class ClusterStore(Protocol):
    """Readings of clusters, shared by all launchers."""

    async def wanted(self, now: datetime, *, every: timedelta, patience: timedelta) -> Sequence[str]:
        """Clusters that jobs wait for and whose reading is older than `every`; reserved for the caller to read for
        `patience`.
        """
        ...

    async def next_due(self, now: datetime, *, every: timedelta) -> datetime | None:
        """When the next one is wanted; None when no job waits for a cluster."""
        ...

    async def record_reading(self, cluster: str, reading: ClusterReading, *, now: datetime) -> int:
        """Stores a reading, updates the gates, and wakes as many jobs of open gates as may start. Returns how many."""
        ...

    async def record_failure(self, cluster: str, reason: str, *, now: datetime) -> None:
        """Stores why there is no reading; the last one stays valid until it is stale."""
        ...

    async def all(self) -> Sequence[ClusterRecord]:
        """Clusters that a job ever waited for, ordered by name."""
        ...
