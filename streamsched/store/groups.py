"""`ports.groups` on PostgreSQL, and what rulings and ends do with slots within their own transactions.

Who takes or frees slots holds the group's row. Groups are locked sorted by name, after the program, its schedules and
the jobs that are ruled on; by whoever frees or changes after everything else. Who has them waits for no job any more:
one that somebody else holds is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import asyncpg

from streamsched.domain.admission import Satisfied
from streamsched.domain.docket import Admit, Case, Ruling, Wait
from streamsched.domain.group import Group, Occupancy, Slot
from streamsched.domain.pool import slots_name
from streamsched.ports.groups import GroupRecord
from streamsched.store.pool import translated
from streamsched.store.sql import queries

_SQL: Final = queries("groups")
_POOL: Final = slots_name("")

#: How many of a group's waiting jobs are looked at again when its limit was changed.
_CHANGED: Final = 1000


class PostgresGroups:
    """See `ports.groups.Groups`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def all(self) -> Sequence[GroupRecord]:
        with translated():
            return [_record(row) for row in await self._pool.fetch(_SQL["list"], None)]

    async def set_limit(self, name: str, limit: int | None, reason: str, *, now: datetime) -> GroupRecord:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["set_limit"], name, limit, now)
                said = "its limit is left to the schedules" if limit is None else f"its limit is {limit}"
                await connection.execute(_SQL["record"], now, name, f"{said}: {reason}" if reason else said)
                await connection.execute(_SQL["wake"], [name], [_CHANGED])
                return _record(await connection.fetchrow(_SQL["list"], [name]))


async def lock(connection: Any, names: Iterable[str]) -> None:
    """The groups are held until the transaction ends; unknown ones are made."""
    wanted = sorted(set(names))
    if not wanted:
        return
    known = {row["name"] for row in await connection.fetch(_SQL["known"], wanted)}
    if len(known) < len(wanted):
        await connection.execute(_SQL["ensure"], wanted)
    await connection.execute(_SQL["lock"], wanted)


async def locked(connection: Any, names: Iterable[str]) -> Mapping[str, Occupancy]:
    """The groups as they stand, under their locks."""
    wanted = sorted(set(names))
    await lock(connection, wanted)
    return await occupancy(connection, wanted)


async def asked(connection: Any, cases: Sequence[Case]) -> Mapping[str, Occupancy]:
    """The groups that these cases ask for as they stand, under their locks. Who holds slots is only looked up where
    there may not be room for all: nobody asks otherwise, and it may be thousands.
    """
    wanted = [group for case in cases if case.schedule is not None for group in case.schedule.groups]
    if not wanted:
        return {}
    slots, limits = Counter[str](), dict[str, int]()
    for group in wanted:
        slots[group.name] += group.weight
        limits[group.name] = min(group.limit, limits.get(group.name, group.limit))
    rows = {row["name"]: row for row in await connection.fetch(_SQL["taken"], sorted(limits))}
    roomy = {
        name: Occupancy(row["slots"], taken=row["taken"])
        for name, row in rows.items()
        if row["taken"] + slots[name] <= (limits[name] if row["slots"] is None else row["slots"])
    }
    return {**roomy, **await occupancy(connection, rows.keys() - roomy.keys())}


async def occupancy(connection: Any, names: Iterable[str]) -> Mapping[str, Occupancy]:
    """The groups as they stand; those nobody has asked for yet are missing."""
    wanted = sorted(set(names))
    rows = await connection.fetch(_SQL["list"], wanted) if wanted else ()
    return {row["name"]: _record(row).occupancy for row in rows}


async def holders(connection: Any, names: Iterable[str]) -> Sequence[Any]:
    """Rows of the runs that hold slots of these groups, oldest first."""
    wanted = sorted(set(names))
    return await connection.fetch(_SQL["holders"], wanted) if wanted else ()


async def settle(
    connection: Any, cases: Sequence[Case], standing: Mapping[str, Occupancy], rulings: Sequence[Ruling]
) -> None:
    """Admitted runs take their slots, and jobs that wait for a slot queue up; the groups are locked, and `standing` is
    how they were before. A job that was not admitted hands what it may have been woken for to the next.
    """
    taken = [(name, each.run, weight) for each in rulings if isinstance(each, Admit) for name, weight in each.slots]
    if waited := [case.job for case in cases if case.held_by is not None]:
        await connection.execute(_SQL["leave"], waited)
    await take(connection, taken)
    wanted = {case.job: case.schedule.groups for case in cases if case.schedule is not None}
    refused = [each for each in rulings if not isinstance(each, Admit) and wanted.get(each.job)]
    waits = [
        (group.name, each.job, group.weight, group.limit, _slots_only(each))
        for each in refused
        if isinstance(each, Wait)
        for group in wanted[each.job]
        if group.name in each.groups
    ]
    if waits:
        await connection.execute(_SQL["queue"], *(list(column) for column in zip(*waits, strict=True)))
    handed_on = _handed_on(standing, taken, [group for each in refused for group in wanted[each.job]])
    if handed_on:
        await connection.execute(_SQL["wake"], list(handed_on), list(handed_on.values()))


def _slots_only(wait: Wait) -> bool:
    held_by = [verdict for verdict in wait.verdicts if not isinstance(verdict, Satisfied)]
    return len(held_by) == len(wait.groups)


def _handed_on(
    standing: Mapping[str, Occupancy], taken: Sequence[tuple[str, str, int]], refused: Sequence[Group]
) -> Mapping[str, int]:
    """How many of each group that still has room were not admitted."""
    room: dict[str, int] = {}
    for group in refused:
        found = standing.get(group.name, Occupancy())
        limit = group.limit if found.limit is None else found.limit
        room[group.name] = max(limit - found.taken, room.get(group.name, 0))
    for name, _, weight in taken:
        if name in room:
            room[name] -= weight
    asked = Counter(group.name for group in refused)
    return {name: asked[name] for name in sorted(room) if room[name] > 0}


async def take(connection: Any, slots: Sequence[tuple[str, str, int]]) -> None:
    """Slots of runs that were just made, as (group, run, weight); the groups are `locked`."""
    if slots:
        await connection.execute(_SQL["take"], *(list(column) for column in zip(*slots, strict=True)))


async def free(connection: Any, *runs: str) -> None:
    """The runs' slots are free, and those that wait for them are looked at. The last thing a transaction locks."""
    held = await connection.fetch(_SQL["lock_held"], runs)
    if held:
        await connection.execute(_SQL["free"], runs)
        freed: dict[str, int] = {row["name"]: row["slots"] for row in held}
        places = {name: slots for name, slots in freed.items() if name.startswith(_POOL)}
        if slots := {name: amount for name, amount in freed.items() if name not in places}:
            await connection.execute(_SQL["wake"], list(slots), list(slots.values()))
        await wake_lines(connection, places)


async def wake_lines(connection: Any, places: Mapping[str, int]) -> None:
    """So many of the first of each pool's line are looked at again; who does not take the place wakes the next. The
    pools, by the names of their slots, are locked.
    """
    if places:
        await connection.execute(_SQL["wake_lines"], list(places), list(places.values()))


async def hand_over(connection: Any, run: str, again: str) -> None:
    """The next attempt holds what the lost run held."""
    await connection.execute(_SQL["hand_over"], run, again)


def _record(row: Any) -> GroupRecord:
    slots = tuple(Slot(run, weight) for run, weight in zip(row["runs"], row["weights"], strict=True))
    return GroupRecord(row["name"], Occupancy(row["slots"], slots), row["waiting"], row["changed_at"])
