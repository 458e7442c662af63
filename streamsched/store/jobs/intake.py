"""`ports.intake.IntakeStore` of ready jobs on PostgreSQL: one statement stores jobs, positions and history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from streamsched.domain.jobs.job import JobState
from streamsched.ports.intake import IntakeBatch, IntakeResult, ReadyJobRow
from streamsched.store.connections import translated
from streamsched.store.positions import StoredPositions
from streamsched.store.sql import queries

_SQL: Final = queries("jobs/intake")


class PostgresIntake(StoredPositions):
    """See `ports.intake.IntakeStore`."""

    async def take(self, topic: str, batches: Sequence[IntakeBatch[ReadyJobRow]], *, now: datetime) -> IntakeResult:
        jobs = [(batch.partition, *job) for batch in batches for job in batch.rows]
        columns = [list(column) for column in zip(*jobs, strict=True)] if jobs else [[] for _ in range(7)]
        with translated():
            row = await self._pool.fetchrow(
                _SQL["take"],
                topic,
                [batch.partition for batch in batches],
                [batch.start for batch in batches],
                [batch.next for batch in batches],
                *columns,
                now,
                JobState.PENDING_CONSTRAINT,
                JobState.OBSOLETE,
            )
        assert row is not None
        return IntakeResult(frozenset(row["partitions"]), row["jobs"], row["obsolete"])
