"""Submissions and reruns: jobs that a person asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from streamsched.codec.json.scalar import loads
from streamsched.codec.records import launch
from streamsched.codec.records.descent import ancestors_of_job
from streamsched.codec.schedules.schedule import schedule_from_json
from streamsched.domain.decisions.decision import invalidity
from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.schedules.program_limits import limits_of_program
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.schedules.submission_request import (
    BulkRerunRequest,
    RerunRequest,
    SubmissionRequest,
    check_collisions,
)
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.jobs.failed_jobs import FailedJob, failed_jobs, known_reruns, reruns_of
from streamsched.store.sql import Select, fetch_value, queries

_SQL: Final = queries("jobs/submissions")


class _KnownJob(NamedTuple):
    program: str
    ready: str


class _FormerJob(NamedTuple):
    program: str
    ready: str
    runs: list[str]
    states: list[str]


class _ScheduleRow(NamedTuple):
    definition: Any
    program: str
    generation: int
    enabled: bool
    admits: bool
    oldest_valid_generation: int
    deleted_at: datetime | None


_KNOWN: Final = Select(_SQL["known"], _KnownJob)
_FORMER: Final = Select(_SQL["former"], _FormerJob)
_LOCK_SCHEDULE: Final = Select(_SQL["lock_schedule"], _ScheduleRow)


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """The job of a submission. `repeated`: an earlier request with the same idempotency key made it."""

    job: str
    repeated: bool


class SubmissionStore:
    """Makes jobs of requests. Idempotent by the request's token, as long as the history keeps the job."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def submit(self, request: SubmissionRequest, *, now: datetime) -> SubmittedJob:
        """Stores the job, which waits for its constraints like any other, and notifies the launchers. A schedule that
        is paused keeps it waiting.

        Raises:
            NotFoundError: no such schedule or program.
            InvalidError: the key does not fit the schedule; a program has schedules in several pools.
            ConflictError: the schedule is disabled, or the token belongs to another request.
            UnavailableError: PostgreSQL is unavailable; a repeat finds what was stored.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                if await _is_known(connection, request):
                    return SubmittedJob(request.job, repeated=True)
                match request.owner:
                    case ScheduleRef():
                        current = _check_accepting(request.owner, await current_schedule(connection, request.owner))
                        ready = request.satisfaction(
                            current.schedule, generation=current.generation, sequence=current.sequence, now=now
                        )
                    case ProgramRef():
                        current = await _program(connection, request.owner)
                        ready = request.satisfaction(None, generation=0, sequence=0, now=now)
                made = await _insert(connection, ready, current, now)
                if not made:  # a repeat was faster
                    await _is_known(connection, request)
                return SubmittedJob(request.job, repeated=not made)

    async def rerun(self, request: RerunRequest, *, now: datetime) -> SubmittedJob:
        """Stores a job with the events, key and logical time of an earlier one, as `submit`; it waits by itself. Both
        jobs have it in their history.

        Raises:
            NotFoundError: no such job or run, or its schedule or program was removed.
            InvalidError: the token is empty or too long.
            ConflictError: the job has had no run, or the run has not ended; the schedule is disabled; the token belongs
                to another request.
            UnavailableError: PostgreSQL is unavailable; a repeat finds what was stored.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await _FORMER.fetchrow(connection, request.job)
                if row is None:
                    raise NotFoundError("job", request.job)
                run, attempt = _repeated_run(row, request)
                former = launch.decode(row.ready)
                first = request.satisfaction(former, run, attempt, generation=0, sequence=0, now=now)
                if await _is_known_rerun(connection, first):
                    return SubmittedJob(first.id, repeated=True)
                if former.schedule is None:
                    current = await _program(connection, ProgramRef.parse(row.program))
                else:
                    current = _check_accepting(former.schedule, await current_schedule(connection, former.schedule))
                    check_collisions(request.arguments, current.schedule)
                ready = replace(first, generation=current.generation, sequence=current.sequence)
                made = await _insert(connection, ready, current, now)
                if not made:  # a repeat was faster
                    await _is_known_rerun(connection, first)
                return SubmittedJob(ready.id, repeated=not made)

    async def list_failed(self, request: BulkRerunRequest, *, now: datetime) -> Sequence[FailedJob]:
        """The jobs that `rerun_failed` would repeat, oldest first.

        Raises:
            NotFoundError: no such schedule.
            InvalidError: there are more than `MOST_RERUNS`, or too many jobs to search.
            ConflictError: the schedule is disabled or draining.
            UnavailableError: PostgreSQL is unavailable.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                _check_accepting(request.schedule, await current_schedule(connection, request.schedule))
                return await failed_jobs(connection, request, now)

    async def rerun_failed(self, request: BulkRerunRequest, *, now: datetime) -> Sequence[SubmittedJob]:
        """Repeats them, as `rerun`, all or none, oldest first.

        Raises:
            NotFoundError, InvalidError, ConflictError, UnavailableError: as `list_failed`; nothing was stored.
            ConflictError: also when the token belongs to another request.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                current = _check_accepting(request.schedule, await current_schedule(connection, request.schedule))
                check_collisions(request.arguments, current.schedule)
                known = await known_reruns(connection, request, now)
                for ready in known:
                    await _is_known_rerun(connection, ready)
                if known:
                    return [SubmittedJob(ready.id, repeated=True) for ready in known]
                readies = [
                    replace(ready, generation=current.generation, sequence=current.sequence)
                    for ready in await reruns_of(connection, request, await failed_jobs(connection, request, now), now)
                ]
                made = await insert(connection, [(ready, current.program) for ready in readies], now)
                if made < len(readies):
                    raise ConflictError("another request reran some of these jobs at the same moment; repeat this one")
                return [SubmittedJob(ready.id, repeated=False) for ready in readies]


