"""`ports.pools` on PostgreSQL, and what rulings do with the lines of pools within their own transactions.

A pool is a row of `groups`, locked with them; its places are slots, taken and freed as all slots are (`store.groups`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import asyncpg

from streamsched.domain.docket import Admit, Case, Ruling, Wait
from streamsched.domain.errors import NotFoundError
from streamsched.domain.group import Occupancy, Slot
from streamsched.domain.names import ScheduleRef
from streamsched.domain.pool import AGE, Line, Turn, slots_name
from streamsched.ports.pools import Member, PoolRecord
from streamsched.store import groups
from streamsched.store.pool import translated
from streamsched.store.sql import queries

_SQL: Final = queries("lines")
#: So many look again when a pool's size is left to its schedules, which may say anything.
_SOME: Final = 100


class PostgresPools:
    """See `ports.pools.Pools`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def all(self) -> Sequence[PoolRecord]:
        with translated():
            async with self._pool.acquire() as connection:
                return await _records(connection, None)

    async def set(
        self, name: str, size: int | None, age: timedelta | None, reason: str, *, now: datetime
    ) -> PoolRecord:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["set"], name, size, None if age is None else age.total_seconds(), now)
                said = "its size is left to the schedules" if size is None else f"its size is {size}"
                said += "" if age is None else f", a point of priority is worth {age.total_seconds():g} s"
                await _record(connection, ("group", slots_name(name), "pool.set"), said, reason, at=now)
                await connection.execute(_SQL["reorder"], name, None)
                await groups.wake_lines(connection, {slots_name(name): _SOME if size is None else size})
                [record] = await _records(connection, name)
                return record

    async def prioritize(self, schedule: ScheduleRef, priority: int | None, reason: str, *, now: datetime) -> str:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                pool = await connection.fetchval(_SQL["prioritize"], str(schedule), priority)
                if pool is None:
                    raise NotFoundError("schedule of a pool", str(schedule))
                await groups.locked(connection, [slots_name(pool)])
                said = "its priority is its own" if priority is None else f"its priority is {priority}"
                await _record(connection, ("schedule", str(schedule), "priority_set"), said, reason, at=now)
                await connection.execute(_SQL["reorder"], pool, str(schedule))
                await groups.wake_lines(connection, {slots_name(pool): 1})
                return pool


async def first(connection: Any, pools: Iterable[str], *, limit: int) -> Mapping[str, Line]:
    """The lines of pools, as far as so many jobs."""
    wanted = sorted(set(pools))
    if not wanted:
        return {}
    occupancies = await groups.occupancy(connection, map(slots_name, wanted))
    turns: dict[str, list[Turn]] = {}
    ages: dict[str, timedelta] = {}
    for row in await connection.fetch(_SQL["first"], wanted, limit):
        ages[row["pool"]] = AGE if row["age_s"] is None else timedelta(seconds=row["age_s"])
        if row["job"] is not None:
            turns.setdefault(row["pool"], []).append(Turn(row["turn_at"], row["sequence"], row["job"]))
    return {
        name: Line(occupancies.get(slots_name(name), Occupancy()), tuple(turns.get(name, ())), ages.get(name, AGE))
        for name in wanted
    }


async def settle(connection: Any, cases: Sequence[Case], lines: Mapping[str, Line], rulings: Sequence[Ruling]) -> None:
    """Who was ruled on leaves his line, who waits for nothing but a place enters it; and while places are left, the
    first are looked at, for one who left may have stood in their way. The pools are locked, and `lines` as they were.
    """
    if not lines:
        return
    await connection.execute(_SQL["leave"], [ruling.job for ruling in rulings])
    rows = [(e.job, e.line[0], *e.line[1][:2]) for e in rulings if isinstance(e, Wait) and e.line is not None]
    if rows:
        await connection.execute(_SQL["enter"], *(list(column) for column in zip(*rows, strict=True)))
    pools = (case.schedule.pool for case in cases if case.schedule is not None)
    sizes = {pool.name: pool for pool in sorted(filter(None, pools), key=lambda pool: pool.size)}
    taken = [name for each in rulings if isinstance(each, Admit) for name, _ in each.slots]
    free = {
        slots_name(name): line.size(sizes[name]) - line.places.taken - taken.count(slots_name(name))
        for name, line in lines.items()
        if name in sizes
    }
    await groups.wake_lines(connection, {name: places for name, places in free.items() if places > 0})


async def step_out(connection: Any, jobs: Sequence[str]) -> None:
    """Who cannot be ruled on stands in no line until he can; whoever is first then is looked at."""
    pools = [slots_name(row["pool"]) for row in await connection.fetch(_SQL["pools"], jobs)]
    await groups.lock(connection, pools)
    await connection.execute(_SQL["leave"], jobs)
    await groups.wake_lines(connection, dict.fromkeys(pools, 1))


async def forget(connection: Any) -> None:
    """Rows of jobs that stand in no line any more."""
    await connection.execute(_SQL["forget"])


async def _records(connection: Any, name: str | None) -> Sequence[PoolRecord]:
    members: dict[str, list[Member]] = {}
    for row in await connection.fetch(_SQL["members"], name):
        member = Member(ScheduleRef.parse(row["id"]), row["priority"], row["priority_set"] is not None)
        members.setdefault(row["pool"], []).append(member)
    return [
        PoolRecord(
            row["name"],
            Occupancy(row["slots"], tuple(Slot(run, 1) for run in row["runs"])),
            AGE if row["age_s"] is None else timedelta(seconds=row["age_s"]),
            row["waiting"],
            tuple(members.get(row["name"], ())),
            row["changed_at"],
        )
        for row in await connection.fetch(_SQL["list"], name)
    ]


async def _record(connection: Any, what: tuple[str, str, str], said: str, reason: str, *, at: datetime) -> None:
    await connection.execute(_SQL["record"], at, *what, f"{said}: {reason}" if reason else said)
