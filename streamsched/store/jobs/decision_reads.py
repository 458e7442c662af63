"""What a decision is made of: programs, schedules, due jobs and shared resources, read under their locks.

A row that cannot be decoded fails its own jobs; those of other rows are decided.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

import asyncpg

from streamsched.codec.json.scalar import loads
from streamsched.codec.records import launch
from streamsched.codec.schedules.schedule import program_from_json, schedule_from_json
from streamsched.domain.constraints.pool import slots_name
from streamsched.domain.decisions.decision import DecisionInput, DueJob, invalidity
from streamsched.domain.decisions.resources import Resources
from streamsched.domain.errors import describe_failure
from streamsched.domain.jobs.job import JobCommand, JobNumber, ScheduleKey
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.quotas.quota import slots_name as quota_slots
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.preferences import with_preferences
from streamsched.domain.schedules.program_limits import limits_of_program
from streamsched.domain.schedules.schedule import Program, Schedule
from streamsched.store.connections import Connection
from streamsched.store.limits import clusters, groups, lanes, pools, process_room, rates
from streamsched.store.sql import Select, queries

_SQL: Final = queries("jobs/decisions")


class _ProgramRow(NamedTuple):
    id: str
    definition: str
    preferences: str | None
    metered: bool
    limited: bool
    jobs: list[str]
    schedules: list[str | None]


class _DueRow(NamedTuple):
    id: str
    schedule: str | None


class _ScheduleRow(NamedTuple):
    id: str
    definition: str
    generation: int
    oldest_valid_generation: int
    admits: bool
    deleted_at: datetime | None
    priority_set: int | None
    resumed_at: datetime | None


class _JobRow(NamedTuple):
    id: str
    program: str
    schedule: str | None
    waiting: list[dict[str, Any]] | None
    command: str | None
    command_reason: str | None
    ready: str
    coalesced: bool


class _WaitingJob(NamedTuple):
    schedule: str
    key: str
    generation: int
    sequence: int
    submitted: bool
    satisfied_at: datetime
    id: str


class _ProgramSchedules(NamedTuple):
    program: str
    definitions: list[str]


class _ProgramFacts(NamedTuple):
    program: str
    active_runs: list[str]
    last_completed_at: datetime | None


class _OwnRuns(NamedTuple):
    schedule: str
    key: str
    runs: list[str]
    live: list[str]


_LOCK_PROGRAMS: Final = Select(_SQL["lock_programs"], _ProgramRow)
_DUE_OF_PROGRAMS: Final = Select(_SQL["due_of_programs"], _DueRow)
_DUE_OF_JOBS: Final = Select(_SQL["due_of_jobs"], _DueRow)
_LOCK_SCHEDULES: Final = Select(_SQL["lock_schedules"], _ScheduleRow)
_LOCK_JOBS: Final = Select(_SQL["lock_jobs"], _JobRow)
_OLDEST_WAITING_JOBS: Final = Select(_SQL["oldest_waiting_jobs"], _WaitingJob)
_PROGRAM_SCHEDULES: Final = Select(_SQL["program_schedules"], _ProgramSchedules)
_FACTS: Final = Select(_SQL["facts"], _ProgramFacts)
_OWN_RUNS: Final = Select(_SQL["own_runs"], _OwnRuns)

#: Definitions whose decoded form is cached, by their text.
_CACHED: Final = 4096
#: Queue entries of a pool that are read besides the jobs to decide; one batch never admits more.
_QUEUE_AHEAD: Final = 256


@dataclass(frozen=True, slots=True)
class _LockedProgram:
    """A program whose row is locked.

    Attributes:
        program: with the preferences of its namespace; None when it was removed.
        rated: whether a token bucket counts all its runs.
        limited: whether its namespace has a quota of active runs.
        unreadable: why its definition cannot be decoded.
    """

    program: Program | None = None
    rated: bool = False
    limited: bool = False
    unreadable: str | None = None


@dataclass(frozen=True, slots=True)
class LockedInputs:
    """Inputs by program, longest waiting jobs first, without the resources; `failed`: why jobs are in no input;
    `coalesced`: the jobs into which others are coalesced.
    """

    inputs: Mapping[str, DecisionInput]
    resources: Resources
    failed: Mapping[str, str]
    coalesced: Collection[str] = ()


async def lock_and_read(
    connection: Connection,
    programs: Sequence[str],
    *,
    now: datetime,
    limit: int,
    wait: bool,
    jobs: Sequence[str] | None,
) -> LockedInputs:
    """See `DecisionStore.lock`; nothing when no program is free or no job due."""
    nothing = LockedInputs({}, Resources(), {})
    if wait and not await _wait_for_program(connection, programs[0]):
        return nothing
    locked, due = await _lock_programs(connection, programs, now, limit if jobs is None else 0)
    if jobs is not None:
        due = await _DUE_OF_JOBS.fetch(connection, jobs, list(locked), now)
    return await _read_inputs(connection, locked, due, now) if due else nothing


async def _wait_for_program(connection: Connection, program: str) -> bool:
    """Waits at most a second for the program's lock: its holder may be paused, and other programs become due."""
    try:
        async with connection.transaction():  # a savepoint: it restores the timeout
            await connection.execute(_SQL["wait_a_second"])
            await connection.execute(_SQL["wait_for_program"], program)
            await connection.execute(_SQL["reset_lock_timeout"])
    except asyncpg.LockNotAvailableError:
        return False
    return True


