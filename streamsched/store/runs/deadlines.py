"""Deadlines of jobs and runs: they are stored at a job's first decision or a run's claim, and
settled in one transaction. Locks: programs by id, then the deadline, the job, its runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import orjson
import structlog

from streamsched.codec import event as event_codec
from streamsched.codec.schedules import deadline as codec
from streamsched.domain.decisions.decision import Admit, Decision, DecisionInput, Wait
from streamsched.domain.errors import SYSTEMIC, describe_failure
from streamsched.domain.jobs.job import JobCommand, JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.quarantine import Quarantine
from streamsched.domain.schedules.deadline import (
    Deadline,
    DeadlineKind,
    DeadlineMiss,
    JobTimes,
    OnMiss,
    RunEnding,
    describe_miss,
)
from streamsched.domain.schedules.retry import OVERDUE
from streamsched.domain.schedules.schedule import Schedule
from streamsched.log.topics import public_topic
from streamsched.ports.outbox import OutboxRecord
from streamsched.store.catalog import outbox
from streamsched.store.catalog.history import record
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.runs import manual_runs
from streamsched.store.runs.ending import cancel_pending, lock_run
from streamsched.store.runs.rows import SQL as RUNS
from streamsched.store.sql import Select, queries

log = structlog.get_logger()

_SQL: Final = queries("runs/deadlines")
_JOBS: Final = queries("jobs/jobs")


class _LockedJob(NamedTuple):
    state: str
    ended_at: datetime | None


class _StoredDeadline(NamedTuple):
    due_at: datetime
    said: Any
    schedule: str
    program: str


class _JobRun(NamedTuple):
    id: str
    state: str
    ended_at: datetime | None


class DeadlineAhead(NamedTuple):
    """A deadline of a job, or of its run, that was not evaluated yet. `said`: as `codec.schedules.deadline` has it."""

    run: str
    due_at: datetime
    said: Any


class WatchedDeadline(NamedTuple):
    """A deadline by its job, its run (or "") and its index in the schedule."""

    job: str
    run: str
    place: int


_LOCK_JOB: Final = Select(_SQL["lock_job"], _LockedJob)
_DUE: Final = Select(_SQL["due"], WatchedDeadline)
_GET: Final = Select(_SQL["get"], _StoredDeadline)
_RUNS: Final = Select(_SQL["runs"], _JobRun)
DEADLINES_AHEAD: Final = Select(_SQL["of_job"], DeadlineAhead)

_PREFIX: Final = "deadline."

_Row = tuple[str, str, int, datetime, str]


async def watch_jobs(
    connection: Connection, decision_input: DecisionInput, decisions: Sequence[Decision], now: datetime
) -> None:
    """Stores the deadlines of jobs that wait or are admitted by their first decision; the program is locked."""
    active = {decision.job for decision in decisions if isinstance(decision, Admit | Wait)}
    rows = [
        row
        for due_job in decision_input.due_jobs
        if due_job.schedule is not None
        and due_job.schedule.deadlines
        and due_job.held_by is None
        and due_job.job in active
        for row in _rows(due_job.schedule, due_job.job, "", due_job.ready.satisfied_at)
    ]
    await _watch(connection, rows, now)


async def watch_run(
    connection: Connection, schedule: Schedule | None, job: str | None, run: str, *, now: datetime
) -> None:
    """Stores the deadlines on the duration of a run, at its claim."""
    if schedule is not None and job is not None:
        await _watch(connection, _rows(schedule, job, run, now), now)


class DeadlineStore:
    """Stored deadlines. Any number of instances may use it. All raise `UnavailableError` when PostgreSQL is
    unavailable.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._failed: Quarantine[WatchedDeadline] = Quarantine()
        self._held: list[WatchedDeadline] = []

    async def list_due(self, now: datetime, *, limit: int) -> Sequence[WatchedDeadline]:
        """The due deadlines, those due longest first; not claimed."""
        self._held = self._failed.held_keys(now)
        with translate_errors():
            return await _DUE.fetch(self._pool, now, limit, *self._held_columns())

    async def next_due_at(self) -> datetime | None:
        """When the next deadline is due."""
        with translate_errors():
            return await self._pool.fetchval(_SQL["next_due"], *self._held_columns())

    async def settle(self, watched: WatchedDeadline, *, now: datetime) -> DeadlineMiss | None:
        """Evaluates a due deadline and removes it. If it was missed, history, event and action are part of the same
        transaction, so each happens once. None: it was met, or another instance has locked it.
        """
        try:
            miss = await self._settle(watched, now)
        except SYSTEMIC:
            raise
        except Exception as failure:  # noqa: BLE001 - a row may hold anything; the other deadlines are settled
            retry_at = self._failed.add(watched, now)
            self._held.append(watched)
            log.error("deadline.failed", job=watched.job, run=watched.run, reason=describe_failure(failure))
            due = f"{retry_at:%Y-%m-%d %H:%M:%S}Z"
            reason = f"a deadline cannot be judged: {describe_failure(failure)}; the next attempt is at {due}"
            with translate_errors():
                await self._pool.execute(_SQL["failed"], now, watched.job, reason)
            return None
        self._failed.release(watched)
        return miss

    def _held_columns(self) -> list[list[object]]:
        return [list(column) for column in zip(*self._held, strict=True)] or [[], [], []]

    async def _settle(self, watched: WatchedDeadline, now: datetime) -> DeadlineMiss | None:
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await _GET.fetchrow(connection, *watched)
                if row is None:
                    return None
                deadline = codec.from_json(row.said)
                schedule, program = ScheduleRef.parse(row.schedule), ProgramRef.parse(row.program)
                program_to_start = _program_to_start(deadline, schedule)
                definitions = {
                    ref: await connection.fetchval(RUNS["lock_program"], str(ref))
                    for ref in sorted({program, *([] if program_to_start is None else [program_to_start])})
                }
                if await connection.fetchrow(_SQL["lock"], *watched) is None:
                    return None
                shortfall = describe_miss(deadline, row.due_at, await _job_times(connection, watched))
                await connection.execute(_SQL["settled"], *watched)
                if shortfall is None:
                    return None
                run = watched.run or None
                miss = DeadlineMiss(schedule, program, watched.job, run, watched.place, deadline, row.due_at, shortfall)
                await _record_miss(connection, miss, now)
                if deadline.then is OnMiss.CANCEL:
                    await _cancel(connection, miss, now)
                if program_to_start is not None:
                    await _start(connection, program_to_start, definitions[program_to_start], miss, now)
        return miss


