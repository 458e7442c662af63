"""`ports.runs.Runs` on PostgreSQL: what people ask and do about runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import asyncpg

from streamsched.codec.schedule import program_from_json, program_to_json, schedule_from_json
from streamsched.domain.admission import Facts, check_all
from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.domain.group import Group, taken_by_hand
from streamsched.domain.job import Lane
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.pool import Line, Pool, pools_by_hand, slots_name
from streamsched.domain.rate import Metered, meter_of
from streamsched.domain.run import RunState, run_id
from streamsched.domain.schedule import Schedule
from streamsched.ports.runs import RunRecord, Stop
from streamsched.store import groups, meters
from streamsched.store.ending import SQL, locked, put_down, record
from streamsched.store.pool import translated


class PostgresRuns:
    """See `ports.runs.Runs`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def get(self, run: str) -> RunRecord:
        with translated():
            row = await self._pool.fetchrow(SQL["get"], run)
        if row is None:
            raise NotFoundError("run", run)
        return _record(row)

    async def recent(
        self, *, program: ProgramRef | None = None, states: Sequence[RunState] = (), limit: int = 100
    ) -> Sequence[RunRecord]:
        name = None if program is None else str(program)
        with translated():
            return [_record(row) for row in await self._pool.fetch(SQL["recent"], name, list(states), limit)]

    async def start(
        self,
        program: ProgramRef,
        arguments: Mapping[str, str],
        *,
        token: str,
        at_most: int | None,
        force: bool,
        now: datetime,
    ) -> str:
        run = run_id(f"{program}.manual-{token}", 1)
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                definition = await connection.fetchval(SQL["lock_program"], str(program))
                if definition is None:
                    raise NotFoundError("program", str(program))
                if await connection.fetchrow(SQL["get"], run) is not None:
                    return run
                standing = [
                    schedule_from_json(row["definition"])
                    for row in await connection.fetch(SQL["schedules"], str(program))
                ]
                slots = taken_by_hand(group for each in standing for group in each.groups)
                pools = pools_by_hand(each.pool for each in standing)
                held = [*((each.name, each.weight) for each in slots), *((slots_name(each.name), 1) for each in pools)]
                occupied = await groups.locked(connection, (name for name, _ in held))
                if not force:
                    lines = {each.name: Line(occupied[slots_name(each.name)]) for each in pools}
                    facts = Facts(now, groups=occupied, lines=lines)
                    await _make_room(connection, program, at_most, (*slots, *pools), facts)
                known = program_from_json(definition)
                given = {**known.arguments, **arguments}
                await connection.execute(
                    SQL["start"], run, str(program), program_to_json(known), given, RunState.PENDING, now
                )
                await groups.take(connection, [(name, run, weight) for name, weight in held])
                await _count(connection, program, standing, now)
                await record(connection, "run", run, "run.created", "by hand", at=now)
                await connection.execute(SQL["ring"])
        return run

    async def stop(self, run: str, stop: Stop, *, now: datetime) -> None:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await locked(connection, run)
                if row is None:
                    raise NotFoundError("run", run)
                if RunState(row["state"]).terminal:
                    raise ConflictError(f"run '{run}' has ended already: {row['state']}")
                await record(connection, "run", run, "run.stop_requested", stop.why, at=now)
                if row["state"] == RunState.PENDING:
                    await put_down(connection, row, stop.why, at=now)
                else:
                    await connection.execute(SQL["request_stop"], run, stop.why, stop.at_once)


async def _count(connection: Any, program: ProgramRef, schedules: Sequence[Schedule], now: datetime) -> None:
    """The run takes tokens of what meters the program, and of the groups that its schedules name in rates."""
    anybody = Lane(ScheduleRef(program.namespace, program.app, program.name))
    asked = {
        meter_of(rate, program, anybody)
        for each in schedules
        for rate in each.rates
        if rate.of in (Metered.PROGRAM, Metered.GROUP)
    }
    known = await meters.locked(connection, asked, now=now)
    await meters.take(connection, known, {meter.scope for meter in known}, now)


async def _make_room(
    connection: Any, program: ProgramRef, at_most: int | None, shared: Sequence[Group | Pool], facts: Facts
) -> None:
    """Raises:
    ConflictError: there is none.
    """
    active = await connection.fetchval(SQL["active"], str(program))
    if at_most is not None and active >= at_most:
        raise ConflictError(f"program '{program}' has {active} active runs; at most {at_most} were asked for")
    room = check_all(tuple(replace(each, wait=False) for each in shared), facts, facts.satisfied_at)
    if room.aborted:
        raise ConflictError(room.why)


def _record(row: Any) -> RunRecord:
    return RunRecord(
        id=row["id"],
        job=row["job"],
        schedule=None if row["schedule"] is None else ScheduleRef.parse(row["schedule"]),
        attempt=row["attempt"],
        program=ProgramRef.parse(row["program"]),
        arguments=row["arguments"],
        state=RunState(row["state"]),
        reason=row["reason"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        exit_code=row["exit_code"],
        runner=row["runner"],
        heartbeat_at=row["heartbeat_at"],
        log_path=row["log_path"],
    )