async def _lock_programs(
    connection: Connection, programs: Sequence[str], now: datetime, limit: int
) -> tuple[Mapping[str, _LockedProgram], Sequence[_DueRow]]:
    """Locks those of the programs that are not locked, a removed program counts as locked; and the due jobs of these,
    up to `limit` of each.
    """
    rows = await _LOCK_PROGRAMS.fetch(connection, programs, now, limit)
    found = {row.id: _locked_program(row) for row in rows}
    due = [_DueRow(*each) for row in rows for each in zip(row.jobs, row.schedules, strict=True)]
    missing = [program for program in programs if program not in found]
    if missing:
        existing = {row["id"] for row in await connection.fetch(_SQL["existing_programs"], missing)}
        if removed := [program for program in missing if program not in existing]:
            found |= dict.fromkeys(removed, _LockedProgram())
            due += await _DUE_OF_PROGRAMS.fetch(connection, removed, now, limit)
    return found, due


async def _read_inputs(
    connection: Connection, locked: Mapping[str, _LockedProgram], due: Sequence[_DueRow], now: datetime
) -> LockedInputs:
    """Locks and reads the due jobs, their schedules and the resources that these use."""
    named = {row.schedule for row in due}
    schedules = {row.id: row for row in await _LOCK_SCHEDULES.fetch(connection, list(named - {None}))}
    definitions, unreadable = _definitions(schedules)
    if None in named:
        of_programs = await _limits_of_programs(connection, list(locked))
        definitions, unreadable = {**definitions, **of_programs.limits}, {**unreadable, **of_programs.unreadable}
    wanted = {row.id for row in due}
    newest_only = [name for name, known in definitions.items() if known.overlap.keeps_newest]
    if newest_only:
        wanted |= {row["id"] for row in await connection.fetch(_SQL["siblings"], newest_only)}
    jobs: dict[str, list[DueJob]] = {}
    failed: dict[str, str] = {}
    coalesced: set[str] = set()
    for row in await _LOCK_JOBS.fetch(connection, list(wanted), list(locked)):
        if row.coalesced:
            coalesced.add(row.id)
        try:
            job = _due_job(row, schedules, definitions)
        except Exception as failure:  # noqa: BLE001 - a row may hold anything
            failed[row.id] = f"it cannot be decided: what satisfied it cannot be read: {describe_failure(failure)}"
            continue
        wrong = locked[row.program].unreadable or unreadable.get(row.schedule or _own_limits(row.program))
        if wrong is not None and _is_current(job):
            failed[row.id] = wrong
        else:
            jobs.setdefault(row.program, []).append(job)
    used_pools = {each.pool.name for each in definitions.values() if each.pool is not None}
    used_groups = {each.name for known in definitions.values() for each in known.groups}
    quotas = {quota_slots(ProgramRef.parse(name).namespace) for name, each in locked.items() if each.limited}
    await groups.lock(connection, used_groups | quotas | {slots_name(pool) for pool in used_pools})
    inputs = await _inputs(connection, locked, jobs, definitions)
    due_jobs = [job for each in inputs.values() for job in each.due_jobs]
    rated = [each.program.ref for each in (locked[name] for name in inputs) if each.rated and each.program is not None]
    buckets = (bucket for each in inputs.values() for bucket in each.buckets())
    resources = Resources(
        await groups.occupancy_for(connection, due_jobs, quotas),
        await pools.queues_of(connection, used_pools, limit=_QUEUE_AHEAD + len(due_jobs)),
        await rates.lock_buckets(connection, buckets, now=now, programs=rated),
        await clusters.lock_gates(connection, {load for each in definitions.values() for load in each.loads}),
        await process_room.lock_rooms(
            connection, (each.program for each in inputs.values() if each.program is not None), now
        ),
    )
    return LockedInputs(inputs, resources, failed, coalesced)


