"""`ports.deadlines` in PostgreSQL: watched from a job's first ruling or a run's claim on, settled in one transaction.

Locks as everywhere: programs by id, then the deadline, the job, its runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import asyncpg
import orjson

from streamsched.codec import deadline as codec
from streamsched.codec import event as event_codec
from streamsched.domain.deadline import Course, Deadline, Miss, OnMiss, Promise, Ran, missed
from streamsched.domain.docket import Admit, Docket, Ruling, Wait
from streamsched.domain.job import JobState, Order
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.retry import OVERDUE
from streamsched.domain.run import RunState, run_id
from streamsched.domain.schedule import Schedule
from streamsched.ports.deadlines import Watched
from streamsched.ports.outbox import OutboxRecord
from streamsched.ports.topics import public_topic
from streamsched.store import byhand, outbox
from streamsched.store.ending import SQL as RUNS
from streamsched.store.ending import locked, put_down, record
from streamsched.store.pool import translated
from streamsched.store.sql import queries

_SQL: Final = queries("deadlines")
_JOBS: Final = queries("jobs")
_PREFIX: Final = "deadline."

_Row = tuple[str, str, int, datetime, str]


async def watch_jobs(connection: Any, docket: Docket, rulings: Sequence[Ruling], now: datetime) -> None:
    """From their first ruling on the deadlines of jobs that wait or run are watched; the program is locked."""
    going = {ruling.job for ruling in rulings if isinstance(ruling, Admit | Wait)}
    rows = [
        row
        for case in docket.cases
        if case.schedule is not None and case.schedule.deadlines and case.held_by is None and case.job in going
        for row in _rows(case.schedule, case.job, "", case.ready.satisfied_at)
    ]
    await _watch(connection, rows, now)


async def watch_run(connection: Any, schedule: Schedule | None, job: str | None, run: str, *, now: datetime) -> None:
    """From the claim of a run on its durations are watched."""
    if schedule is not None and job is not None:
        await _watch(connection, _rows(schedule, job, run, now), now)


class PostgresDeadlines:
    """See `ports.deadlines.Deadlines`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def due(self, now: datetime, *, limit: int) -> Sequence[Watched]:
        with translated():
            return [Watched(*row) for row in await self._pool.fetch(_SQL["due"], now, limit)]

    async def next_due(self) -> datetime | None:
        with translated():
            return await self._pool.fetchval(_SQL["next_due"])

    async def settle(self, watched: Watched, *, now: datetime) -> Miss | None:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await connection.fetchrow(_SQL["get"], *watched)
                if row is None:
                    return None
                deadline = codec.from_json(row["said"])
                schedule, program = ScheduleRef.parse(row["schedule"]), ProgramRef.parse(row["program"])
                other = _started(deadline, schedule)
                definitions = {
                    ref: await connection.fetchval(RUNS["lock_program"], str(ref))
                    for ref in sorted({program, *([] if other is None else [other])})
                }
                if await connection.fetchrow(_SQL["lock"], *watched) is None:
                    return None
                how = missed(deadline, row["due_at"], await _course(connection, watched))
                await connection.execute(_SQL["settled"], *watched)
                if how is None:
                    return None
                run = watched.run or None
                miss = Miss(schedule, program, watched.job, run, watched.place, deadline, row["due_at"], how)
                await _say(connection, miss, now)
                if deadline.then is OnMiss.CANCEL:
                    await _cancel(connection, miss, now)
                if other is not None:
                    await _start(connection, other, definitions[other], miss, now)
        return miss


def _rows(schedule: Schedule, job: str, run: str, since: datetime) -> list[_Row]:
    """Those that are about the job, or about the run when one is named."""
    return [
        (job, run, place, each.due(since), orjson.dumps(codec.to_json(each)).decode())
        for place, each in enumerate(schedule.deadlines)
        if (each.promise is Promise.DURATION) == bool(run)
    ]


async def _watch(connection: Any, rows: Sequence[_Row], now: datetime) -> None:
    if rows:
        await connection.execute(_SQL["watch"], now, *(list(column) for column in zip(*rows, strict=True)))


def _started(deadline: Deadline, schedule: ScheduleRef) -> ProgramRef | None:
    return None if deadline.program is None else ProgramRef(schedule.namespace, schedule.app, deadline.program)


async def _course(connection: Any, watched: Watched) -> Course:
    job = await connection.fetchrow(_SQL["lock_job"], watched.job)
    runs = await connection.fetch(_SQL["runs"], watched.job, watched.run)
    launched = job["state"] == JobState.LAUNCHED
    return Course(
        job["ended_at"] if launched else None,
        None if launched else job["ended_at"],
        tuple(Ran(RunState(run["state"]), run["ended_at"]) for run in runs),
    )


async def _say(connection: Any, miss: Miss, now: datetime) -> None:
    """The job, history and whoever listens know of it."""
    await connection.execute(_SQL["note"], miss.job, miss.reason)
    await record(connection, "job", miss.job, "job.deadline_missed", miss.reason, at=now)
    event = miss.event(now)
    await outbox.write(connection, [OutboxRecord(public_topic(event.fact), event.key, event_codec.encode(event))])


async def _cancel(connection: Any, miss: Miss, now: datetime) -> None:
    """A waiting job is told so, and ends at its next check, which is now; runs that have not begun end here, others
    are asked to, unless they are by somebody: a person's word stands, and that a run takes too long is the weakest.
    """
    await connection.fetchrow(_JOBS["tell"], miss.job, Order.CANCEL, miss.reason, now, f"job.{Order.CANCEL}_ordered")
    stop = OVERDUE if miss.run is not None else miss.reason
    for run in await connection.fetch(_SQL["runs"], miss.job, miss.run or ""):
        if RunState(run["state"]).terminal:
            continue
        row = await locked(connection, run["id"])
        if row is None or (said := row["stop_requested"]) not in (None, OVERDUE) or said == stop:
            continue
        if row["state"] == RunState.PENDING:
            await put_down(connection, row, stop, at=now)
        elif await connection.fetchval(RUNS["request_stop"], run["id"], stop, False) is not None:
            await record(connection, "run", run["id"], "run.stop_requested", stop, at=now)


async def _start(connection: Any, program: ProgramRef, definition: Any | None, miss: Miss, now: datetime) -> None:
    """The other program is started, and told what was missed."""
    if definition is None:
        why = f"{program} is not started: it was removed"
        await record(connection, "job", miss.job, "job.deadline_unanswered", why, at=now)
        return
    run = run_id(f"{program}.missed-{miss.subject}-{miss.place}", 1)
    told = {f"{_PREFIX}{name}": value for name, value in miss.facts.items()}
    await byhand.make_run(
        connection,
        program,
        definition,
        run,
        told,
        why=f"{miss.subject} missed its deadline: {miss.reason}",
        now=now,
        force=True,
    )
    await record(connection, "job", miss.job, "job.deadline_answered", f"run {run}", at=now)
