"""Measures that are read only when somebody asks: a handful of counts, each served by a partial index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from streamsched.store.pool import translated
from streamsched.store.sql import queries


@dataclass(frozen=True, slots=True)
class Measures:
    """How things stand.

    Attributes:
        jobs, runs: by state; only those that have not ended.
        schedules: by whether they are enabled.
        outbox: control records not yet in the log.
        overdue: ticks that are due and not yet fired.
        shards: that have a living owner.
        positions: partition of the launch topic → how far it is stored.
    """

    jobs: Mapping[str, int]
    runs: Mapping[str, int]
    schedules: Mapping[bool, int]
    outbox: int
    overdue: int
    shards: int
    positions: Mapping[int, int]


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

    async def measure(self, launch_topic: str, *, now: datetime) -> Measures:
        """Raises:
        UnavailableError: PostgreSQL does not answer.
        """
        with translated():
            async with self._pool.acquire() as connection:
                jobs = await connection.fetch(self._sql["jobs"])
                runs = await connection.fetch(self._sql["runs"])
                schedules = await connection.fetch(self._sql["schedules"])
                positions = await connection.fetch(self._sql["positions"], launch_topic)
                single = await connection.fetchrow(self._sql["single"], now)
        assert single is not None
        return Measures(
            dict(map(tuple, jobs)),
            dict(map(tuple, runs)),
            dict(map(tuple, schedules)),
            single["outbox"],
            single["overdue"],
            single["shards"],
            dict(map(tuple, positions)),
        )
