"""`ports.intake` on PostgreSQL: one statement for jobs, positions and history together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import asyncpg

from streamsched.domain.job import JobState
from streamsched.ports.intake import Batch, Taken
from streamsched.store.pool import translated
from streamsched.store.sql import queries

_SQL: Final = queries("intake")


class PostgresIntake:
    """See `ports.intake.IntakeStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def positions(self, topic: str, partitions: int) -> Mapping[int, int]:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["ensure"], topic, partitions)
                rows = await connection.fetch(_SQL["positions"], topic)
        return {row["partition"]: row["position"] for row in rows if row["partition"] < partitions}

    async def take(self, topic: str, batches: Sequence[Batch], *, now: datetime) -> Taken:
        jobs = [(batch.partition, *job) for batch in batches for job in batch.satisfactions]
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
        return Taken(frozenset(row["partitions"]), row["jobs"], row["obsolete"])
