"""`ports.jobs.Decisions` on PostgreSQL: the docket under the program's lock, and the rulings in the same transaction.

Locks are always taken in the order program, schedules, groups, jobs, runs, here and in `store.runs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, assert_never

import asyncpg
import orjson

from streamsched.codec import launch, verdict
from streamsched.codec.schedule import program_from_json, program_to_json, schedule_from_json
from streamsched.domain.docket import Admit, Case, Docket, End, Join, Ruling, Wait
from streamsched.domain.errors import ConflictError
from streamsched.domain.job import JobFact, JobState, Lane, Order, Place, ReadyJob, advance, merged
from streamsched.domain.names import ScheduleRef
from streamsched.domain.overlap import Overlap
from streamsched.domain.pace import Bucket
from streamsched.domain.pool import slots_name
from streamsched.domain.rate import Meter, meter_of
from streamsched.domain.run import RunState
from streamsched.domain.schedule import Program, Schedule
from streamsched.store import clusters, deadlines, groups, lines, meters
from streamsched.store.pool import translated
from streamsched.store.sql import queries

_SQL: Final = queries("docket")
_WAITING: Final = JobState.PENDING_CONSTRAINT
#: As much of a line is read, besides the jobs to rule on: more places than that are never given in one go.
_LINE: Final = 256


class PostgresDecisions:
    """See `ports.jobs.Decisions`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def due(self, now: datetime, *, limit: int) -> Sequence[str]:
        with translated():
            return [row["program"] for row in await self._pool.fetch(_SQL["due"], now, limit)]

    async def next_due(self) -> datetime | None:
        with translated():
            return await self._pool.fetchval(_SQL["next_due"])

    async def defer(self, program: str, reason: str, *, now: datetime, until: datetime) -> None:
        with translated():
            await self._pool.execute(_SQL["defer"], program, reason, now, until)

    async def look(self, job: str) -> None:
        with translated():
            await self._pool.execute(_SQL["look"], job)

    async def recall(self, *, before: datetime) -> int:
        with translated():
            await meters.forget(self._pool, before)
            await lines.forget(self._pool)
            await clusters.forget(self._pool)
            return int((await self._pool.execute(_SQL["recall"], before)).split()[-1])

    async def decide(
        self, program: str, *, now: datetime, limit: int, judge: Callable[[Docket], Sequence[Ruling]]
    ) -> Sequence[Ruling] | None:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await connection.fetchrow(_SQL["lock_program"], program)
                if row is None and await connection.fetchval(_SQL["program_exists"], program):
                    return None
                known = None if row is None else program_from_json(row["definition"])
                metered = row is not None and row["metered"]
                docket = await _docket(connection, program, known, now, limit, metered=metered)
                rulings = judge(docket)
                await _apply(connection, docket, rulings, now)
                await deadlines.watch_jobs(connection, docket, rulings, now)
        return rulings


async def _docket(
    connection: Any, program: str, known: Program | None, now: datetime, limit: int, *, metered: bool
) -> Docket:
    due = await connection.fetch(_SQL["due_of_program"], program, now, limit)
    if not due:
        return Docket(known, ())
    schedules = {
        row["id"]: row for row in await connection.fetch(_SQL["lock_schedules"], list({r["schedule"] for r in due}))
    }
    definitions = {
        name: schedule_from_json(row["definition"]) for name, row in schedules.items() if row["deleted_at"] is None
    }
    pools = {each.pool.name for each in definitions.values() if each.pool is not None}
    named = {each.name for known in definitions.values() for each in known.groups}
    standing = await groups.locked(connection, named | {slots_name(pool) for pool in pools})
    wanted = {row["id"] for row in due}
    newest_only = [name for name, known in definitions.items() if known.overlap.newest_only]
    if newest_only:
        wanted |= {row["id"] for row in await connection.fetch(_SQL["siblings"], newest_only)}
    rows = await connection.fetch(_SQL["lock_cases"], list(wanted), program)
    joined = await _joined(connection, [row["id"] for row in rows if row["waiting"] is not None])
    cases = tuple(_case(row, joined.get(row["id"], ()), schedules, definitions) for row in rows)
    facts = await connection.fetchrow(_SQL["facts"], program)
    return Docket(
        known,
        cases,
        waiting=await _elders(connection, definitions),
        active_runs=tuple(facts["active_runs"]),
        own_runs=await _own_runs(connection, program, definitions),
        last_completed_at=facts["last_completed_at"],
        groups=standing,
        gates=await clusters.locked(connection, {load for each in definitions.values() for load in each.loads}),
        lines=await lines.first(connection, standing, pools, limit=_LINE + len(cases)),
        meters=await _meters(connection, known, cases, now, metered=metered),
    )


async def _own_runs(
    connection: Any, program: str, definitions: Mapping[str, Schedule]
) -> Mapping[Lane, tuple[str, ...]]:
    asking = [name for name, known in definitions.items() if known.overlap is Overlap.SKIP or known.overlap.stops]
    if not asking:
        return {}
    rows = await connection.fetch(_SQL["own_runs"], program, asking)
    return {Lane(ScheduleRef.parse(row["schedule"]), row["key"]): tuple(row["runs"]) for row in rows}


async def _meters(
    connection: Any, program: Program | None, cases: Sequence[Case], now: datetime, *, metered: bool
) -> Mapping[Meter, Bucket]:
    if program is None:
        return {}
    asked = [
        meter_of(rate, program.ref, case.ready.lane)
        for case in cases
        if case.schedule is not None
        for rate in case.schedule.rates
    ]
    return await meters.locked(connection, asked, now=now, program=program.ref if metered else None)


