"""`ports.clusters.Board` on PostgreSQL, and what rulings do with gates within their own transactions.

Gates are locked after the jobs, as meters are; whoever has them waits for nobody any more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import asyncpg
import orjson

from streamsched.codec import constraint as codec
from streamsched.codec import load as load_json
from streamsched.domain.admission import Satisfied
from streamsched.domain.docket import Admit, Docket, Ruling, Wait
from streamsched.domain.load import Gate, Load, Reading
from streamsched.ports.clusters import ClusterRecord, GateRecord
from streamsched.store.pool import translated
from streamsched.store.sql import queries

_SQL: Final = queries("clusters")


class PostgresBoard:
    """See `ports.clusters.Board`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def wanted(self, now: datetime, *, every: timedelta, patience: timedelta) -> Sequence[str]:
        with translated():
            return [row["name"] for row in await self._pool.fetch(_SQL["wanted"], now, now - every, now + patience)]

    async def next_due(self, now: datetime, *, every: timedelta) -> datetime | None:
        with translated():
            return await self._pool.fetchval(_SQL["next_due"], every)

    async def told(self, cluster: str, reading: Reading, *, now: datetime) -> int:
        woken = 0
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["told"], cluster, load_json.reading_to_json(reading), now)
                for row in await connection.fetch(_SQL["gates"], cluster):
                    load = _load(row["terms"])
                    gate = Gate(row["open"], row["since"]).turned(load, reading, now)
                    await connection.execute(_SQL["turn"], cluster, row["terms"], gate.open, gate.since, now)
                    if gate.open:
                        woken += await connection.fetchval(_SQL["wake"], cluster, row["terms"], load.starts)
        return woken

    async def failed(self, cluster: str, reason: str, *, now: datetime) -> None:
        with translated():
            await self._pool.execute(_SQL["failed"], cluster, reason, now)

    async def all(self) -> Sequence[ClusterRecord]:
        with translated():
            rows = await self._pool.fetch(_SQL["list"])
            gates: dict[str, list[GateRecord]] = defaultdict(list)
            for row in await self._pool.fetch(_SQL["list_gates"]):
                gates[row["cluster"]].append(GateRecord(_load(row["terms"]), _gate(row), row["waiting"]))
        return [
            ClusterRecord(
                *(row["name"], _reading(row), row["at"], row["failed"], row["failing"], row["waiting"]),
                gates=gates[row["name"]],
            )
            for row in rows
        ]


async def locked(connection: Any, loads: Iterable[Load]) -> Mapping[Load, Gate]:
    """The gates of these, held until the transaction ends; unknown ones are made, shut."""
    columns = _columns(loads)
    if not columns[0]:
        return {}
    await connection.execute(_SQL["ensure"], *columns)
    return {_load(row["terms"]): _gate(row) for row in await connection.fetch(_SQL["lock"], *columns)}


async def standing(connection: Any, loads: Iterable[Load]) -> Mapping[Load, Gate]:
    """The gates of these as they are; those nobody has come to yet are missing."""
    columns = _columns(loads)
    rows = await connection.fetch(_SQL["peek"], *columns) if columns[0] else ()
    return {_load(row["terms"]): _gate(row) for row in rows}


async def settle(connection: Any, docket: Docket, rulings: Sequence[Ruling]) -> None:
    """Admitted runs go through their gates, and jobs that one holds wait before it; the gates are `locked`."""
    if not docket.gates:
        return
    await connection.execute(_SQL["leave"], [ruling.job for ruling in rulings])
    loads = {case.job: case.schedule.loads for case in docket.cases if case.schedule is not None}
    passed = Counter(load for each in rulings if isinstance(each, Admit) for load in loads.get(each.job, ()))
    if passed:
        await connection.execute(_SQL["pass"], *_columns(passed), list(passed.values()))
    waits = [(each.job, load) for each in rulings if isinstance(each, Wait) and (load := _held_by(docket, each))]
    if waits:
        await connection.execute(_SQL["queue"], [job for job, _ in waits], *_columns(load for _, load in waits))


async def forget(connection: Any) -> None:
    """Rows of jobs that wait before no gate any more."""
    await connection.execute(_SQL["forget"])


def _held_by(docket: Docket, wait: Wait) -> Load | None:
    """The first gate that holds it."""
    schedule = next(case.schedule for case in docket.cases if case.job == wait.job)
    constraints = () if schedule is None else schedule.constraints
    judged = zip(constraints, wait.verdicts, strict=False)
    return next((each for each, word in judged if isinstance(each, Load) and not isinstance(word, Satisfied)), None)


def _columns(loads: Iterable[Load]) -> tuple[list[str], list[str]]:
    known = list(loads)
    return [load.cluster for load in known], [_terms(load) for load in known]


def _terms(load: Load) -> str:
    return orjson.dumps(codec.to_json(load)).decode()


def _load(terms: Any) -> Load:
    read = codec.from_json(terms)
    assert isinstance(read, Load)
    return read


def _reading(row: Any) -> Reading | None:
    return None if row["reading"] is None else load_json.reading_from_json(row["reading"])


def _gate(row: Any) -> Gate:
    at, reading = row["at"], _reading(row) if row["at"] is not None else None
    return Gate(row["open"], row["since"], reading, at, row["started"], row["failed"], row["failing"])
