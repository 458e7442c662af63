"""Pools, and their queues in the transactions of decisions.

A pool is a row of `groups`, locked with them, and its places are slots of that group (`store.limits.groups`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from streamsched.domain.constraints.group import GroupSlot, Occupancy
from streamsched.domain.constraints.pool import AGE, PoolQueue, QueuePosition, slots_name
from streamsched.domain.decisions.decision import Admit, Decision, DueJob, Wait
from streamsched.domain.errors import NotFoundError
from streamsched.domain.names import ScheduleRef
from streamsched.domain.revision import Expected, digest
from streamsched.store.catalog.history import record
from streamsched.store.connections import Connection, Executor, Pool, translate_errors
from streamsched.store.limits import groups
from streamsched.store.sql import Select, queries

_SQL: Final = queries("limits/pools")
#: Jobs that are rechecked when a pool's size is left to its schedules and so unknown.
_SIZE_UNKNOWN: Final = 100


class _PoolRow(NamedTuple):
    name: str
    slots: int | None
    age_s: float | None
    changed_at: datetime | None
    runs: list[str]
    waiting: int


class _MemberRow(NamedTuple):
    id: str
    pool: str
    priority: int
    priority_set: int | None


class _Settings(NamedTuple):
    slots: int | None
    age_s: float | None


class _Queued(NamedTuple):
    pool: str
    age_s: float | None
    job: str | None
    turn_at: datetime | None
    sequence: int | None


_LIST: Final = Select(_SQL["list"], _PoolRow)
_MEMBERS: Final = Select(_SQL["members"], _MemberRow)
_SETTINGS: Final = Select(_SQL["settings"], _Settings)
_FIRST: Final = Select(_SQL["first"], _Queued)


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
        """Changes with size and age."""
        return _revision(self.places.limit, self.age)


def _revision(size: int | None, age: timedelta) -> str:
    """Of size and age, whatever runs and waits in the pool."""
    return digest([size, age.total_seconds()])


class PoolStore:
    """Reads and settings of pools for API, CLI and UI."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def all(self, *, after: str = "", limit: int | None = None) -> Sequence[PoolRecord]:
        """Ordered by name; at most `limit` of those after the name `after`."""
        with translate_errors():
            async with self._pool.acquire() as connection:
                return await _records(connection, None, after=after, limit=limit)

    async def get(self, name: str) -> PoolRecord:
        """The pool with its size and what it holds.

        Raises:
            NotFoundError: no job has used it and no one has set it.
        """
        with translate_errors():
            async with self._pool.acquire() as connection:
                found = await _records(connection, name)
        if not found:
            raise NotFoundError("pool", name)
        return found[0]

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
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                if expected is not None:
                    row = await _SETTINGS.fetchrow(connection, name)
                    current = None if row is None else _revision(row.slots, _age(row.age_s))
                    expected.check(f"pool '{name}'", current)
                await connection.execute(_SQL["set"], name, size, None if age is None else age.total_seconds(), now)
                change = "its size is left to the schedules" if size is None else f"its size is {size}"
                change += "" if age is None else f", a point of priority is worth {age.total_seconds():g} s"
                change = f"{change}: {reason}" if reason else change
                await record(connection, "group", slots_name(name), "pool.set", change, at=now)
                await connection.execute(_SQL["reorder"], name, None)
                await groups.wake_pool_queues(connection, {slots_name(name): _SIZE_UNKNOWN if size is None else size})
                [pool] = await _records(connection, name)
                return pool

    async def prioritize(self, schedule: ScheduleRef, priority: int | None, reason: str, *, now: datetime) -> str:
        """Sets the schedule's priority, None: that of its definition; moves its waiting jobs in the queue. Returns the
        pool.

        Raises:
            NotFoundError: no such schedule, or it is in no pool.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                pool = await connection.fetchval(_SQL["prioritize"], str(schedule), priority)
                if pool is None:
                    raise NotFoundError("schedule of a pool", str(schedule))
                await groups.lock(connection, [slots_name(pool)])
                change = "its priority is its own" if priority is None else f"its priority is {priority}"
                change = f"{change}: {reason}" if reason else change
                await record(connection, "schedule", str(schedule), "priority_set", change, at=now)
                await connection.execute(_SQL["reorder"], pool, str(schedule))
                await groups.wake_pool_queues(connection, {slots_name(pool): 1})
                return pool


async def queues_of(connection: Connection, pools: Iterable[str], *, limit: int) -> Mapping[str, PoolQueue]:
    """The queues of pools, the first `limit` jobs of each."""
    wanted = sorted(set(pools))
    if not wanted:
        return {}
    occupancies = await groups.occupancy(connection, map(slots_name, wanted))
    positions: dict[str, list[QueuePosition]] = {}
    ages: dict[str, timedelta] = {}
    for row in await _FIRST.fetch(connection, wanted, limit):
        ages[row.pool] = _age(row.age_s)
        if row.job is not None and row.turn_at is not None and row.sequence is not None:
            positions.setdefault(row.pool, []).append(QueuePosition(row.turn_at, row.sequence, row.job))
    return {
        name: PoolQueue(
            occupancies.get(slots_name(name), Occupancy()), tuple(positions.get(name, ())), ages.get(name, AGE)
        )
        for name in wanted
    }


async def settle(
    connection: Connection, due_jobs: Sequence[DueJob], queues: Mapping[str, PoolQueue], decisions: Sequence[Decision]
) -> None:
    """Decided jobs leave the queues, and those that wait only for a place enter them. While places are left, the first
    jobs of the queue are woken: a job that left may have been before them. The pools are locked; `queues`: before.
    """
    if not queues:
        return
    await connection.execute(_SQL["leave"], [decision.job for decision in decisions])
    rows = [(e.job, e.queued[0], *e.queued[1][:2]) for e in decisions if isinstance(e, Wait) and e.queued is not None]
    if rows:
        await connection.execute(_SQL["enter"], *(list(column) for column in zip(*rows, strict=True)))
    pools = (job.schedule.pool for job in due_jobs if job.schedule is not None)
    sizes = {pool.name: pool for pool in sorted(filter(None, pools), key=lambda pool: pool.size)}
    taken = [name for each in decisions if isinstance(each, Admit) for name, _ in each.slots]
    free = {
        slots_name(name): queue.size(sizes[name]) - queue.places.taken - taken.count(slots_name(name))
        for name, queue in queues.items()
        if name in sizes
    }
    await groups.wake_pool_queues(connection, {name: places for name, places in free.items() if places > 0})


async def leave_queue(connection: Connection, jobs: Sequence[str]) -> None:
    """Removes jobs that cannot be decided from their queues, and wakes the jobs that become first."""
    pools = [slots_name(row["pool"]) for row in await connection.fetch(_SQL["pools"], jobs)]
    await groups.lock(connection, pools)
    await connection.execute(_SQL["leave"], jobs)
    await groups.wake_pool_queues(connection, dict.fromkeys(pools, 1))


async def forget(executor: Executor) -> None:
    """Deletes rows of jobs that no longer wait in a pool."""
    await executor.execute(_SQL["forget"])


def _age(seconds: float | None) -> timedelta:
    return AGE if seconds is None else timedelta(seconds=seconds)


async def _records(
    connection: Connection, name: str | None, *, after: str = "", limit: int | None = None
) -> Sequence[PoolRecord]:
    pools = await _LIST.fetch(connection, name, after, limit)
    members: dict[str, list[PoolMember]] = {}
    for row in await _MEMBERS.fetch(connection, [row.name for row in pools]):
        member = PoolMember(ScheduleRef.parse(row.id), row.priority, row.priority_set is not None)
        members.setdefault(row.pool, []).append(member)
    return [
        PoolRecord(
            row.name,
            Occupancy(row.slots, tuple(GroupSlot(run, 1) for run in row.runs)),
            _age(row.age_s),
            row.waiting,
            tuple(members.get(row.name, ())),
            row.changed_at,
        )
        for row in pools
    ]