def _rows(schedule: Schedule, job: str, run: str, since: datetime) -> list[_Row]:
    """The deadlines of the job, or those of the run when one is given."""
    return [
        (job, run, place, each.due_time(since), orjson.dumps(codec.to_json(each)).decode())
        for place, each in enumerate(schedule.deadlines)
        if (each.promise is DeadlineKind.DURATION) == bool(run)
    ]


async def _watch(connection: Connection, rows: Sequence[_Row], now: datetime) -> None:
    if rows:
        await connection.execute(_SQL["watch"], now, *(list(column) for column in zip(*rows, strict=True)))


def _program_to_start(deadline: Deadline, schedule: ScheduleRef) -> ProgramRef | None:
    return None if deadline.program is None else ProgramRef(schedule.namespace, schedule.app, deadline.program)


async def _job_times(connection: Connection, watched: WatchedDeadline) -> JobTimes:
    job = await _LOCK_JOB.fetch_one(connection, watched.job)
    runs = await _RUNS.fetch(connection, watched.job, watched.run)
    launched = job.state == JobState.LAUNCHED
    return JobTimes(
        job.ended_at if launched else None,
        None if launched else job.ended_at,
        tuple(RunEnding(RunState(run.state), run.ended_at) for run in runs),
    )


async def _record_miss(connection: Connection, miss: DeadlineMiss, now: datetime) -> None:
    """Records the miss in the job and the history, and publishes its event."""
    await connection.execute(_SQL["note"], miss.job, miss.reason)
    await record(connection, "job", miss.job, "job.deadline_missed", miss.reason, at=now)
    event = miss.event(now)
    await outbox.write(connection, [OutboxRecord(public_topic(event.fact), event.key, event_codec.encode(event))])


async def _cancel(connection: Connection, miss: DeadlineMiss, now: datetime) -> None:
    """A waiting job gets a cancel command and is checked at once. PENDING runs end here; a stop is requested of the
    others, unless one was requested for another reason than the run's maximum duration.
    """
    await connection.execute(
        _JOBS["tell"], miss.job, JobCommand.CANCEL, miss.reason, now, f"job.{JobCommand.CANCEL}_ordered"
    )
    stop = OVERDUE if miss.run is not None else miss.reason
    for run in await _RUNS.fetch(connection, miss.job, miss.run or ""):
        if RunState(run.state).is_terminal:
            continue
        row = await lock_run(connection, run.id)
        if row is None or (current_stop := row.stop_requested) not in (None, OVERDUE) or current_stop == stop:
            continue
        if row.state == RunState.PENDING:
            await cancel_pending(connection, row, stop, at=now)
        elif await connection.fetchval(RUNS["request_stop"], run.id, stop, False) is not None:
            await record(connection, "run", run.id, "run.stop_requested", stop, at=now)


async def _start(
    connection: Connection, program: ProgramRef, definition: Any | None, miss: DeadlineMiss, now: datetime
) -> None:
    """Starts the deadline's program, with the facts of the miss as arguments."""
    if definition is None:
        why = f"{program} is not started: it was removed"
        await record(connection, "job", miss.job, "job.deadline_unanswered", why, at=now)
        return
    name, why = f"missed-{miss.subject}-{miss.place}", f"{miss.subject} missed its deadline: {miss.reason}"
    run = await manual_runs.answer(connection, program, definition, name, miss.facts, prefix=_PREFIX, why=why, now=now)
    await record(connection, "job", miss.job, "job.deadline_answered", f"run {run}", at=now)
