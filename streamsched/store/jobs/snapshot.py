"""All data that explains a job, read from one database snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from streamsched.codec.records import launch
from streamsched.codec.schedules import deadline
from streamsched.codec.schedules.schedule import schedule_from_json
from streamsched.domain.constraints.lane import Lane, LaneName
from streamsched.domain.constraints.pool import slots_name
from streamsched.domain.constraints.process_room import ProcessKind, ProcessRoom, RoomTurn
from streamsched.domain.constraints.rate import bucket_of
from streamsched.domain.decisions.resources import Resources
from streamsched.domain.errors import NotFoundError, describe_failure
from streamsched.domain.jobs.job import JobCommand, JobState, ReadyJob, merge_satisfactions
from streamsched.domain.jobs.run import RunState
from streamsched.domain.jobs.submission import Submission
from streamsched.domain.names import ProgramRef
from streamsched.domain.quotas.quota import slots_name as quota_slots
from streamsched.domain.schedules.deadline import Deadline
from streamsched.domain.schedules.pause import PauseMode
from streamsched.domain.schedules.program_limits import limits_of_program
from streamsched.domain.schedules.schedule import Schedule
from streamsched.store.connections import Connection
from streamsched.store.jobs.coalesced import PREFETCH
from streamsched.store.jobs.job_record import JobRecord, JobRow, job_record
from streamsched.store.limits import clusters, groups, lanes, pools, process_room, rates
from streamsched.store.limits.groups import BlockingRun, HolderRow, blocking_run
from streamsched.store.runs.deadlines import DEADLINES_AHEAD, DeadlineAhead
from streamsched.store.sql import Select, queries

_SQL: Final = queries("jobs/jobs")
_ENDING: Final = queries("runs/ending")
#: Jobs of a pool's queue that are read for an explanation.
_QUEUE: Final = 1000


class HistoryLine(NamedTuple):
    """One line of a subject's history."""

    at: datetime
    subject: str
    action: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchStatus:
    """The last run of a job, with the state of its launch.

    Attributes:
        reason: of its end; of a further attempt that has not started, why it was created.
        since: when it entered its state.
        spawns: runner processes started for it.
        spawn_at: when the next one is due; None when none is.
        held_back: whether its start waits until its paused schedule changes.
        not_spawned: why the last runner process could not be started.
        ahead: how many runs were to get a runner process before it.
        room: how full the launchers are, when it waits for a process and they are full.
    """

    run: str
    attempt: int
    state: RunState
    reason: str
    since: datetime
    spawns: int = 0
    spawn_at: datetime | None = None
    held_back: bool = False
    not_spawned: str | None = None
    ahead: int = 0
    room: str | None = None
    runner: str | None = None
    heartbeat_at: datetime | None = None
    stop_requested: str | None = None


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """All data that explains a job, of one database snapshot.

    Attributes:
        holders: the program's non-terminal runs, oldest first.
        held: who holds it by a command, and why; None when it is not held.
        resources: those its schedule uses; the queue of a pool up to the job's position.
        lanes: the lanes it is in.
        slot_holders: the runs that hold slots of its groups and pools, oldest first.
        priority: of the schedule in its pool, as set online.
        resumed_at: as `DueJob.resumed_at`.
        launch: its last run.
        place: the place for a process that the job lacks, when it lacks only that; its room is among the resources.
        unreadable: why the stored schedule or satisfaction cannot be read; None when it can.
        checked_at: when a launcher last checked it.
        typical: the median duration of the program's latest completed runs.
        oldest_valid_generation: the oldest generation of the schedule whose jobs are valid; None: `generation` alone.
        deadlines: those ahead, the next first.
        pauses: the pauses, disablings, resumptions and enablings of its schedule since the satisfaction.
    """

    job: JobRecord
    ready: ReadyJob
    schedule: Schedule | None
    generation: int
    enabled: bool
    holders: tuple[BlockingRun, ...]
    last_completed_at: datetime | None
    history: tuple[HistoryLine, ...]
    held: str | None = None
    resources: Resources = field(default_factory=Resources)
    lanes: Mapping[LaneName, Lane] = field(default_factory=dict)
    slot_holders: tuple[BlockingRun, ...] = ()
    priority: int | None = None
    resumed_at: datetime | None = None
    launch: LaunchStatus | None = None
    place: RoomTurn | None = None
    unreadable: str | None = None
    checked_at: datetime | None = None
    typical: timedelta | None = None
    oldest_valid_generation: int | None = None
    deadlines: tuple[tuple[Deadline, datetime], ...] = ()
    pauses: tuple[HistoryLine, ...] = ()


