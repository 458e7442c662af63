"""Counts of waiting work, read when metrics are scraped, each served by a partial index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from streamsched.domain.quotas.quota import QuotaUse, find_most_used
from streamsched.ports.broker import TopicPartition
from streamsched.store.catalog.quota_counts import uses
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.positions import read_positions
from streamsched.store.server.probe import SNAPSHOT
from streamsched.store.server.processes import Processes, machines_ahead
from streamsched.store.server.reports import positions_of
from streamsched.store.sql import Select, queries
from streamsched.store.tasks.queues import COUNTED

_SQL: Final = queries("server/gauges")
#: What ended within that time is counted.
LATELY: Final = timedelta(minutes=5)
#: How long after its due time a task that has not ended is stale.
STALE: Final = timedelta(minutes=5)
#: Quotas that are measured.
_QUOTAS: Final = 200
#: Namespaces of which missing expectations are counted.
_NAMESPACES: Final = 200
#: Programs of which ended runs are counted.
_PROGRAMS: Final = 200


@dataclass(frozen=True, slots=True)
class QueueMeasures:
    """Lanes of one queue of tasks, each counted up to 10,000.

    Attributes:
        in_flight: their head is being delivered.
        due: ready, and not started.
        staged: due, in a queue for workers.
        stuck: their head has failed and waits for its next attempt.
        late: seconds since the first of those that are due was ready.
        stale: tasks, not lanes, that were due longer than `STALE` ago and have not ended.
    """

    in_flight: int
    due: int
    staged: int
    stuck: int
    late: float
    stale: int


class WebhookMeasures(NamedTuple):
    """A webhook. `queued`: changes in its queue; `failing`: seconds for which its target has accepted nothing while
    changes waited; `given_up`: whether the installation disabled it.
    """

    id: str
    queued: int
    failing: float
    given_up: bool


@dataclass(frozen=True, slots=True)
class Measures:
    """Counts of waiting work.

    Attributes:
        jobs, runs: by state; only those that have not ended.
        schedules: by whether they are enabled.
        outbox: control records not yet in the log.
        ticks, wakes: due and not yet sent; `late`: seconds since the first of them was due.
        shards: those with a live owner.
        verdicts: how often each was given, by name and late-event policy ("" when the event was not late).
        positions: how far each partition of the topics stored as rows is stored.
        queues: by name.
        held: waiting jobs by the type of constraint that did not let them start; at most `COUNTED` jobs are read.
        jobs_ended: by state, jobs that ended without a run within `LATELY`.
        runs_ended: by program and state, runs that ended within `LATELY`; of the programs with most of them.
        webhooks: ordered by id.
        shard_positions: by shard, where its next turn starts, as last reported.
        quotas: those of namespaces that are used most.
        missing: expectations whose subject is missing, by namespace.
        unjudged: seconds since the oldest due time of an expectation that is not judged yet.
        snapshot: seconds for which the oldest transaction has kept dead rows from being removed.
        machines: by host, how many seconds its clock is ahead of the time its processes go by.
    """

    jobs: Mapping[str, int]
    runs: Mapping[str, int]
    schedules: Mapping[bool, int]
    outbox: int
    ticks: int
    wakes: int
    late: float
    shards: int
    positions: Mapping[TopicPartition, int]
    verdicts: Mapping[tuple[str, str], int]
    queues: Mapping[str, QueueMeasures]
    held: Mapping[str, int]
    jobs_ended: Mapping[str, int]
    runs_ended: Mapping[tuple[str, str], int]
    shard_positions: Mapping[int, Mapping[TopicPartition, int]]
    quotas: Sequence[QuotaUse]
    webhooks: Sequence[WebhookMeasures]
    missing: Mapping[str, int]
    unjudged: float
    snapshot: float
    machines: Mapping[str, float]


class _Amount(NamedTuple):
    """How many there are of a name: a state, a type, a queue or a namespace."""

    name: str
    amount: int


class _SchedulesAmount(NamedTuple):
    """How many schedules are enabled, or not."""

    enabled: bool
    amount: int


class _VerdictAmount(NamedTuple):
    """How often a verdict was given, with a policy for late events."""

    verdict: str
    late: str
    amount: int


class _Overdue(NamedTuple):
    """What is one number each, and since when the first of it is due."""

    outbox: int
    ticks: int
    wakes: int
    first_due: datetime | None
    shards: int
    first_expected: datetime | None


class _QueueAmounts(NamedTuple):
    """A queue of tasks; `ready_at`: since when its first lane is ready; `staged`: whether it is for workers."""

    name: str
    staged: bool | None
    in_flight: int
    due: int
    stale: int
    ready_at: datetime | None


class _EndedRuns(NamedTuple):
    """How many runs of a program ended in a state."""

    program: str
    state: str
    amount: int


class _ShardPositions(NamedTuple):
    """Where the next turn of a shard starts, as it reported."""

    shard: int
    positions: Any


_JOBS: Final = Select(_SQL["jobs"], _Amount)
_RUNS: Final = Select(_SQL["runs"], _Amount)
_SCHEDULES: Final = Select(_SQL["schedules"], _SchedulesAmount)
_VERDICTS: Final = Select(_SQL["verdicts"], _VerdictAmount)
_OVERDUE: Final = Select(_SQL["overdue"], _Overdue)
_QUEUES: Final = Select(_SQL["queues"], _QueueAmounts)
_HELD: Final = Select(_SQL["held"], _Amount)
_JOBS_ENDED: Final = Select(_SQL["jobs_ended"], _Amount)
_RUNS_ENDED: Final = Select(_SQL["runs_ended"], _EndedRuns)
_SHARD_POSITIONS: Final = Select(_SQL["shard_positions"], _ShardPositions)
_WEBHOOKS: Final = Select(_SQL["webhooks"], WebhookMeasures)
_MISSING: Final = Select(_SQL["missing"], _Amount)
_STUCK: Final = Select(_SQL["stuck"], _Amount)


class Gauges:
    """Reads the counts of one installation."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def answers(self) -> None:
        """Returns when PostgreSQL has answered a query.

        Raises:
            UnavailableError: PostgreSQL does not answer.
        """
        with translate_errors():
            await self._pool.fetchval("SELECT 1")

    async def measure(self, *, now: datetime) -> Measures:
        """Measures what metrics show of the database.

        Raises:
            UnavailableError: PostgreSQL does not answer.
        """
        processes = await Processes(self._pool).list_live()
        with translate_errors():
            async with self._pool.acquire() as connection:
                overdue = await _OVERDUE.fetch_one(connection, now)
                stuck = dict(await _STUCK.fetch(connection, COUNTED))
                queues = await _QUEUES.fetch(connection, now, COUNTED, now - STALE)
                verdicts = await _VERDICTS.fetch(connection)
                runs_ended = await _RUNS_ENDED.fetch(connection, now - LATELY, _PROGRAMS)
                reports = await _SHARD_POSITIONS.fetch(connection)
                snapshot = await SNAPSHOT.fetchrow(connection)
                quotas = await uses(connection, None, now=now)
                return Measures(
                    jobs=dict(await _JOBS.fetch(connection)),
                    runs=dict(await _RUNS.fetch(connection)),
                    schedules=dict(await _SCHEDULES.fetch(connection)),
                    outbox=overdue.outbox,
                    ticks=overdue.ticks,
                    wakes=overdue.wakes,
                    late=_seconds_since(overdue.first_due, now),
                    shards=overdue.shards,
                    positions=await read_positions(connection),
                    verdicts={(row.verdict, row.late): row.amount for row in verdicts},
                    queues={row.name: _queue_measures(row, stuck.get(row.name, 0), now) for row in queues},
                    held=dict(await _HELD.fetch(connection, COUNTED)),
                    jobs_ended=dict(await _JOBS_ENDED.fetch(connection, now - LATELY)),
                    runs_ended={(row.program, row.state): row.amount for row in runs_ended},
                    shard_positions={row.shard: positions_of(row.positions) for row in reports},
                    quotas=find_most_used((use for use in quotas if use.ratio is not None), _QUOTAS),
                    webhooks=await _WEBHOOKS.fetch(connection, now),
                    missing=dict(await _MISSING.fetch(connection, _NAMESPACES)),
                    unjudged=_seconds_since(overdue.first_expected, now),
                    snapshot=0.0 if snapshot is None else snapshot.age,
                    machines=machines_ahead(processes),
                )


def _queue_measures(row: _QueueAmounts, stuck: int, now: datetime) -> QueueMeasures:
    late = _seconds_since(row.ready_at, now)
    return QueueMeasures(row.in_flight, row.due, row.due if row.staged else 0, stuck, late, row.stale)


def _seconds_since(at: datetime | None, now: datetime) -> float:
    """Seconds since then; 0 for none, and for what lies ahead."""
    return 0.0 if at is None else max(0.0, (now - at).total_seconds())