async def _inputs(
    connection: Connection,
    locked: Mapping[str, _LockedProgram],
    jobs: Mapping[str, Sequence[DueJob]],
    definitions: Mapping[str, Schedule],
) -> Mapping[str, DecisionInput]:
    facts = {row.program: row for row in await _FACTS.fetch(connection, list(jobs))}
    waiting = await _read_oldest_waiting(connection, definitions)
    own_runs, lane_runs = await _own_runs(connection, jobs, definitions)
    all_lanes = await lanes.lanes_of(connection, (job for of_program in jobs.values() for job in of_program), lane_runs)
    return {
        program: DecisionInput(
            locked[program].program,
            tuple(of_program),
            waiting=waiting,
            active_runs=tuple(facts[program].active_runs),
            own_runs=own_runs,
            last_completed_at=facts[program].last_completed_at,
            lanes=all_lanes,
        )
        for program, of_program in jobs.items()
    }


async def _own_runs(
    connection: Connection, programs: Collection[str], definitions: Mapping[str, Schedule]
) -> tuple[Mapping[ScheduleKey, tuple[str, ...]], Mapping[ScheduleKey, tuple[str, ...]]]:
    """The non-terminal runs of the schedules that need them, by schedule key: those that overlap policies see, without
    backfills, and all, which lanes count.
    """
    wanted = [
        name
        for name, known in definitions.items()
        if known.overlap is Overlap.SKIP or known.overlap.stops or known.lanes
    ]
    if not wanted:
        return {}, {}
    rows = {
        ScheduleKey(ScheduleRef.parse(row.schedule), row.key): row
        for row in await _OWN_RUNS.fetch(connection, list(programs), wanted)
    }
    return {key: tuple(row.live) for key, row in rows.items()}, {key: tuple(row.runs) for key, row in rows.items()}


async def _read_oldest_waiting(
    connection: Connection, definitions: Mapping[str, Schedule]
) -> Mapping[ScheduleKey, JobNumber]:
    """Of each schedule key the waiting job into which others are coalesced."""
    coalescing = [name for name, known in definitions.items() if known.overlap is Overlap.COALESCE]
    skipping = [name for name, known in definitions.items() if known.overlap is Overlap.SKIP]
    if not coalescing and not skipping:
        return {}
    return {
        ScheduleKey(ScheduleRef.parse(row.schedule), row.key): JobNumber(
            row.generation, row.sequence, row.satisfied_at.timestamp() if row.submitted else 0.0, row.id
        )
        for row in await _OLDEST_WAITING_JOBS.fetch(connection, coalescing, skipping)
    }


