"""The lanes of decisions: read, kept and woken in the transactions of decisions and of run ends.

A schedule has one program, so its lanes are counted and changed under the lock of that program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import md5
from typing import Final, NamedTuple

from streamsched.domain.constraints.constraint import ConcurrencyScope
from streamsched.domain.constraints.lane import Lane, LaneName
from streamsched.domain.constraints.pool import QueuePosition
from streamsched.domain.decisions.decision import Admit, Decision, DecisionInput, DueJob, Wait
from streamsched.domain.decisions.lanes import holding_lanes, lane_position, limits_of
from streamsched.domain.jobs.job import ReadyJob, ScheduleKey
from streamsched.domain.schedules.schedule import Schedule
from streamsched.store.connections import Connection, Executor
from streamsched.store.sql import Select, queries

_SQL: Final = queries("limits/lanes")
#: Most waiting jobs of a lane that are read, or woken, at once.
_MOST: Final = 1000


class _Waiting(NamedTuple):
    place: int
    job: str
    satisfied_at: datetime
    sequence: int


class _LaneLeft(NamedTuple):
    schedule: str
    scope: str
    key_hash: str


_FIRST: Final = Select(_SQL["first"], _Waiting)
_LEAVE: Final = Select(_SQL["leave"], _LaneLeft)


async def lanes_of(
    connection: Connection, due_jobs: Iterable[DueJob], own_runs: Mapping[ScheduleKey, Sequence[str]]
) -> Mapping[LaneName, Lane]:
    """The lanes of the jobs. `own_runs`: the non-terminal runs of their schedules, by schedule key."""
    limits, jobs = dict[LaneName, int](), Counter[LaneName]()
    for due_job in due_jobs:
        for name, limit in limits_of(due_job.schedule, due_job.ready).items():
            limits[name] = min(limit, limits.get(name, limit))
            jobs[name] += 1
    if not limits:
        return {}
    runs = {name: _runs(name, own_runs) for name in limits}
    wanted = {name: max(0, limit - len(runs[name])) + jobs[name] for name, limit in limits.items()}
    positions = await _first_positions(connection, wanted)
    return {name: Lane(runs[name], positions[name]) for name in limits}


async def read_lanes(connection: Connection, schedule: Schedule | None, ready: ReadyJob) -> Mapping[LaneName, Lane]:
    """The lanes of one job, without locks; of each the first jobs that wait."""
    names = limits_of(schedule, ready)
    if schedule is None or not names:
        return {}
    positions = await _first_positions(connection, dict.fromkeys(names, _MOST))
    found: dict[LaneName, Lane] = {}
    for name in names:
        key = name.key if name.scope is ConcurrencyScope.KEY else None
        rows = await connection.fetch(_SQL["runs"], str(schedule.program), str(name.schedule), key)
        found[name] = Lane(tuple(row["id"] for row in rows), positions[name])
    return found


async def settle(connection: Connection, decision_input: DecisionInput, decisions: Sequence[Decision]) -> None:
    """Decided jobs leave their lanes, and those that wait enter them. While places are left, the first jobs are woken:
    for each job that gave its position up, and for jobs that wait behind one that nothing has woken.
    """
    before = decision_input.lanes
    if not before:
        return
    decided = list(zip(decision_input.due_jobs, decisions, strict=True))
    if waited := [due_job.job for due_job, _ in decided if due_job.held_by is not None]:
        await connection.execute(_SQL["leave"], waited)
    rows = [
        (due_job.job, *_columns_of(name), *lane_position(due_job.ready)[:2])
        for due_job, each in decided
        if isinstance(each, Wait) and not each.failed
        for name in each.lanes
    ]
    if rows:
        await connection.execute(_SQL["enter"], *(list(column) for column in zip(*rows, strict=True)))
    free: dict[LaneName, int] = {}
    started = Counter[LaneName]()
    for due_job, each in decided:
        limits = limits_of(due_job.schedule, due_job.ready)
        if isinstance(each, Admit):
            started.update(limits.keys())
            continue
        wakes = _wakes(due_job, each)
        free |= {
            name: limit - len(before[name].runs) for name, limit in limits.items() if name in wakes & before.keys()
        }
    await _wake(connection, {name: places - started[name] for name, places in free.items()})


async def wake_after(connection: Connection, runs: Collection[str]) -> None:
    """Wakes the heads of the lanes of runs that ended. The programs are locked."""
    await connection.execute(_SQL["wake_after"], list(runs))


async def leave(connection: Connection, jobs: Sequence[str]) -> None:
    """Removes jobs that cannot be decided from their lanes, and wakes the jobs that become first."""
    freed = Counter(await _LEAVE.fetch(connection, jobs))
    if freed:
        columns = zip(*((*lane, places) for lane, places in sorted(freed.items())), strict=True)
        await connection.execute(_SQL["wake"], *(list(column) for column in columns))


async def forget(executor: Executor) -> None:
    """Deletes rows of jobs that no longer wait."""
    await executor.execute(_SQL["forget"])


def _wakes(due_job: DueJob, decision: Decision) -> frozenset[LaneName]:
    """The lanes of a job that was not admitted in which others may start: it gave its position up, or stands behind one
    that nothing has woken.
    """
    kept, behind = frozenset[LaneName](), frozenset[LaneName]()
    if isinstance(decision, Wait):
        if decision.failed:
            return kept  # `leave` follows
        kept = frozenset(decision.lanes)
        behind = kept.intersection(holding_lanes(due_job, decision))
    waited = due_job.held_by is not None
    return behind | (limits_of(due_job.schedule, due_job.ready).keys() - kept if waited else frozenset())


async def _wake(connection: Connection, lanes: Mapping[LaneName, int]) -> None:
    rows = [(*_columns_of(name), min(places, _MOST)) for name, places in lanes.items() if places > 0]
    if rows:
        await connection.execute(_SQL["wake"], *(list(column) for column in zip(*rows, strict=True)))


async def _first_positions(
    connection: Connection, wanted: Mapping[LaneName, int]
) -> Mapping[LaneName, tuple[QueuePosition, ...]]:
    names = list(wanted)
    rows = [(*_columns_of(name), min(wanted[name], _MOST)) for name in names]
    found: dict[LaneName, list[QueuePosition]] = {name: [] for name in names}
    for row in await _FIRST.fetch(connection, *(list(column) for column in zip(*rows, strict=True))):
        found[names[row.place - 1]].append(QueuePosition(row.satisfied_at, row.sequence, row.job))
    return {name: tuple(positions) for name, positions in found.items()}


def _runs(name: LaneName, own_runs: Mapping[ScheduleKey, Sequence[str]]) -> tuple[str, ...]:
    if name.scope is ConcurrencyScope.KEY:
        return tuple(own_runs.get(name.schedule_key, ()))
    return tuple(run for of, runs in own_runs.items() if of.schedule == name.schedule for run in runs)


def _columns_of(name: LaneName) -> tuple[str, str, str]:
    """Schedule, scope and hash of the key, as they are stored."""
    keyed = name.scope is ConcurrencyScope.KEY
    hashed = md5(name.key.encode(), usedforsecurity=False).hexdigest() if keyed else ""
    return str(name.schedule), name.scope.value, hashed
