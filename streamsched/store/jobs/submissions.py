"""`ports.submissions.SubmissionStore` on PostgreSQL."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import asyncpg

from streamsched.codec.json.scalar import loads
from streamsched.codec.records import launch
from streamsched.codec.schedules.schedule import stored_schedule_from_json
from streamsched.domain.decisions.decision import superseded
from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.schedules.program_limits import limits_of_program
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.schedules.submission_request import SubmissionRequest
from streamsched.ports.submissions import SubmittedJob
from streamsched.store.connections import translated
from streamsched.store.sql import queries

_SQL: Final = queries("jobs/submissions")


class PostgresSubmissionStore:
    """See `ports.submissions.SubmissionStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def submit(self, request: SubmissionRequest, *, now: datetime) -> SubmittedJob:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                if await _is_known(connection, request):
                    return SubmittedJob(request.job, repeated=True)
                match request.owner:
                    case ScheduleRef():
                        row = await _of_schedule(connection, request, request.owner, now)
                    case ProgramRef():
                        row = await _of_program(connection, request, request.owner, now)
                made = await connection.fetch(_SQL["submit"], *([column] for column in row), now)
                if not made:  # a repeat was faster
                    await _is_known(connection, request)
                return SubmittedJob(request.job, repeated=not made)


async def _is_known(connection: Any, request: SubmissionRequest) -> bool:
    """Whether an earlier request with this token made the job.

    Raises:
        ConflictError: it was a different request.
    """
    row = await connection.fetchrow(_SQL["known"], request.job)
    if row is None:
        return False
    ready = launch.decode(row["ready"].encode())
    owner = ProgramRef.parse(row["program"]) if ready.schedule is None else ready.schedule
    found = ready.submission
    same = found is not None and (dict(found.arguments), dict(found.columns)) == (
        dict(request.arguments),
        dict(request.columns),
    )
    if owner != request.owner or not same:
        raise ConflictError(f"the idempotency key belongs to another request, which made job '{request.job}'")
    return True


async def _of_schedule(
    connection: Any, request: SubmissionRequest, ref: ScheduleRef, now: datetime
) -> tuple[object, ...]:
    row = await connection.fetchrow(_SQL["lock_schedule"], str(ref))
    if row is None or row["deleted_at"] is not None:
        raise NotFoundError("schedule", str(ref))
    generation = row["generation"]
    refused = superseded(
        known=True,
        current=generation,
        enabled=row["enabled"],
        generation=generation,
        stands_from=row["stands_from"],
    )
    if refused is not None:
        raise ConflictError(f"schedule '{ref}' is disabled; enable it, or start its program '{row['program']}' alone")
    schedule = stored_schedule_from_json(row["definition"])
    sequence = await connection.fetchval(_SQL["latest_number"], str(ref), generation)
    ready = request.satisfaction(schedule, generation=generation, sequence=sequence, now=now)
    return _row(ready, row["program"], None)


async def _of_program(
    connection: Any, request: SubmissionRequest, ref: ProgramRef, now: datetime
) -> tuple[object, ...]:
    row = await connection.fetchrow(_SQL["program"], str(ref))
    if row is None:
        raise NotFoundError("program", str(ref))
    limits = limits_of_program(ref, _definitions(row["schedules"]))
    pool = None if limits.pool is None else limits.pool.name
    return _row(request.satisfaction(None, generation=0, sequence=0, now=now), str(ref), pool)


def _definitions(texts: list[str]) -> list[Schedule]:
    return [stored_schedule_from_json(loads(text, "$")) for text in texts]


def _row(ready: ReadyJob, program: str, pool: str | None) -> tuple[object, ...]:
    """The columns of query `submit`."""
    assert ready.submission is not None
    schedule = None if ready.schedule is None else str(ready.schedule)
    content = launch.encode(ready).decode()
    return ready.id, schedule, program, ready.generation, ready.sequence, content, pool, ready.submission.origin
