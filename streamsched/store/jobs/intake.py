"""Ready jobs from topic `launch` to the table of jobs: one statement stores jobs, positions and history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.codec.records import launch
from streamsched.codec.records.descent import ancestors_of_record
from streamsched.codec.records.withheld import foreign_programs, without_details
from streamsched.domain.access.namespace_grant import NamespaceGrant, SharedKind, covering_grant
from streamsched.domain.jobs.job import JobState, job_id
from streamsched.domain.names import ProgramRef
from streamsched.log.intake import TopicIntake
from streamsched.log.topics import LAUNCH
from streamsched.ports.broker import Broker, Record
from streamsched.ports.clock import Clock
from streamsched.ports.intake import IntakeBatch, IntakeResult, IntakeStore, ReadyJobRow
from streamsched.store.catalog.namespace_grants import BETWEEN, grant_of
from streamsched.store.connections import translate_errors
from streamsched.store.positions import StoredPositions
from streamsched.store.sql import Select, queries
from streamsched.telemetry.metrics import Metrics

_SQL: Final = queries("jobs/intake")


class JobIntake(TopicIntake[ReadyJobRow]):
    """Stores each ready job once; belongs to one task. `metrics` observe how long each took from its satisfaction."""

    def __init__(
        self,
        broker: Broker,
        store: IntakeStore[ReadyJobRow],
        clock: Clock,
        metrics: Metrics | None = None,
        *,
        max_records: int = 500,
    ) -> None:
        self._metrics = metrics or Metrics()
        super().__init__(
            LAUNCH, _row, broker=broker, store=store, clock=clock, max_records=max_records, stored=self._measure
        )

    def _measure(self, rows: Sequence[ReadyJobRow], now: datetime) -> None:
        for row in rows:
            self._metrics.observe("event_to_job_seconds", max(0.0, (now - row.satisfied_at).total_seconds()))


class _Taken(NamedTuple):
    partitions: list[int]
    jobs: int
    obsolete: int
    rung: int


_TAKE: Final = Select(_SQL["take"], _Taken)


class PostgresIntake(StoredPositions):
    """`ports.intake.IntakeStore` of ready jobs on PostgreSQL."""

    async def take(self, topic: str, batches: Sequence[IntakeBatch[ReadyJobRow]], *, now: datetime) -> IntakeResult:
        """Stores ready jobs with the positions after them, in one transaction. A job that is there already is not
        stored again.
        """
        with translate_errors():
            jobs = await self._drop_foreign_details([(batch.partition, job) for batch in batches for job in batch.rows])
            rows = [(partition, *job, ancestors_of_record(job.ready)) for partition, job in jobs]
            columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(8)]
            taken = await _TAKE.fetch_one(
                self._pool,
                topic,
                [batch.partition for batch in batches],
                [batch.start for batch in batches],
                [batch.next for batch in batches],
                *columns,
                now,
                JobState.PENDING_CONSTRAINT,
                JobState.OBSOLETE,
            )
        return IntakeResult(frozenset(taken.partitions), taken.jobs, taken.obsolete)

    async def _drop_foreign_details(self, jobs: Sequence[tuple[int, ReadyJobRow]]) -> Sequence[tuple[int, ReadyJobRow]]:
        """The jobs without details of programs of other namespaces that no grant gives. Asks only when there are ends
        of such programs.
        """
        foreign = {job: programs for _, job in jobs if (programs := foreign_programs(job.schedule, job.ready))}
        if not foreign:
            return jobs
        pairs = {(_namespace(job), program.namespace) for job, programs in foreign.items() for program in programs}
        rows = await BETWEEN.fetch(self._pool, *map(list, zip(*sorted(pairs), strict=True)))
        granted: dict[tuple[str, str], list[NamespaceGrant]] = {}
        for row in rows:
            granted.setdefault((row.grantee, row.owner), []).append(grant_of(row))
        permitted = {}
        for job, programs in foreign.items():
            withheld = {
                each
                for each in programs
                if not _grants_details(each, granted.get((_namespace(job), each.namespace), ()))
            }
            permitted[job] = job._replace(ready=without_details(job.ready, withheld)) if withheld else job
        return [(partition, permitted.get(job, job)) for partition, job in jobs]


def _row(logged: Record) -> ReadyJobRow:
    ready = launch.text_of(logged.value or b"")
    ref, generation, sequence, satisfied_at = launch.peek(ready)
    return ReadyJobRow(job_id(ref, generation, sequence), str(ref), generation, sequence, satisfied_at, ready)


def _namespace(job: ReadyJobRow) -> str:
    return job.schedule.partition(".")[0]


def _grants_details(program: ProgramRef, grants: Sequence[NamespaceGrant]) -> bool:
    known = covering_grant(SharedKind.PROGRAM, f"{program.app}.{program.name}", grants)
    return known is not None and known.details