@dataclass(frozen=True, slots=True)
class CurrentOwner:
    """The schedule or program that is to run, as it is now.

    Attributes:
        schedule: its definition, or the limits of a program.
        program: its program.
        generation, sequence: of the schedule; 0 for a program.
        pool: of a program; that of a schedule is in its row.
        draining: of a schedule: what waits may run, and it takes no new jobs.
    """

    schedule: Schedule
    program: str
    generation: int = 0
    sequence: int = 0
    pool: str | None = None
    draining: bool = False


async def _is_known(connection: Connection, request: SubmissionRequest) -> bool:
    """Whether an earlier request with this token made the job.

    Raises:
        ConflictError: it was a different request.
    """
    row = await _KNOWN.fetchrow(connection, request.job)
    if row is None:
        return False
    ready = launch.decode(row.ready)
    owner = ProgramRef.parse(row.program) if ready.schedule is None else ready.schedule
    found = ready.submission
    same = found is not None and (dict(found.arguments), dict(found.columns)) == (
        dict(request.arguments),
        dict(request.columns),
    )
    if owner != request.owner or not same:
        raise ConflictError(f"the idempotency key belongs to another request, which made job '{request.job}'")
    return True


async def _is_known_rerun(connection: Connection, rerun: ReadyJob) -> bool:
    """Whether an earlier request made this rerun.

    Raises:
        ConflictError: it was a different request.
    """
    row = await _KNOWN.fetchrow(connection, rerun.id)
    if row is None:
        return False
    found = launch.decode(row.ready).submission
    asked = rerun.submission
    assert asked is not None
    if found is None or (found.rerun, found.arguments, found.muted) != (asked.rerun, asked.arguments, asked.muted):
        raise ConflictError(
            f"job '{rerun.id}' is a rerun of it with other arguments or another run; for one more, send an idempotency "
            "key, or rerun that job"
        )
    return True


def _repeated_run(row: _FormerJob, request: RerunRequest) -> tuple[str, int]:
    """The run to repeat, and the number of its attempt.

    Raises:
        NotFoundError: the job has no such run.
        ConflictError: it has had no run, or its last one has not ended.
    """
    runs, states = row.runs, row.states
    if not runs:
        raise ConflictError(f"job '{request.job}' has had no run, so there is nothing to repeat")
    run = runs[-1] if request.run is None else request.run
    if run not in runs:
        raise NotFoundError("run", run)
    if states and not RunState(states[-1]).is_terminal:
        raise ConflictError(f"run '{runs[-1]}' is {states[-1]}; a job is repeated when its last run has ended")
    return run, runs.index(run) + 1


async def current_schedule(connection: Connection, ref: ScheduleRef) -> CurrentOwner:
    """The schedule as it is now, locked against changes until the transaction ends.

    Raises:
        NotFoundError: there is none.
        ConflictError: it is disabled.
    """
    row = await _LOCK_SCHEDULE.fetchrow(connection, str(ref))
    if row is None or row.deleted_at is not None:
        raise NotFoundError("schedule", str(ref))
    refused = invalidity(
        known=True,
        current=row.generation,
        enabled=row.enabled,
        generation=row.generation,
        oldest_valid_generation=row.oldest_valid_generation,
    )
    if refused is not None:
        raise ConflictError(f"schedule '{ref}' is disabled; enable it, or start its program '{row.program}' alone")
    sequence = await fetch_value(connection, _SQL["latest_number"], int, str(ref), row.generation)
    schedule = schedule_from_json(row.definition)
    draining = row.admits and not row.enabled
    return CurrentOwner(schedule, row.program, row.generation, sequence, draining=draining)


def _check_accepting(ref: ScheduleRef, current: CurrentOwner) -> CurrentOwner:
    """Raises:
    ConflictError: it is draining.
    """
    if current.draining:
        raise ConflictError(
            f"schedule '{ref}' is draining, so it takes no new jobs; resume it, or start its program "
            f"'{current.program}' alone"
        )
    return current


async def _program(connection: Connection, ref: ProgramRef) -> CurrentOwner:
    """Raises:
    NotFoundError: there is no such program.
    InvalidError: its schedules are in several pools.
    """
    schedules = await connection.fetchval(_SQL["program"], str(ref))
    if schedules is None:
        raise NotFoundError("program", str(ref))
    limits = limits_of_program(ref, [schedule_from_json(loads(text, "$")) for text in schedules])
    return CurrentOwner(limits, str(ref), pool=None if limits.pool is None else limits.pool.name)


async def insert(
    connection: Connection, jobs: Iterable[tuple[ReadyJob, str]], now: datetime, *, pool: str | None = None
) -> int:
    """Stores the jobs of submissions, each with its program; those that exist stay as they are. Returns how many are
    new. `pool`: of programs without a schedule.
    """
    submitted = [(ready, program, ready.submission) for ready, program in jobs if ready.submission is not None]
    rows = [
        (
            *(ready.id, None if ready.schedule is None else str(ready.schedule), program),
            *(ready.generation, ready.sequence, launch.encode(ready).decode(), pool, submission.origin),
            *(None if submission.rerun is None else submission.rerun.job, submission.muted),
            *(ready.queued_at, submission.backfill, ancestors_of_job(ready)),
        )
        for ready, program, submission in submitted
    ]
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(13)]
    return len(await connection.fetch(_SQL["submit"], *columns[:8], now, *columns[8:]))


async def _insert(connection: Connection, ready: ReadyJob, owner: CurrentOwner, now: datetime) -> bool:
    """Stores the job; False when there is one of its id."""
    return bool(await insert(connection, [(ready, owner.program)], now, pool=owner.pool))