@dataclass(frozen=True, slots=True)
class _OfPrograms:
    """Limits of submissions to programs, or why they cannot be read; by `_own_limits` of the program."""

    limits: Mapping[str, Schedule]
    unreadable: Mapping[str, str]


def _own_limits(program: str) -> str:
    """The name under which the limits of a program are among the definitions; not a schedule's."""
    return f"program {program}"


async def _limits_of_programs(connection: Connection, programs: Sequence[str]) -> _OfPrograms:
    limits, unreadable = dict[str, Schedule](), dict[str, str]()
    for row in await _PROGRAM_SCHEDULES.fetch(connection, programs):
        name = _own_limits(row.program)
        try:
            limits[name] = limits_of_program(ProgramRef.parse(row.program), map(_schedule, row.definitions))
        except Exception as failure:  # noqa: BLE001 - a row may hold anything
            unreadable[name] = f"it cannot be decided: {describe_failure(failure)}"
    return _OfPrograms(limits, unreadable)


def _locked_program(row: _ProgramRow) -> _LockedProgram:
    try:
        return _LockedProgram(_program(row.definition, row.preferences), row.metered, row.limited)
    except Exception as failure:  # noqa: BLE001 - a row may hold anything
        return _LockedProgram(
            unreadable=f"it cannot be decided: its program cannot be read: {describe_failure(failure)}"
        )


def _definitions(schedules: Mapping[str, _ScheduleRow]) -> tuple[Mapping[str, Schedule], Mapping[str, str]]:
    """The definitions of schedules that were not deleted, and why the others of them cannot be decoded."""
    definitions, unreadable = dict[str, Schedule](), dict[str, str]()
    for name, row in schedules.items():
        if row.deleted_at is not None:
            continue
        try:
            definitions[name] = _schedule(row.definition)
        except Exception as failure:  # noqa: BLE001 - a row may hold anything
            unreadable[name] = f"it cannot be decided: its schedule cannot be read: {describe_failure(failure)}"
    return definitions, unreadable


def _due_job(row: _JobRow, schedules: Mapping[str, _ScheduleRow], definitions: Mapping[str, Schedule]) -> DueJob:
    ready = launch.decode(row.ready)
    name = _own_limits(row.program) if ready.schedule is None else str(ready.schedule)
    current = schedules.get(name)
    return DueJob(
        ready,
        definitions.get(name),
        current.generation if current else 0,
        ready.schedule is None or bool(current and current.admits),
        held_by=None
        if row.waiting is None
        else tuple(n for n, verdict in enumerate(row.waiting) if verdict["kind"] != "satisfied"),
        command=None if row.command is None else JobCommand(row.command),
        command_reason=row.command_reason or "",
        oldest_valid_generation=current.oldest_valid_generation if current else None,
        priority=current.priority_set if current else None,
        resumed_at=current.resumed_at if current else None,
    )


def _is_current(job: DueJob) -> bool:
    """Whether the job's definition is in force. If not, the job ends, whether the definition can be read or not."""
    return (
        invalidity(
            known=True,
            current=job.generation,
            enabled=job.enabled,
            generation=job.ready.generation,
            oldest_valid_generation=job.oldest_valid_generation,
        )
        is None
    )


@lru_cache(_CACHED)
def _schedule(definition: str) -> Schedule:
    """Raises:
    InvalidError: this release cannot read it.
    """
    return schedule_from_json(loads(definition, "$"))


@lru_cache(_CACHED)
def _program(definition: str, preferences: str | None) -> Program:
    """Raises:
    InvalidError: this release cannot read it.
    """
    program = program_from_json(loads(definition, "$"))
    return program if preferences is None else with_preferences(program, loads(preferences, "$"))
