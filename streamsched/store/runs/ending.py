"""Steps shared by all transactions that end a run: the state, the status event, the history, and the wake-ups."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from streamsched.codec import event as event_codec
from streamsched.codec.events import ancestors as ancestors_codec
from streamsched.codec.schedules.schedule import program_from_json
from streamsched.domain.decisions.decision import invalidity
from streamsched.domain.errors import DecodeError, describe_failure
from streamsched.domain.events.ancestors import NO_ANCESTORS, Ancestors
from streamsched.domain.jobs.failure import Failure
from streamsched.domain.jobs.job import JOB_STATES, JobFact, JobState
from streamsched.domain.jobs.run import RUN_STATES, RunFact, RunState, status_event
from streamsched.domain.jobs.submission import first_job
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.schedule import Program
from streamsched.store.catalog.history import record
from streamsched.store.connections import Connection
from streamsched.store.limits import groups, lanes
from streamsched.store.runs import failing, failure_streaks
from streamsched.store.runs.rows import LOCK_SCHEDULE, RUN, SQL, LiveRun, LockedSchedule, StoredRun

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
log = structlog.get_logger()


async def lock_run(connection: Connection, run: str) -> StoredRun | None:
    """Locks the run's program and the run, in this order, and returns the run; None when there is no such run.
    The program's lock excludes decisions about the program until the end of the run is stored and waiting jobs woken.
    """
    row = await RUN.fetchrow(connection, run)
    if row is None:
        return None
    await connection.execute(SQL["lock_program"], row.program)
    await connection.execute(SQL["lock_run"], run)
    return await RUN.fetchrow(connection, run)


async def end(
    connection: Connection,
    row: StoredRun,
    fact: RunFact,
    reason: str,
    *,
    at: datetime,
    exit_code: int | None = None,
    announced: bool = True,
    log_tail: str = "",
    failure: Failure | None = None,
) -> RunState:
    """Stores the end of a locked run, announces it, frees its slots and wakes the program's waiting jobs; returns the
    state. An end followed by another attempt is not `announced` and keeps its slots: the execution continues.

    Raises:
        IllegalTransitionError: the run's state forbids it.
    """
    before = RunState(row.state)
    state = RUN_STATES.advance(before, fact)
    await connection.execute(SQL["end_run"], row.id, before, state, reason, at, exit_code, failure)
    error = None if state is RunState.COMPLETED else reason
    if announced:
        await announce(connection, row, state, at=at, error=error, log_tail=log_tail)
    detail = None
    if state is not RunState.COMPLETED:
        detail = await failing.note_failure(connection, row, state, at=at, last=announced, log_tail=log_tail)
    await record(connection, "run", row.id, f"run.{state.lower()}", reason, at=at, detail=detail)
    if state is RunState.COMPLETED:
        await failing.note_recovery(connection, [row], at)
    await connection.execute(SQL["wake"], [row.program])
    if announced:
        await lanes.wake_after(connection, [row.id])
    if announced and state is not RunState.COMPLETED:
        await failure_streaks.record_failure(connection, row, reason, at=at)
    if announced:
        await groups.free_slots(connection, row.id)
    return state


async def announce(
    connection: Connection,
    row: StoredRun,
    state: RunState,
    *,
    at: datetime,
    error: str | None = None,
    log_tail: str = "",
) -> None:
    """Writes the status event of the state to the outbox, if the state has one. That of a muted run is only written to
    the history.
    """
    if row.muted:
        await record(connection, "run", row.id, "run.muted", f"no schedule is given its status {state}", at=at)
        return
    program = ProgramRef.parse(row.program)
    tail = "" if state is RunState.COMPLETED else log_tail
    event = status_event(
        row.id,
        program,
        state,
        at=at,
        arguments=row.arguments,
        error=error,
        log_tail=tail,
        ancestors=ancestors_of_run(row, program),
    )
    if event is not None:
        await connection.execute(SQL["announce"], event.key, event_codec.encode(event))


def ancestors_of_run(row: StoredRun | LiveRun, program: ProgramRef) -> Ancestors:
    """What the events of a run descend from: its own job, and what started that. Those that cannot be read are left
    out: the run ends anyway.
    """
    try:
        before = ancestors_codec.from_json(row.ancestors, "$")
    except DecodeError as failed:
        log.error("ancestors.unreadable", run=row.id, reason=describe_failure(failed))
        before = NO_ANCESTORS
    job = row.job
    if job is None or (first := first_job(job)) == job:
        return before.extend_by_job(program, job or row.id)
    return before.extend_by_job(program, first, (row.job_created_at - _EPOCH) // _MILLISECOND)


async def move_job(connection: Connection, row: StoredRun, fact: JobFact, reason: str, *, at: datetime) -> None:
    """Applies `fact` to the job of the run if it is PENDING_LAUNCH; a launched job stays LAUNCHED."""
    if row.job is None or row.job_state != JobState.PENDING_LAUNCH:
        return
    state = JOB_STATES.advance(JobState.PENDING_LAUNCH, fact)
    if await connection.fetchval(SQL["job_moves"], row.job, JobState.PENDING_LAUNCH, state, reason, at) is not None:
        await record(connection, "job", row.job, f"job.{state.lower()}", reason, at=at)


async def cancel_pending(connection: Connection, row: StoredRun, reason: str, *, at: datetime) -> None:
    """Ends a locked PENDING run that is to stop: KILLED, its job LAUNCH_FAILED."""
    await move_job(connection, row, JobFact.LAUNCH_FAILED, reason, at=at)
    await end(connection, row, RunFact.KILLED, reason, at=at)


def program_of(row: StoredRun) -> Program | None:
    """The program of a run; None when it cannot be read: the run ends anyway."""
    try:
        return program_from_json(row.executable)
    except Exception as failed:  # noqa: BLE001 - a row may hold anything
        log.error("program.unreadable", run=row.id, reason=describe_failure(failed))
        return None


async def current_schedule(connection: Connection, row: StoredRun) -> tuple[str | None, LockedSchedule | None]:
    """Why the run's schedule no longer permits it (None: it does, or the run has none), and the schedule, locked
    against changes until the transaction ends.
    """
    if row.schedule is None:
        return None, None
    schedule = await LOCK_SCHEDULE.fetchrow(connection, row.schedule)
    why = invalidity(
        known=schedule is not None and schedule.deleted_at is None,
        current=schedule.generation if schedule else 0,
        enabled=bool(schedule and schedule.admits),
        generation=row.generation,
        oldest_valid_generation=schedule.oldest_valid_generation if schedule else None,
    )
    if why is None and schedule is not None and schedule.generation != row.generation:
        state = await connection.fetchval(SQL["job_state"], row.job)
        if state == JobState.OBSOLETE:  # the change kept jobs of this generation, but this one ended
            why = "its job ended before it began"
    return why, schedule