class _Standing(NamedTuple):
    definition: Any
    generation: int
    oldest_valid_generation: int
    admits: bool
    deleted_at: datetime | None
    priority_set: int | None
    resumed_at: datetime | None


class _Ready(NamedTuple):
    ready: str


class _Pause(NamedTuple):
    at: datetime
    subject: str
    action: str
    reason: str
    until: str | None
    mode: str | None


class _LastRun(NamedTuple):
    id: str
    attempt: int
    state: str
    reason: str
    since: datetime
    spawns: int
    spawn_at: datetime | None
    held_back: bool
    runner: str | None
    heartbeat_at: datetime | None
    stop_requested: str | None
    ahead: int


_GET: Final = Select(_SQL["get"], JobRow)
_STANDING: Final = Select(_SQL["standing"], _Standing)
_READY: Final = Select(_SQL["ready"], _Ready)
_HOLDERS: Final = Select(_SQL["holders"], HolderRow)
_HISTORY: Final = Select(_SQL["history"], HistoryLine)
_PAUSES: Final = Select(_SQL["pauses"], _Pause)
_LAUNCH: Final = Select(_SQL["launch"], _LastRun)


async def read_snapshot(connection: Connection, job: str) -> JobSnapshot:
    """Reads it in the transaction of the connection, of one database snapshot.

    Raises:
        NotFoundError: no such job.
    """
    row = await _GET.fetchrow(connection, job)
    if row is None:
        raise NotFoundError("job", job)
    record = job_record(row)
    current = await _STANDING.fetchrow(connection, row.schedule)
    known = current is not None and current.deleted_at is None
    waiting = not record.runs  # admission merges the coalesced satisfactions into the job's own
    schedule, unreadable = _read_schedule(current.definition) if current is not None and known else (None, None)
    if record.schedule is None and record.program is not None:
        found = await connection.fetch(_ENDING["schedules"], str(record.program))
        schedule, unreadable = _read_limits(record.program, [each["definition"] for each in found])
    readies = list[ReadyJob]()
    async for each in _READY.rows(connection, job, waiting, prefetch=PREFETCH):
        try:
            readies.append(launch.decode(each.ready))
        except Exception as failure:  # noqa: BLE001 - a row may hold anything; the rest is explained
            unreadable = unreadable or f"what satisfied it cannot be read: {describe_failure(failure)}"
    readies = readies or [
        ReadyJob(
            *(record.schedule, record.generation, record.sequence, record.satisfied_at),
            contributions=(),
            submission=Submission(job) if record.submission is not None else None,
        )
    ]
    names = [group.name for group in schedule.groups] if schedule is not None else []
    pool_names = [schedule.pool.name] if schedule is not None and schedule.pool is not None else []
    names += [slots_name(pool) for pool in pool_names]
    names += [quota_slots(schedule.program.namespace)] if schedule is not None else []
    slots = await groups.occupancy(connection, names)
    rated = (
        [bucket_of(rate, schedule.program, readies[0].schedule_key) for rate in schedule.rates]
        if schedule is not None
        else []
    )
    gates = await clusters.read_gates(connection, schedule.loads if schedule is not None else ())
    pool_queues = await pools.queues_of(connection, pool_names, limit=_QUEUE)
    buckets = await rates.read_buckets(connection, rated)
    own_lanes = await lanes.read_lanes(connection, schedule, readies[0])
    slot_holders = await groups.holders(connection, names)
    holders = await _HOLDERS.fetch(connection, row.program)
    last = await connection.fetchval(_SQL["last_completed"], row.program)
    history = await _HISTORY.fetch(connection, [job, *record.runs])
    pauses = await _PAUSES.fetch(connection, row.schedule, record.satisfied_at, record.ended_at)
    launch_row = await _LAUNCH.fetchrow(connection, job)
    place, rooms, full = await _room(connection, record, launch_row)
    watched = await DEADLINES_AHEAD.fetch(connection, job)
    typical = await connection.fetchval(_SQL["typical"], row.program)
    return JobSnapshot(
        job=record,
        ready=merge_satisfactions(readies[0], readies[1:]),
        schedule=schedule,
        generation=current.generation if current is not None else 0,
        enabled=record.schedule is None or bool(current is not None and current.admits),
        oldest_valid_generation=current.oldest_valid_generation if current is not None else None,
        holders=tuple(map(blocking_run, holders)),
        last_completed_at=last,
        history=tuple(history),
        pauses=tuple(_pause_lines(pauses, record.satisfied_at)),
        held=row.command_reason if row.command == JobCommand.HOLD else None,
        resources=Resources(slots, pool_queues, buckets, gates, rooms),
        lanes=own_lanes,
        priority=current.priority_set if current is not None else None,
        resumed_at=current.resumed_at if current is not None else None,
        slot_holders=tuple(slot_holders),
        launch=None if launch_row is None else _launch_status(launch_row, history, full),
        place=place,
        unreadable=unreadable,
        checked_at=row.checked_at,
        deadlines=tuple(_deadlines(watched)),
        typical=None if typical is None else timedelta(seconds=float(typical)),
    )


