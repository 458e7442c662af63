"""`ports.limits.ClusterStore` on PostgreSQL, and load gates in the transactions of decisions.

Gates are locked after jobs, groups and token buckets; their holder waits for no other lock.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import asyncpg
import orjson
import structlog

from streamsched.codec.schedules import constraint as codec
from streamsched.codec.schedules import load as load_json
from streamsched.domain.constraints.load import ClusterReading, Load, LoadGate
from streamsched.domain.decisions.admission import Satisfied
from streamsched.domain.decisions.decision import Admit, Decision, DecisionInput, Wait
from streamsched.domain.errors import described
from streamsched.domain.limits import as_stored
from streamsched.ports.limits import ClusterRecord, GateRecord
from streamsched.store.connections import Connection, Executor, translated
from streamsched.store.sql import queries

log = structlog.get_logger()

_SQL: Final = queries("limits/clusters")


class PostgresClusterStore:
    """See `ports.limits.ClusterStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def wanted(self, now: datetime, *, every: timedelta, patience: timedelta) -> Sequence[str]:
        with translated():
            return [row["name"] for row in await self._pool.fetch(_SQL["wanted"], now, now - every, now + patience)]

    async def next_due(self, now: datetime, *, every: timedelta) -> datetime | None:
        with translated():
            return await self._pool.fetchval(_SQL["next_due"], every)

    async def record_reading(self, cluster: str, reading: ClusterReading, *, now: datetime) -> int:
        woken = 0
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["read"], cluster, load_json.reading_to_json(reading), now)
                for row in await connection.fetch(_SQL["gates"], cluster):
                    load = _readable(row["terms"])
                    if load is None:
                        continue
                    gate = LoadGate(row["open"], row["since"]).updated(load, reading, now)
                    await connection.execute(_SQL["turn"], cluster, row["terms"], gate.open, gate.since, now)
                    if gate.open:
                        woken += await connection.fetchval(_SQL["wake"], cluster, row["terms"], load.starts)
        return woken

    async def record_failure(self, cluster: str, reason: str, *, now: datetime) -> None:
        with translated():
            await self._pool.execute(_SQL["failed"], cluster, reason, now)

    async def all(self) -> Sequence[ClusterRecord]:
        with translated():
            rows = await self._pool.fetch(_SQL["list"])
            gates: dict[str, list[GateRecord]] = defaultdict(list)
            for row in await self._pool.fetch(_SQL["list_gates"]):
                if (load := _readable(row["terms"])) is not None:
                    gates[row["cluster"]].append(GateRecord(load, _gate(row), row["waiting"]))
        return [
            ClusterRecord(
                *(row["name"], _reading(row), row["at"], row["failed"], row["failing"], row["waiting"]),
                gates=gates[row["name"]],
            )
            for row in rows
        ]


async def locked(connection: Connection, loads: Iterable[Load]) -> Mapping[Load, LoadGate]:
    """Locks the gates of the loads until the transaction ends; missing ones are created closed."""
    columns = _columns(loads)
    if not columns[0]:
        return {}
    await connection.execute(_SQL["ensure"], *columns)
    return {_load(row["terms"]): _gate(row) for row in await connection.fetch(_SQL["lock"], *columns)}


async def current(connection: Connection, loads: Iterable[Load]) -> Mapping[Load, LoadGate]:
    """The gates of the loads, without locks; those that do not exist are missing."""
    columns = _columns(loads)
    rows = await connection.fetch(_SQL["peek"], *columns) if columns[0] else ()
    return {_load(row["terms"]): _gate(row) for row in rows}


async def settle(connection: Connection, decision_input: DecisionInput, decisions: Sequence[Decision]) -> None:
    """Admitted runs pass their gates, and jobs held by a gate are queued; the gates are locked."""
    if not decision_input.resources.load_gates:
        return
    await connection.execute(_SQL["leave"], [decision.job for decision in decisions])
    loads = {job.job: job.schedule.loads for job in decision_input.due_jobs if job.schedule is not None}
    passed = Counter(load for each in decisions if isinstance(each, Admit) for load in loads.get(each.job, ()))
    if passed:
        await connection.execute(_SQL["pass"], *_columns(passed), list(passed.values()))
    waits = [
        (each.job, load) for each in decisions if isinstance(each, Wait) and (load := _held_by(decision_input, each))
    ]
    if waits:
        await connection.execute(_SQL["queue"], [job for job, _ in waits], *_columns(load for _, load in waits))


async def forget(executor: Executor) -> None:
    """Deletes rows of jobs that no longer wait for a gate."""
    await executor.execute(_SQL["forget"])


def _held_by(decision_input: DecisionInput, wait: Wait) -> Load | None:
    """The first load constraint that holds the job."""
    schedule = next(job.schedule for job in decision_input.due_jobs if job.job == wait.job)
    constraints = () if schedule is None else schedule.constraints
    verdicts = zip(constraints, wait.verdicts, strict=False)
    return next((c for c, verdict in verdicts if isinstance(c, Load) and not isinstance(verdict, Satisfied)), None)


def _columns(loads: Iterable[Load]) -> tuple[list[str], list[str]]:
    known = list(loads)
    return [load.cluster for load in known], [_terms(load) for load in known]


def _terms(load: Load) -> str:
    return orjson.dumps(codec.to_json(load)).decode()


def _load(terms: Any) -> Load:
    with as_stored():
        read = codec.from_json(terms)
    assert isinstance(read, Load)
    return read


def _readable(terms: Any) -> Load | None:
    """The terms of a gate; None when they cannot be read: the other gates of the cluster are updated anyway."""
    try:
        return _load(terms)
    except Exception as failure:  # noqa: BLE001 - a row may hold anything
        log.error("gate.unreadable", reason=described(failure))
        return None


def _reading(row: Any) -> ClusterReading | None:
    return None if row["reading"] is None else load_json.reading_from_json(row["reading"])


def _gate(row: Any) -> LoadGate:
    at, reading = row["at"], _reading(row) if row["at"] is not None else None
    return LoadGate(row["open"], row["since"], reading, at, row["started"], row["failed"], row["failing"])