def _case(
    row: Any, joined: Sequence[ReadyJob], schedules: Mapping[str, Any], definitions: Mapping[str, Schedule]
) -> Case:
    ready = merged(launch.decode(row["ready"].encode()), joined)
    name = str(ready.schedule)
    standing = schedules.get(name)
    told = row["waiting"]
    return Case(
        ready,
        definitions.get(name),
        standing["generation"] if standing else 0,
        bool(standing and standing["enabled"]),
        held_by=None if told is None else tuple(n for n, each in enumerate(told) if each["kind"] != "satisfied"),
        order=None if row["told"] is None else Order(row["told"]),
        order_reason=row["told_why"] or "",
        stands_from=standing["stands_from"] if standing else None,
        priority=standing["priority_set"] if standing else None,
    )


async def _joined(connection: Any, jobs: list[str]) -> Mapping[str, list[ReadyJob]]:
    found: dict[str, list[ReadyJob]] = {}
    if jobs:
        for row in await connection.fetch(_SQL["joiners"], jobs):
            found.setdefault(row["joined"], []).append(launch.decode(row["ready"].encode()))
    return found


async def _elders(connection: Any, definitions: Mapping[str, Schedule]) -> Mapping[Lane, Place]:
    coalescing = [name for name, known in definitions.items() if known.overlap in (Overlap.COALESCE, Overlap.SKIP)]
    if not coalescing:
        return {}
    return {
        Lane(ScheduleRef.parse(row["schedule"]), row["key"]): Place(row["generation"], row["sequence"])
        for row in await connection.fetch(_SQL["elders"], coalescing)
    }


async def _apply(connection: Any, docket: Docket, rulings: Sequence[Ruling], now: datetime) -> None:
    admits = [ruling for ruling in rulings if isinstance(ruling, Admit)]
    if admits and docket.program is not None:
        await _admit(connection, docket.program, admits, now)
    waits = [ruling for ruling in rulings if isinstance(ruling, Wait)]
    if waits:
        texts = [orjson.dumps([verdict.to_json(each) for each in wait.verdicts]).decode() for wait in waits]
        columns = [w.job for w in waits], [w.until for w in waits], texts, [w.reason for w in waits]
        _all_moved(waits, await connection.fetch(_SQL["wait"], now, *columns))
        stops = [(run, f"job {wait.job} takes its place", wait.kill) for wait in waits for run in wait.stops]
        if stops:
            await connection.execute(_SQL["stop_runs"], now, *(list(column) for column in zip(*stops, strict=True)))
    joins = [ruling for ruling in rulings if isinstance(ruling, Join)]
    if joins:
        state = advance(_WAITING, JobFact.JOINED)
        columns = [j.job for j in joins], [j.into for j in joins], [j.reason for j in joins]
        _all_moved(joins, await connection.fetch(_SQL["join"], state, _WAITING, now, *columns))
    ends = [ruling for ruling in rulings if isinstance(ruling, End)]
    if ends:
        states = [advance(_WAITING, end.fact) for end in ends]
        columns = [e.job for e in ends], states, [e.reason for e in ends]
        _all_moved(ends, await connection.fetch(_SQL["end"], _WAITING, now, *columns))
    if rulings:
        await groups.settle(connection, docket, rulings)
        await meters.settle(connection, docket.meters, rulings, now)
        await lines.settle(connection, docket, rulings)
        await clusters.settle(connection, docket, rulings)
    await _record(connection, rulings, now)


async def _admit(connection: Any, program: Program, admits: Sequence[Admit], now: datetime) -> None:
    jobs = [admit.job for admit in admits]
    readies = [launch.encode(admit.ready).decode() for admit in admits]
    state = advance(_WAITING, JobFact.ADMITTED)
    moved = await connection.fetch(_SQL["admit"], state, _WAITING, jobs, [a.reason for a in admits], readies)
    _all_moved(admits, moved)
    await connection.execute(
        _SQL["make_runs"],
        RunState.PENDING,
        now,
        str(program.ref),
        program_to_json(program),
        [admit.run for admit in admits],
        jobs,
        [orjson.dumps(dict(admit.arguments)).decode() for admit in admits],
    )


def _all_moved(rulings: Sequence[Ruling], moved: Sequence[object]) -> None:
    if len(moved) != len(rulings):
        raise ConflictError("a job changed its state while it was being decided")  # rolls everything back


async def _record(connection: Any, rulings: Sequence[Ruling], now: datetime) -> None:
    lines: list[tuple[str, str, str, str]] = []
    for ruling in rulings:
        match ruling:
            case Admit(job=job, run=run, reason=reason):
                lines += [("job", job, "job.admitted", reason), ("run", run, "run.created", f"for job {job}")]
            case Wait(job=job, reason=reason, news=True):
                lines.append(("job", job, "job.waits", reason))
            case Wait():
                pass
            case Join(job=job, into=into, reason=reason):
                lines += [("job", job, "job.coalesced", reason), ("job", into, "job.joined", f"by {job}")]
            case End(job=job, fact=fact, reason=reason):
                lines.append(("job", job, f"job.{advance(_WAITING, fact).lower()}", reason))
            case _:
                assert_never(ruling)
    if lines:
        await connection.execute(_SQL["record"], now, *(list(column) for column in zip(*lines, strict=True)))