async def _room(
    connection: Connection, job: JobRecord, run: _LastRun | None
) -> tuple[RoomTurn | None, Mapping[ProcessKind, ProcessRoom], str | None]:
    """The place for which a waiting job waits, with its room; or how full the room is for which its last run waits."""
    if job.state is JobState.PENDING_CONSTRAINT:
        place = await process_room.place_of_job(connection, job.id)
        return place, {} if place is None else {place.kind: await process_room.read_room(connection, place.kind)}, None
    kind = None if run is None else await process_room.kind_of_pending(connection, run.id)
    if kind is None:
        return None, {}, None
    room = await process_room.read_room(connection, kind)
    return None, {}, str(room) if room.launchers and room.processes >= room.places else None


def _read_schedule(definition: Any) -> tuple[Schedule | None, str | None]:
    """A schedule's definition, or what is wrong with it."""
    try:
        return schedule_from_json(definition), None
    except Exception as failure:  # noqa: BLE001 - a row may hold anything
        return None, f"its schedule cannot be read: {describe_failure(failure)}"


def _read_limits(program: ProgramRef, definitions: Sequence[Any]) -> tuple[Schedule | None, str | None]:
    """The limits of submissions to a program, or what is wrong with them."""
    try:
        return limits_of_program(program, map(schedule_from_json, definitions)), None
    except Exception as failure:  # noqa: BLE001 - a row may hold anything
        return None, f"the limits of its program cannot be read: {describe_failure(failure)}"


def _pause_lines(rows: Sequence[_Pause], satisfied_at: datetime) -> Iterator[HistoryLine]:
    """The pauses in force at any time since the satisfaction."""
    for row in rows:
        ends = "" if row.until is None else f" until {row.until}"
        if row.mode in (PauseMode.DRAIN, PauseMode.BACKLOG):
            ends += f" ({PauseMode(row.mode).text})"
        if row.at >= satisfied_at or row.action in ("schedule.paused", "schedule.disabled"):
            yield HistoryLine(row.at, row.subject, row.action, f"{row.reason}{ends}".strip())


def _deadlines(watched: Sequence[DeadlineAhead]) -> Iterator[tuple[Deadline, datetime]]:
    """The deadlines that can be decoded."""
    for row in watched:
        found = None
        with suppress(Exception):
            found = deadline.from_json(row.said)
        if found is not None:
            yield found, row.due_at


def _launch_status(row: _LastRun, history: Sequence[HistoryLine], room: str | None) -> LaunchStatus:
    of_run = [line for line in history if line.subject == row.id]
    created = next((line.reason for line in of_run if line.action == "run.created"), "")
    failed = of_run[-1].reason if of_run and of_run[-1].action == "run.spawn_failed" else None
    return LaunchStatus(
        run=row.id,
        attempt=row.attempt,
        state=RunState(row.state),
        reason=row.reason or created,
        since=row.since,
        spawns=row.spawns,
        spawn_at=row.spawn_at,
        held_back=row.held_back,
        not_spawned=failed,
        ahead=row.ahead,
        room=room,
        runner=row.runner,
        heartbeat_at=row.heartbeat_at,
        stop_requested=row.stop_requested,
    )
