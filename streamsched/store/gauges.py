"""Measures that are read only when somebody asks: a handful of counts, each served by a partial index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from streamsched.ports.broker import TopicPartition
from streamsched.store.pool import translated
from streamsched.store.sql import queries


@dataclass(frozen=True, slots=True)
class Measures:
    """How things stand.

    Attributes:
        jobs, runs: by state; only those that have not ended.
        schedules: by whether they are enabled.
        outbox: control records not yet in the log.
        ticks, wakes: that are due and not yet sent; `late` says for how long the first of them, in seconds.
        shards: that have a living owner.
        verdicts: how often each was given, by name and what was done with a late event ("" when it was none).
        positions: how far the partitions of the topics that become rows are stored.
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


class PostgresGauges:
    """Takes the measures from a pool."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._sql = queries("gauges")

    async def answers(self) -> None:
        """Raises:
        UnavailableError: PostgreSQL does not answer.
        """
        with translated():
            await self._pool.fetchval("SELECT 1")

    async def measure(self, *, now: datetime) -> Measures:
        """Raises:
        UnavailableError: PostgreSQL does not answer.
        """
        with translated():
            async with self._pool.acquire() as connection:
                jobs = await connection.fetch(self._sql["jobs"])
                runs = await connection.fetch(self._sql["runs"])
                schedules = await connection.fetch(self._sql["schedules"])
                positions = await connection.fetch(self._sql["positions"])
                verdicts = await connection.fetch(self._sql["verdicts"])
                single = await connection.fetchrow(self._sql["single"], now)
        assert single is not None
        return Measures(
            dict(map(tuple, jobs)),
            dict(map(tuple, runs)),
            dict(map(tuple, schedules)),
            single["outbox"],
            single["ticks"],
            single["wakes"],
            0.0 if single["first_due"] is None else max(0.0, (now - single["first_due"]).total_seconds()),
            single["shards"],
            {TopicPartition(row["topic"], row["partition"]): row["position"] for row in positions},
            {(row["verdict"], row["late"]): row["amount"] for row in verdicts},
        )
