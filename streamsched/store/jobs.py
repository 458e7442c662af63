"""`ports.jobs.Jobs` on PostgreSQL: what people ask about jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import asyncpg

from streamsched.codec import deadline, launch
from streamsched.codec.schedule import schedule_from_json
from streamsched.domain.errors import ConflictError, InvalidError, NotFoundError
from streamsched.domain.job import JobState, Order, merged
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.pool import slots_name
from streamsched.domain.rate import meter_of
from streamsched.domain.run import RunState
from streamsched.domain.schedule import Schedule
from streamsched.ports.catalog import Decision
from streamsched.ports.jobs import Background, Decided, Holder, JobRecord, Launch, Span, Tally
from streamsched.store import clusters, groups, joiners, lines, meters
from streamsched.store.pool import translated
from streamsched.store.sql import queries

_SQL: Final = queries("jobs")
_DEADLINES: Final = queries("deadlines")
#: So much of a line is counted for people.
_LINE: Final = 1000


class PostgresJobs:
    """See `ports.jobs.Jobs`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def get(self, job: str) -> JobRecord:
        with translated():
            row = await self._pool.fetchrow(_SQL["get"], job)
        if row is None:
            raise NotFoundError("job", job)
        return _record(row)

    async def recent(
        self, *, schedule: ScheduleRef | None = None, states: Sequence[JobState] = (), limit: int = 100
    ) -> Sequence[JobRecord]:
        name = None if schedule is None else str(schedule)
        with translated():
            return [_record(row) for row in await self._pool.fetch(_SQL["recent"], name, list(states), limit)]

    async def tell(self, job: str, order: Order | None, reason: str, *, now: datetime) -> JobRecord:
        action = f"job.{order or 'release'}_ordered"
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await connection.fetchrow(_SQL["get"], job)
                if row is None:
                    raise NotFoundError("job", job)
                await connection.execute(_SQL["lock_program"], row["program"])
                if await connection.fetchrow(_SQL["tell"], job, order, reason, now, action) is None:
                    raise ConflictError(f"job '{job}' waits for no constraint any more")
                return _record(await connection.fetchrow(_SQL["get"], job))

    async def span(self, schedule: ScheduleRef, *, since: datetime, until: datetime) -> Span:
        name = str(schedule)
        with translated():
            async with (
                self._pool.acquire() as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                jobs = await connection.fetch(_SQL["satisfied"], name, since, until)
                changes = await connection.fetch(_SQL["changes"], name, until)
                tallies = await connection.fetch(_SQL["tallies"], name)
        return Span(
            [_record(row) for row in reversed(jobs)],
            [Decision(**row) for row in reversed(changes)],
            [Tally(**row) for row in tallies],
        )

    async def background(self, job: str) -> Background:
        with translated():
            async with (
                self._pool.acquire() as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                row = await connection.fetchrow(_SQL["get"], job)
                if row is None:
                    raise NotFoundError("job", job)
                record = _record(row)
                standing = await connection.fetchrow(_SQL["standing"], row["schedule"])
                known = standing is not None and standing["deleted_at"] is None
                apart = not record.runs  # admission merges those who joined into the job
                readies = [
                    launch.decode(each["ready"].encode())
                    async for each in connection.cursor(_SQL["ready"], job, apart, prefetch=joiners.PORTION)
                ]
                schedule, unreadable = _read(standing["definition"]) if standing is not None and known else (None, None)
                names = [group.name for group in schedule.groups] if schedule is not None else []
                pools = [schedule.pool.name] if schedule is not None and schedule.pool is not None else []
                names += [slots_name(pool) for pool in pools]
                slots = await groups.occupancy(connection, names)
                asked = (
                    [meter_of(rate, schedule.program, readies[0].lane) for rate in schedule.rates]
                    if schedule is not None
                    else []
                )
                gates = await clusters.standing(connection, schedule.loads if schedule is not None else ())
                in_line = await lines.first(connection, pools, limit=_LINE)
                buckets = await meters.standing(connection, asked)
                slot_holders = await groups.holders(connection, names)
                holders = await connection.fetch(_SQL["holders"], row["program"])
                last = await connection.fetchval(_SQL["last_completed"], row["program"])
                history = await connection.fetch(_SQL["history"], [job, *record.runs])
                launch_row = await connection.fetchrow(_SQL["launch"], job)
                watched = await connection.fetch(_DEADLINES["of_job"], job)
                typical = await connection.fetchval(_SQL["typical"], row["program"])
        return Background(
            job=record,
            ready=merged(readies[0], readies[1:]),
            schedule=schedule,
            generation=standing["generation"] if standing is not None else 0,
            enabled=bool(standing is not None and standing["enabled"]),
            stands_from=standing["stands_from"] if standing is not None else None,
            holders=tuple(_holder(each) for each in holders),
            last_completed_at=last,
            history=tuple(Decided(each["at"], each["subject"], each["action"], each["reason"]) for each in history),
            held=row["told_why"] if row["told"] == Order.HOLD else None,
            groups=slots,
            meters=buckets,
            lines=in_line,
            gates=gates,
            priority=standing["priority_set"] if standing is not None else None,
            slot_holders=tuple(_holder(each) for each in slot_holders),
            launch=None if launch_row is None else _launch(launch_row, history),
            unreadable=unreadable,
            checked_at=row["checked_at"],
            deadlines=tuple((deadline.from_json(each["said"]), each["due_at"]) for each in watched),
            typical=None if typical is None else timedelta(seconds=float(typical)),
        )


def _read(definition: Any) -> tuple[Schedule | None, str | None]:
    """A schedule's definition, or what is wrong with it."""
    try:
        return schedule_from_json(definition), None
    except InvalidError as exc:
        return None, str(exc)


def _launch(row: Any, history: Sequence[Any]) -> Launch:
    of_run = [line for line in history if line["subject"] == row["id"]]
    made = next((line["reason"] for line in of_run if line["action"] == "run.created"), "")
    failed = of_run[-1]["reason"] if of_run and of_run[-1]["action"] == "run.spawn_failed" else None
    return Launch(
        run=row["id"],
        attempt=row["attempt"],
        state=RunState(row["state"]),
        reason=row["reason"] or made,
        since=row["since"],
        spawns=row["spawns"],
        spawn_at=row["spawn_at"],
        held_back=row["held_back"],
        not_spawned=failed,
        ahead=row["ahead"],
        runner=row["runner"],
        heartbeat_at=row["heartbeat_at"],
        stop_requested=row["stop_requested"],
    )


def _record(row: Any) -> JobRecord:
    return JobRecord(
        id=row["id"],
        schedule=ScheduleRef.parse(row["schedule"]),
        generation=row["generation"],
        sequence=row["sequence"],
        program=None if row["program"] is None else ProgramRef.parse(row["program"]),
        state=JobState(row["state"]),
        reason=row["reason"],
        satisfied_at=row["satisfied_at"],
        created_at=row["created_at"],
        next_check_at=row["next_check_at"],
        waiting=tuple(row["waiting"] or ()),
        joined=row["joined"],
        ended_at=row["ended_at"],
        runs=tuple(row["runs"]),
        missed=tuple(row["missed"] or ()),
    )


def _holder(row: Any) -> Holder:
    schedule = None if row["schedule"] is None else ScheduleRef.parse(row["schedule"])
    return Holder(row["id"], row["state"], row["since"], schedule)
