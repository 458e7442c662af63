"""`ports.jobs.JobStore` on PostgreSQL: jobs as the API, CLI and UI read and command them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import asyncpg

from streamsched.codec.records import launch
from streamsched.codec.schedules import deadline
from streamsched.codec.schedules.schedule import stored_schedule_from_json
from streamsched.codec.views.trace import trace_of
from streamsched.domain.constraints.pool import slots_name
from streamsched.domain.constraints.process_room import ProcessKind, ProcessRoom, RoomTurn
from streamsched.domain.constraints.rate import bucket_of
from streamsched.domain.decisions.names_in_reasons import is_own, own_names_only
from streamsched.domain.decisions.resources import Resources
from streamsched.domain.errors import ConflictError, NotFoundError, described
from streamsched.domain.history import HistoryEntry
from streamsched.domain.jobs.job import JobCommand, JobState, ReadyJob, merged
from streamsched.domain.jobs.run import RunState
from streamsched.domain.jobs.submission import Submission
from streamsched.domain.limits import as_stored
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.quotas.quota import slots_name as quota_slots
from streamsched.domain.schedules.deadline import Deadline
from streamsched.domain.schedules.pause import PauseMode
from streamsched.domain.schedules.program_limits import limits_of_program
from streamsched.domain.schedules.schedule import Schedule
from streamsched.ports.jobs import (
    BlockingRun,
    HistoryLine,
    JobRecord,
    JobSnapshot,
    LaunchStatus,
    RunOutcome,
    ScheduleSpan,
    VerdictCount,
)
from streamsched.store.connections import NEWEST, Connection, translated
from streamsched.store.jobs.coalesced import PREFETCH
from streamsched.store.limits import clusters, groups, lanes, pools, process_room, rates
from streamsched.store.runs.deadlines import DEADLINES_AHEAD, DeadlineAhead
from streamsched.store.sql import queries

_SQL: Final = queries("jobs/jobs")
_ENDING: Final = queries("runs/ending")
#: Jobs of a pool's queue that are read for an explanation.
_QUEUE: Final = 1000


class PostgresJobStore:
    """See `ports.jobs.JobStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def get(self, job: str) -> JobRecord:
        with translated():
            row = await self._pool.fetchrow(_SQL["get"], job)
        if row is None:
            raise NotFoundError("job", job)
        return (await self._with_outcomes([_record(row)]))[0]

    async def recent(
        self,
        *,
        schedule: ScheduleRef | None = None,
        app: AppRef | None = None,
        namespace: str | None = None,
        states: Sequence[JobState] = (),
        limit: int = 100,
        before: tuple[datetime, str] | None = None,
    ) -> Sequence[JobRecord]:
        filters = (schedule and str(schedule), list(states), limit, str(app) if app else namespace)
        with translated():
            rows = await self._pool.fetch(_SQL["recent"], *filters, *(before or NEWEST))
        return await self._with_outcomes([_record(row) for row in rows])

    async def _with_outcomes(self, jobs: Sequence[JobRecord]) -> list[JobRecord]:
        """The jobs with the outcomes of their last runs."""
        last = [job.runs[-1] for job in jobs if job.runs]
        with translated():
            rows = await self._pool.fetch(_SQL["outcomes"], last) if last else []
        found = {
            row["id"]: RunOutcome(RunState(row["state"]), row["reason"], row["started_at"], row["ended_at"])
            for row in rows
        }
        return [replace(job, outcome=found.get(job.runs[-1])) if job.runs else job for job in jobs]

    async def command(self, job: str, command: JobCommand | None, reason: str, *, now: datetime) -> JobRecord:
        action = f"job.{command or 'release'}_ordered"
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await connection.fetchrow(_SQL["get"], job)
                if row is None:
                    raise NotFoundError("job", job)
                await connection.execute(_SQL["lock_program"], row["program"])
                if await connection.fetchrow(_SQL["tell"], job, command, reason, now, action) is None:
                    raise ConflictError(f"job '{job}' waits for no constraint any more")
                return _record(await connection.fetchrow(_SQL["get"], job))

    async def span(self, schedule: ScheduleRef, *, since: datetime, until: datetime) -> ScheduleSpan:
        name = str(schedule)
        with translated():
            async with (
                self._pool.acquire() as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                jobs = await connection.fetch(_SQL["satisfied"], name, since, until)
                changes = await connection.fetch(_SQL["changes"], name, until)
                verdict_counts = await connection.fetch(_SQL["tallies"], name)
        return ScheduleSpan(
            [_record(row) for row in reversed(jobs)],
            [HistoryEntry(**row) for row in reversed(changes)],
            [VerdictCount(**row) for row in verdict_counts],
        )

    async def snapshot(self, job: str) -> JobSnapshot:
        with translated():
            async with (
                self._pool.acquire() as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                row = await connection.fetchrow(_SQL["get"], job)
                if row is None:
                    raise NotFoundError("job", job)
                record = _record(row)
                current = await connection.fetchrow(_SQL["standing"], row["schedule"])
                known = current is not None and current["deleted_at"] is None
                waiting = not record.runs  # admission merges the coalesced satisfactions into the job's own
                schedule, unreadable = _read(current["definition"]) if current is not None and known else (None, None)
                if record.schedule is None and record.program is not None:
                    found = await connection.fetch(_ENDING["schedules"], str(record.program))
                    schedule, unreadable = _limits(record.program, found)
                readies = list[ReadyJob]()
                async for each in connection.cursor(_SQL["ready"], job, waiting, prefetch=PREFETCH):
                    try:
                        readies.append(launch.decode(each["ready"].encode()))
                    except Exception as failure:  # noqa: BLE001 - a row may hold anything; the rest is explained
                        unreadable = unreadable or f"what satisfied it cannot be read: {described(failure)}"
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
                gates = await clusters.current(connection, schedule.loads if schedule is not None else ())
                pool_queues = await pools.queues_of(connection, pool_names, limit=_QUEUE)
                buckets = await rates.current(connection, rated)
                own_lanes = await lanes.current(connection, schedule, readies[0])
                slot_holders = await groups.holders(connection, names)
                holders = await connection.fetch(_SQL["holders"], row["program"])
                last = await connection.fetchval(_SQL["last_completed"], row["program"])
                history = await connection.fetch(_SQL["history"], [job, *record.runs])
                pauses = await connection.fetch(_SQL["pauses"], row["schedule"], record.satisfied_at, record.ended_at)
                launch_row = await connection.fetchrow(_SQL["launch"], job)
                place, rooms, full = await _room(connection, record, launch_row)
                watched = await DEADLINES_AHEAD.fetch(connection, job)
                typical = await connection.fetchval(_SQL["typical"], row["program"])
        own = record.id.partition(".")[0]
        return JobSnapshot(
            job=record,
            ready=merged(readies[0], readies[1:]),
            schedule=schedule,
            generation=current["generation"] if current is not None else 0,
            enabled=record.schedule is None or bool(current is not None and current["admits"]),
            oldest_valid_generation=current["oldest_valid_generation"] if current is not None else None,
            holders=tuple(_holder(each) for each in holders),
            last_completed_at=last,
            history=tuple(
                HistoryLine(each["at"], each["subject"], each["action"], own_names_only(each["reason"], own))
                for each in history
            ),
            pauses=tuple(_pauses(pauses, record.satisfied_at)),
            held=row["command_reason"] if row["command"] == JobCommand.HOLD else None,
            resources=Resources(slots, pool_queues, buckets, gates, rooms),
            lanes=own_lanes,
            priority=current["priority_set"] if current is not None else None,
            resumed_at=current["resumed_at"] if current is not None else None,
            slot_holders=tuple(_holder(each) for each in slot_holders),
            launch=None if launch_row is None else _launch(launch_row, history, full),
            place=place,
            unreadable=unreadable,
            checked_at=row["checked_at"],
            deadlines=tuple(_deadlines(watched)),
            typical=None if typical is None else timedelta(seconds=float(typical)),
        )


async def _room(
    connection: Connection, job: JobRecord, run: Any
) -> tuple[RoomTurn | None, Mapping[ProcessKind, ProcessRoom], str | None]:
    """The place for which a waiting job waits, with its room; or how full the room is for which its last run waits."""
    if job.state is JobState.PENDING_CONSTRAINT:
        place = await process_room.place_of_job(connection, job.id)
        return place, {} if place is None else {place.kind: await process_room.current(connection, place.kind)}, None
    kind = None if run is None else await process_room.kind_of_pending(connection, run["id"])
    if kind is None:
        return None, {}, None
    room = await process_room.current(connection, kind)
    return None, {}, str(room) if room.launchers and room.processes >= room.places else None


def _read(definition: Any) -> tuple[Schedule | None, str | None]:
    """A schedule's definition, or what is wrong with it."""
    try:
        return stored_schedule_from_json(definition), None
    except Exception as failure:  # noqa: BLE001 - a row may hold anything
        return None, f"its schedule cannot be read: {described(failure)}"


def _limits(program: ProgramRef, rows: Sequence[Any]) -> tuple[Schedule | None, str | None]:
    """The limits of submissions to a program, or what is wrong with them."""
    try:
        return limits_of_program(program, [stored_schedule_from_json(row["definition"]) for row in rows]), None
    except Exception as failure:  # noqa: BLE001 - a row may hold anything
        return None, f"the limits of its program cannot be read: {described(failure)}"


def _pauses(rows: Sequence[Any], satisfied_at: datetime) -> Iterator[HistoryLine]:
    """The pauses in force at any time since the satisfaction."""
    for row in rows:
        ends = "" if row["until"] is None else f" until {row['until']}"
        if row["mode"] in (PauseMode.DRAIN, PauseMode.BACKLOG):
            ends += f" ({PauseMode(row['mode']).text})"
        if row["at"] >= satisfied_at or row["action"] in ("schedule.paused", "schedule.disabled"):
            yield HistoryLine(row["at"], row["subject"], row["action"], f"{row['reason']}{ends}".strip())


def _deadlines(watched: Sequence[DeadlineAhead]) -> Iterator[tuple[Deadline, datetime]]:
    """The deadlines that can be decoded."""
    for row in watched:
        found = None
        with suppress(Exception), as_stored():
            found = deadline.from_json(row.said)
        if found is not None:
            yield found, row.due_at


def _launch(row: Any, history: Sequence[Any], room: str | None) -> LaunchStatus:
    of_run = [line for line in history if line["subject"] == row["id"]]
    created = next((line["reason"] for line in of_run if line["action"] == "run.created"), "")
    failed = of_run[-1]["reason"] if of_run and of_run[-1]["action"] == "run.spawn_failed" else None
    return LaunchStatus(
        run=row["id"],
        attempt=row["attempt"],
        state=RunState(row["state"]),
        reason=row["reason"] or created,
        since=row["since"],
        spawns=row["spawns"],
        spawn_at=row["spawn_at"],
        held_back=row["held_back"],
        not_spawned=failed,
        ahead=row["ahead"],
        room=room,
        runner=row["runner"],
        heartbeat_at=row["heartbeat_at"],
        stop_requested=row["stop_requested"],
    )


def _record(row: Any) -> JobRecord:
    own = row["id"].partition(".")[0]
    return JobRecord(
        id=row["id"],
        schedule=None if row["schedule"] is None else ScheduleRef.parse(row["schedule"]),
        generation=row["generation"],
        sequence=row["sequence"],
        program=None if row["program"] is None else ProgramRef.parse(row["program"]),
        state=JobState(row["state"]),
        reason=own_names_only(row["reason"], own),
        # of a job of a backfill, `satisfied_at` is its place among waiting jobs (`ReadyJob.queued_at`)
        satisfied_at=row["satisfied_at"] if row["backfill"] is None else row["created_at"],
        created_at=row["created_at"],
        next_check_at=row["next_check_at"],
        waiting=tuple(_verdict(each, own) for each in _objects(row["waiting"])),
        joined=row["joined"],
        ended_at=row["ended_at"],
        runs=tuple(row["runs"]),
        missed=tuple(row["missed"] or ()),
        failures=row["failures"] or 0,
        submission=_submission(row) if row["submitted"] else None,
        trace=trace_of(row["id"], row["ready"], row["spans"]),
    )


def _submission(row: Any) -> Submission:
    """The submission in a job's row; only its id when the rest cannot be read."""
    try:
        return launch.submission_from_json(row["ready"]["submission"], "$.submission")
    except Exception:  # noqa: BLE001 - a row may hold anything; the others are listed
        return Submission(row["id"])


def _objects(stored: Any) -> tuple[Any, ...]:
    """The objects of a stored JSON list. Anything else in it is omitted, so a damaged row is listed with the others."""
    return tuple(each for each in stored if isinstance(each, dict)) if isinstance(stored, list) else ()


def _verdict(stored: dict[str, Any], own: str) -> dict[str, Any]:
    """The stored verdict of a constraint, with names of the job's namespace only."""
    found = dict(stored)
    if isinstance(found.get("why"), str):
        found["why"] = own_names_only(found["why"], own)
    if isinstance(found.get("what"), list):
        found["what"] = [each for each in found["what"] if isinstance(each, str) and is_own(each, own)]
    return found


def _holder(row: Any) -> BlockingRun:
    schedule = None if row["schedule"] is None else ScheduleRef.parse(row["schedule"])
    return BlockingRun(row["id"], row["state"], row["since"], schedule)
