"""`ports.jobs.Decisions` on PostgreSQL: dockets under their programs' locks, and the rulings in the same transaction.

Locks are always taken in the order programs, schedules, jobs, groups, meters, runs, here and in `store.runs`; under a
group's lock jobs are only taken that nobody holds. Groups and meters come late, for everybody shares them: what can be
read and decoded without them is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import asyncpg

from streamsched.codec import launch
from streamsched.codec.scalar import loads
from streamsched.codec.schedule import program_from_json, schedule_from_json
from streamsched.domain.docket import Case, Docket, Ruling
from streamsched.domain.job import Lane, Order, Place
from streamsched.domain.names import ScheduleRef
from streamsched.domain.overlap import Overlap
from streamsched.domain.pace import Bucket
from streamsched.domain.pool import slots_name
from streamsched.domain.rate import Meter, meter_of
from streamsched.domain.schedule import Program, Schedule
from streamsched.domain.sitting import Judged, Shared
from streamsched.ports.jobs import Inside, Sitting
from streamsched.store import clusters, groups, joiners, lines, meters, rulings
from streamsched.store.pool import translated
from streamsched.store.sql import queries

_SQL: Final = queries("docket")

#: Texts of definitions that are known by heart: the same few are asked for again and again.
_BY_HEART: Final = 4096
#: As much of a line is read, besides the jobs to rule on: more places than that are never given in one go.
_LINE: Final = 256


class PostgresDecisions:
    """See `ports.jobs.Decisions`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def due(self, now: datetime, *, limit: int) -> Mapping[str, int]:
        with translated():
            return {row["program"]: row["jobs"] for row in await self._pool.fetch(_SQL["due"], now, limit)}

    async def next_due(self) -> datetime | None:
        with translated():
            return await self._pool.fetchval(_SQL["next_due"])

    async def defer(self, program: str, reason: str, *, now: datetime, until: datetime) -> None:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                deferred = await connection.fetch(_SQL["defer"], program, reason, now, until)
                await lines.step_out(connection, [row["id"] for row in deferred])

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
        self,
        programs: Sequence[str],
        *,
        now: datetime,
        limit: int,
        judge: Callable[[Docket], Sequence[Ruling]],
        inside: Inside | None = None,
        wait: bool = False,
    ) -> Sitting:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                if wait and not await _waited(connection, programs[0]):
                    return Sitting({})
                held = await _lock(connection, programs)
                due = await connection.fetch(_SQL["due_of_programs"], list(held), now, limit)
                if not due:
                    return Sitting(dict.fromkeys(held, ()))
                files = await _files(connection, held, due, now)
                judged = await joiners.taken_along(connection, _judged(files, judge, now))
                begun = await rulings.store(connection, judged, before=files.shared, now=now, inside=inside)
        return Sitting(dict.fromkeys(held, ()) | {each.program: each.rulings for each in judged}, begun)


@dataclass(frozen=True, slots=True)
class _Held:
    """A program whose lock we have. `known`: None when it was removed; `metered`: some rate counts all its runs."""

    known: Program | None = None
    metered: bool = False


@dataclass(frozen=True, slots=True)
class _Files:
    """Dockets by program, those whose jobs wait longest first, without what they share."""

    dockets: Mapping[str, Docket]
    shared: Shared


async def _waited(connection: Any, program: str) -> bool:
    """Until we have the program, or for a second: who has it may be stopped, and others may be due by then."""
    try:
        async with connection.transaction():  # a savepoint, which gives the time-out back however it ends
            await connection.execute(_SQL["wait_a_second"])
            await connection.execute(_SQL["wait_for_program"], program)
            await connection.execute(_SQL["wait_as_ever"])
    except asyncpg.LockNotAvailableError:
        return False
    return True


async def _lock(connection: Any, programs: Sequence[str]) -> Mapping[str, _Held]:
    """The programs nobody else has."""
    found = {
        row["id"]: _Held(_program(row["definition"]), row["metered"])
        for row in await connection.fetch(_SQL["lock_programs"], programs)
    }
    missing = [program for program in programs if program not in found]
    if missing:
        there = {row["id"] for row in await connection.fetch(_SQL["standing_programs"], missing)}
        found |= {program: _Held() for program in missing if program not in there}
    return found


