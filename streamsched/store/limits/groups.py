"""Groups, and their slots, taken and freed in the transactions of decisions and run ends.

Slots are taken and freed under the lock of the group's row. Groups are locked sorted by name: by a decision after the
program, its schedules and jobs, by every other transaction last. The holder of a group's lock waits for no job: jobs
locked by another transaction are skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.domain.constraints.group import GroupSlot, Occupancy
from streamsched.domain.constraints.pool import slots_name
from streamsched.domain.decisions.admission import Satisfied
from streamsched.domain.decisions.decision import Admit, Decision, DueJob, Wait
from streamsched.domain.limits import MOST_SLOTS
from streamsched.domain.names import ScheduleRef
from streamsched.domain.quotas.quota import slots_name as quota_slots
from streamsched.store.catalog.history import record
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.sql import Select, queries

_SQL: Final = queries("limits/groups")
_POOL: Final = slots_name("")

#: Most waiting jobs of a group that are rechecked when its limit changes.
_CHANGED: Final = 1000


class _GroupRow(NamedTuple):
    name: str
    slots: int | None
    changed_at: datetime | None
    runs: list[str]
    weights: list[int]
    waiting: int


class _SlotsTaken(NamedTuple):
    name: str
    slots: int | None
    taken: int


class _SlotsHeld(NamedTuple):
    name: str
    slots: int


class HolderRow(NamedTuple):
    """A row of a `BlockingRun`."""

    id: str
    state: str
    since: datetime
    schedule: str | None


_LIST: Final = Select(_SQL["list"], _GroupRow)
_TAKEN: Final = Select(_SQL["taken"], _SlotsTaken)
_LOCK_HELD: Final = Select(_SQL["lock_held"], _SlotsHeld)
_HOLDERS: Final = Select(_SQL["holders"], HolderRow)


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


@dataclass(frozen=True, slots=True)
class BlockingRun:
    """A non-terminal run, of the program of a job or with slots of its groups, for which the job may wait."""

    run: str
    state: str
    since: datetime
    schedule: ScheduleRef | None

    @property
    def href(self) -> str:
        """Its path in the API."""
        return f"/v1/runs/{self.run}"


def blocking_run(row: HolderRow) -> BlockingRun:
    """The run of a row."""
    return BlockingRun(*row[:3], None if row.schedule is None else ScheduleRef.parse(row.schedule))


class GroupStore:
    """Reads and settings of groups for API, CLI and UI."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def all(self, *, after: str = "", limit: int | None = None) -> Sequence[GroupRecord]:
        """Ordered by name; at most `limit` of those after the name `after`."""
        with translate_errors():
            return [_record(row) for row in await _LIST.fetch(self._pool, None, after, limit)]

    async def set_limit(self, name: str, limit: int | None, reason: str, *, now: datetime) -> GroupRecord:
        """Sets the number of slots: 0 closes the group, None leaves it to the schedules. Runs that hold more continue;
        waiting jobs are rechecked. `reason` (who and why) is written to the history.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["set_limit"], name, limit, now)
                change = "its limit is left to the schedules" if limit is None else f"its limit is {limit}"
                change = f"{change}: {reason}" if reason else change
                await record(connection, "group", name, "group.limit_set", change, at=now)
                await wake(connection, {name: _CHANGED})
                return _record(await _LIST.fetch_one(connection, [name], "", None))


async def lock(connection: Connection, names: Iterable[str]) -> None:
    """Locks the groups until the transaction ends; missing ones are created."""
    wanted = sorted(set(names))
    if not wanted:
        return
    if not await connection.fetch(_SQL["lock"], wanted):
        await connection.execute(_SQL["ensure"], wanted)
        await connection.execute(_SQL["lock"], wanted)


async def lock_and_read(connection: Connection, names: Iterable[str]) -> Mapping[str, Occupancy]:
    """Locks the groups and reads their occupancy."""
    wanted = sorted(set(names))
    await lock(connection, wanted)
    return await occupancy(connection, wanted)


class _SlotsWanted(NamedTuple):
    """What a job needs of a group: its slots of `limit` that its schedule declares."""

    name: str
    weight: int
    limit: int


def _slots_wanted(job: DueJob, quotas: Collection[str]) -> list[_SlotsWanted]:
    """What a job needs of the groups of its schedule, and of `quotas`, groups of namespaces."""
    if job.schedule is None:
        return []
    found = [_SlotsWanted(group.name, group.weight, group.limit) for group in job.schedule.groups]
    if quotas and (name := quota_slots(job.schedule.program.namespace)) in quotas:
        found.append(_SlotsWanted(name, 1, MOST_SLOTS))
    return found


async def occupancy_for(
    connection: Connection, due_jobs: Sequence[DueJob], quotas: Collection[str] = ()
) -> Mapping[str, Occupancy]:
    """The occupancy of the groups the jobs use, which are locked, and of `quotas`, groups of namespaces. Holders, which
    may be thousands, are read only of groups without room for all the jobs: only their verdicts name them.
    """
    wanted = [group for job in due_jobs for group in _slots_wanted(job, quotas)]
    if not wanted:
        return {}
    slots, limits = Counter[str](), dict[str, int]()
    for group in wanted:
        slots[group.name] += group.weight
        limits[group.name] = min(group.limit, limits.get(group.name, group.limit))
    rows = {row.name: row for row in await _TAKEN.fetch(connection, sorted(limits))}
    roomy = {
        name: Occupancy(row.slots, taken=row.taken)
        for name, row in rows.items()
        if row.taken + slots[name] <= (limits[name] if row.slots is None else row.slots)
    }
    return {**roomy, **await occupancy(connection, rows.keys() - roomy.keys())}


async def occupancy(connection: Connection, names: Iterable[str]) -> Mapping[str, Occupancy]:
    """The occupancy by group; groups that do not exist are missing."""
    wanted = sorted(set(names))
    rows = await _LIST.fetch(connection, wanted, "", None) if wanted else ()
    return {row.name: _record(row).occupancy for row in rows}


async def holders(connection: Connection, names: Iterable[str]) -> Sequence[BlockingRun]:
    """The runs that hold slots of these groups, oldest first."""
    wanted = sorted(set(names))
    return [blocking_run(row) for row in await _HOLDERS.fetch(connection, wanted)] if wanted else ()


async def settle(
    connection: Connection, due_jobs: Sequence[DueJob], before: Mapping[str, Occupancy], decisions: Sequence[Decision]
) -> None:
    """Jobs that wait for a slot are queued; the groups are locked, and the admitted runs have taken their slots. While
    slots are left of a group whose jobs were not admitted, the next waiting jobs are woken: those may have been woken
    in vain. `before`: the occupancy before the decisions.
    """
    taken = [(name, each.run, weight) for each in decisions if isinstance(each, Admit) for name, weight in each.slots]
    wanted = {job.job: _slots_wanted(job, before) for job in due_jobs}
    refused = [each for each in decisions if not isinstance(each, Admit) and wanted.get(each.job)]
    waits = [
        (group.name, each.job, group.weight, group.limit, _slots_only(each))
        for each in refused
        if isinstance(each, Wait)
        for group in wanted[each.job]
        if group.name in each.groups
    ]
    if waits:
        await connection.execute(_SQL["queue"], *(list(column) for column in zip(*waits, strict=True)))
    await wake(connection, _jobs_to_wake(before, taken, [group for each in refused for group in wanted[each.job]]))


def _slots_only(wait: Wait) -> bool:
    held_by = [verdict for verdict in wait.verdicts if not isinstance(verdict, Satisfied)]
    return len(held_by) == len(wait.groups)


def _jobs_to_wake(
    before: Mapping[str, Occupancy], taken: Sequence[tuple[str, str, int]], refused: Sequence[_SlotsWanted]
) -> Mapping[str, int]:
    """For each group with room left, how many jobs were not admitted."""
    room: dict[str, int] = {}
    for group in refused:
        found = before.get(group.name, Occupancy())
        limit = group.limit if found.limit is None else found.limit
        room[group.name] = max(limit - found.taken, room.get(group.name, 0))
    for name, _, weight in taken:
        if name in room:
            room[name] -= weight
    counts = Counter(group.name for group in refused)
    return {name: counts[name] for name in sorted(room) if room[name] > 0}


async def wake(connection: Connection, free_slots: Mapping[str, int], ended: Sequence[str] = ()) -> None:
    """Frees the slots of the runs `ended`, and wakes the jobs that wait longest, as many as slots are free in each
    group; the groups are locked.
    """
    if free_slots or ended:
        await connection.execute(_SQL["wake"], list(free_slots), list(free_slots.values()), ended)


async def take(connection: Connection, slots: Sequence[tuple[str, str, int]]) -> None:
    """Stores slots of new runs as (group, run, weight); the groups are locked."""
    if slots:
        await connection.execute(_SQL["take"], *(list(column) for column in zip(*slots, strict=True)))


async def free_slots(connection: Connection, *runs: str) -> None:
    """Frees the runs' slots and wakes jobs that wait for them. Its locks are the last of the transaction."""
    held = await _LOCK_HELD.fetch(connection, runs)
    if held:
        freed = {row.name: row.slots for row in held}
        places = {name: slots for name, slots in freed.items() if name.startswith(_POOL)}
        await wake(connection, {name: amount for name, amount in freed.items() if name not in places}, runs)
        await wake_pool_queues(connection, places)


async def wake_pool_queues(connection: Connection, places: Mapping[str, int]) -> None:
    """Wakes the first jobs of pools' queues, as many as slots are free; one that takes no slot wakes the next.
    `places`: free slots by group name; the groups are locked.
    """
    if places:
        await connection.execute(_SQL["wake_lines"], list(places), list(places.values()))


async def hand_over(connection: Connection, runs: Sequence[str], again: Sequence[str]) -> None:
    """Moves the slots of runs to their next attempts, in the same order."""
    await connection.execute(_SQL["hand_over"], runs, again)


def _record(row: _GroupRow) -> GroupRecord:
    slots = tuple(GroupSlot(run, weight) for run, weight in zip(row.runs, row.weights, strict=True))
    return GroupRecord(row.name, Occupancy(row.slots, slots), row.waiting, row.changed_at)
