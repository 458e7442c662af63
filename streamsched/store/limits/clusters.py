"""Readings of clusters, and load gates in the transactions of decisions.

Gates are locked after jobs, groups and token buckets; their holder waits for no other lock.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import orjson
import structlog

from streamsched.codec.schedules import constraint as codec
from streamsched.codec.schedules import load as load_json
from streamsched.domain.constraints.load import ClusterReading, Load, LoadGate
from streamsched.domain.decisions.admission import Satisfied
from streamsched.domain.decisions.decision import Admit, Decision, DecisionInput, Wait
from streamsched.domain.errors import describe_failure
from streamsched.store.connections import Connection, Executor, Pool, translate_errors
from streamsched.store.sql import Select, queries

log = structlog.get_logger()

_SQL: Final = queries("limits/clusters")


class _GateRow(NamedTuple):
    """A gate with the state of its cluster."""

    terms: Any
    open: bool
    since: datetime | None
    at: datetime | None
    started: int
    reading: Any | None
    failed: str | None
    failing: datetime | None


class _ListedGate(NamedTuple):
    terms: Any
    open: bool
    since: datetime | None
    at: datetime | None
    started: int
    reading: Any | None
    failed: str | None
    failing: datetime | None
    cluster: str
    waiting: int


class _GateState(NamedTuple):
    terms: Any
    open: bool
    since: datetime | None


class _ClusterRow(NamedTuple):
    name: str
    reading: Any | None
    at: datetime | None
    failed: str | None
    failing: datetime | None
    waiting: int


_LOCK: Final = Select(_SQL["lock"], _GateRow)
_PEEK: Final = Select(_SQL["peek"], _GateRow)
_GATES: Final = Select(_SQL["gates"], _GateState)
_LIST: Final = Select(_SQL["list"], _ClusterRow)
_LIST_GATES: Final = Select(_SQL["list_gates"], _ListedGate)


@dataclass(frozen=True, slots=True)
class GateRecord:
    """The gate of one `Load` after the readings of its cluster; `waiting`: how many jobs it holds."""

    load: Load
    gate: LoadGate
    waiting: int


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The stored state of a cluster.

    Attributes:
        reading, at: the last reading and its time.
        failed: why the probe fails now, and `failing` since when.
        waiting: how many jobs wait for it.
        gates: of every `Load` that a job ever used.
    """

    name: str
    reading: ClusterReading | None
    at: datetime | None
    failed: str | None
    failing: datetime | None
    waiting: int
    gates: Sequence[GateRecord] = ()


class ClusterStore:
    """Readings of clusters, shared by all launchers."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def claim_wanted(self, now: datetime, *, every: timedelta, patience: timedelta) -> Sequence[str]:
        """Clusters that jobs wait for and whose reading is older than `every`; reserved for the caller to read for
        `patience`.
        """
        with translate_errors():
            return [row["name"] for row in await self._pool.fetch(_SQL["wanted"], now, now - every, now + patience)]

    async def next_due_at(self, now: datetime, *, every: timedelta) -> datetime | None:
        """When the next one is wanted; None when no job waits for a cluster."""
        with translate_errors():
            return await self._pool.fetchval(_SQL["next_due"], every)

    async def record_reading(self, cluster: str, reading: ClusterReading, *, now: datetime) -> int:
        """Stores a reading, updates the gates, and wakes as many jobs of open gates as may start. Returns how many."""
        woken = 0
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["read"], cluster, load_json.reading_to_json(reading), now)
                for terms, was_open, since in await _GATES.fetch(connection, cluster):
                    load = _load_or_none(terms)
                    if load is None:
                        continue
                    gate = LoadGate(was_open, since).update(load, reading, now)
                    await connection.execute(_SQL["turn"], cluster, terms, gate.open, gate.since, now)
                    if gate.open:
                        woken += len(await connection.fetch(_SQL["wake"], cluster, terms, load.starts))
        return woken

    async def record_failure(self, cluster: str, reason: str, *, now: datetime) -> None:
        """Stores why there is no reading; the last one stays valid until it is stale."""
        with translate_errors():
            await self._pool.execute(_SQL["failed"], cluster, reason, now)

    async def all(self) -> Sequence[ClusterRecord]:
        """Clusters that a job ever waited for, ordered by name."""
        with translate_errors():
            rows = await _LIST.fetch(self._pool)
            gates: dict[str, list[GateRecord]] = defaultdict(list)
            for row in await _LIST_GATES.fetch(self._pool):
                if (load := _load_or_none(row.terms)) is not None:
                    gates[row.cluster].append(GateRecord(load, _gate(row), row.waiting))
        return [ClusterRecord(row.name, _reading(row.reading), *row[2:], gates[row.name]) for row in rows]


async def lock_gates(connection: Connection, loads: Iterable[Load]) -> Mapping[Load, LoadGate]:
    """Locks the gates of the loads until the transaction ends; missing ones are created closed."""
    columns = _columns(loads)
    if not columns[0]:
        return {}
    await connection.execute(_SQL["ensure"], *columns)
    return {_load(row.terms): _gate(row) for row in await _LOCK.fetch(connection, *columns)}


async def read_gates(connection: Connection, loads: Iterable[Load]) -> Mapping[Load, LoadGate]:
    """The gates of the loads, without locks; those that do not exist are missing."""
    columns = _columns(loads)
    rows = await _PEEK.fetch(connection, *columns) if columns[0] else ()
    return {_load(row.terms): _gate(row) for row in rows}


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
        (each.job, load) for each in decisions if isinstance(each, Wait) and (load := _first_gate(decision_input, each))
    ]
    if waits:
        await connection.execute(_SQL["queue"], [job for job, _ in waits], *_columns(load for _, load in waits))


async def forget(executor: Executor) -> None:
    """Deletes rows of jobs that no longer wait for a gate."""
    await executor.execute(_SQL["forget"])


def _first_gate(decision_input: DecisionInput, wait: Wait) -> Load | None:
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
    read = codec.from_json(terms)
    assert isinstance(read, Load)
    return read


def _load_or_none(terms: Any) -> Load | None:
    """The terms of a gate; None when they cannot be read: the other gates of the cluster are updated anyway."""
    try:
        return _load(terms)
    except Exception as failure:  # noqa: BLE001 - a row may hold anything
        log.error("gate.unreadable", reason=describe_failure(failure))
        return None


def _reading(stored: Any) -> ClusterReading | None:
    return None if stored is None else load_json.reading_from_json(stored)


def _gate(row: _GateRow | _ListedGate) -> LoadGate:
    reading = None if row.at is None else _reading(row.reading)
    return LoadGate(row.open, row.since, reading, row.at, row.started, row.failed, row.failing)