async def _files(connection: Any, held: Mapping[str, _Held], due: Sequence[Any], now: datetime) -> _Files:
    schedules = {
        row["id"]: row for row in await connection.fetch(_SQL["lock_schedules"], list({r["schedule"] for r in due}))
    }
    definitions = {name: _schedule(row["definition"]) for name, row in schedules.items() if row["deleted_at"] is None}
    wanted = {row["id"] for row in due}
    newest_only = [name for name, known in definitions.items() if known.overlap.newest_only]
    if newest_only:
        wanted |= {row["id"] for row in await connection.fetch(_SQL["siblings"], newest_only)}
    rows = await connection.fetch(_SQL["lock_cases"], list(wanted), list(held))
    cases: dict[str, list[Case]] = {}
    for row in rows:
        cases.setdefault(row["program"], []).append(_case(row, schedules, definitions))
    pools = {each.pool.name for each in definitions.values() if each.pool is not None}
    named = {each.name for known in definitions.values() for each in known.groups}
    await groups.lock(connection, named | {slots_name(pool) for pool in pools})
    facts = {row["program"]: row for row in await connection.fetch(_SQL["facts"], list(cases))}
    waiting, own_runs = await _elders(connection, definitions), await _own_runs(connection, list(cases), definitions)
    dockets = {
        program: Docket(
            held[program].known,
            tuple(of_program),
            waiting=waiting,
            active_runs=tuple(facts[program]["active_runs"]),
            own_runs=own_runs,
            last_completed_at=facts[program]["last_completed_at"],
        )
        for program, of_program in cases.items()
    }
    all_cases = [case for each in dockets.values() for case in each.cases]
    shared = Shared(
        await groups.asked(connection, all_cases),
        await lines.first(connection, pools, limit=_LINE + len(all_cases)),
        await _meters(connection, held, dockets, now),
        await clusters.locked(connection, {load for each in definitions.values() for load in each.loads}),
    )
    return _Files(dockets, shared)


def _judged(files: _Files, judge: Callable[[Docket], Sequence[Ruling]], now: datetime) -> Sequence[Judged]:
    """What is ruled on each docket, one after the other: what one takes of what they share the next does not find."""
    shared, judged = files.shared, list[Judged]()
    for program, filed in files.dockets.items():
        docket = shared.laid_before(filed, {meter.scope for meter in _asked(filed)})
        ruled = judge(docket)
        shared = shared.after(docket, ruled, now)
        judged.append(Judged(program, docket, ruled))
    return judged


def _asked(docket: Docket) -> Iterator[Meter]:
    if docket.program is not None:
        lanes = {case.lane: case.schedule for case in docket.cases if case.schedule is not None}
        for lane, schedule in lanes.items():
            for rate in schedule.rates:
                yield meter_of(rate, docket.program.ref, lane)


async def _meters(
    connection: Any, held: Mapping[str, _Held], dockets: Mapping[str, Docket], now: datetime
) -> Mapping[Meter, Bucket]:
    asked: Iterable[Meter] = (meter for docket in dockets.values() for meter in _asked(docket))
    programs = [each.known.ref for each in (held[name] for name in dockets) if each.metered and each.known is not None]
    return await meters.locked(connection, asked, now=now, programs=programs)


async def _own_runs(
    connection: Any, programs: Sequence[str], definitions: Mapping[str, Schedule]
) -> Mapping[Lane, tuple[str, ...]]:
    asking = [name for name, known in definitions.items() if known.overlap is Overlap.SKIP or known.overlap.stops]
    if not asking:
        return {}
    rows = await connection.fetch(_SQL["own_runs"], programs, asking)
    return {Lane(ScheduleRef.parse(row["schedule"]), row["key"]): tuple(row["runs"]) for row in rows}


def _case(row: Any, schedules: Mapping[str, Any], definitions: Mapping[str, Schedule]) -> Case:
    ready = launch.decode(row["ready"])
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


async def _elders(connection: Any, definitions: Mapping[str, Schedule]) -> Mapping[Lane, Place]:
    coalescing = [name for name, known in definitions.items() if known.overlap in (Overlap.COALESCE, Overlap.SKIP)]
    if not coalescing:
        return {}
    return {
        Lane(ScheduleRef.parse(row["schedule"]), row["key"]): Place(row["generation"], row["sequence"])
        for row in await connection.fetch(_SQL["elders"], coalescing)
    }


@lru_cache(_BY_HEART)
def _schedule(definition: str) -> Schedule:
    """Raises:
    InvalidError: this release cannot read it.
    """
    return schedule_from_json(loads(definition, "$"))


@lru_cache(_BY_HEART)
def _program(definition: str) -> Program:
    """Raises:
    InvalidError: this release cannot read it.
    """
    return program_from_json(loads(definition, "$"))
