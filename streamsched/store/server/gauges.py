"""`ports.server.Gauges` on PostgreSQL: counts read when metrics are scraped, each served by a partial index."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import asyncpg

from streamsched.domain.quotas.quota import most_used
from streamsched.ports.broker import TopicPartition
from streamsched.ports.server import LATELY, STALE, Measures, QueueMeasures, WebhookMeasures
from streamsched.store.catalog.quota_counts import uses
from streamsched.store.connections import translated
from streamsched.store.server.reports import positions_of
from streamsched.store.sql import queries
from streamsched.store.tasks.queues import COUNTED

#: Quotas that are measured.
_QUOTAS: Final = 200
#: Namespaces of which missing expectations are counted.
_NAMESPACES: Final = 200
#: Programs of which ended runs are counted.
_PROGRAMS: Final = 200


class PostgresGauges:
    """See `ports.server.Gauges`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._sql = queries("server/gauges")

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
                queues = await connection.fetch(self._sql["queues"], now, COUNTED, now - STALE)
                held = await connection.fetch(self._sql["held"], COUNTED)
                jobs_ended = await connection.fetch(self._sql["jobs_ended"], now - LATELY)
                runs_ended = await connection.fetch(self._sql["runs_ended"], now - LATELY, _PROGRAMS)
                reports = await connection.fetch(self._sql["shard_positions"])
                quotas = await uses(connection, None, now=now)
                webhooks = await connection.fetch(self._sql["webhooks"], now)
                missing = await connection.fetch(self._sql["missing"], _NAMESPACES)
                stuck = dict(map(tuple, await connection.fetch(self._sql["stuck"], COUNTED)))
        assert single is not None
        return Measures(
            dict(map(tuple, jobs)),
            dict(map(tuple, runs)),
            dict(map(tuple, schedules)),
            single["outbox"],
            single["ticks"],
            single["wakes"],
            _since(single["first_due"], now),
            single["shards"],
            {TopicPartition(row["topic"], row["partition"]): row["position"] for row in positions},
            {(row["verdict"], row["late"]): row["amount"] for row in verdicts},
            {row["name"]: _of_queue(row, stuck.get(row["name"], 0), now) for row in queues},
            dict(map(tuple, held)),
            dict(map(tuple, jobs_ended)),
            {(row["program"], row["state"]): row["amount"] for row in runs_ended},
            {row["shard"]: positions_of(row["positions"]) for row in reports},
            most_used((use for use in quotas if use.ratio is not None), _QUOTAS),
            {row["id"]: WebhookMeasures(row["queued"], row["failing"], row["given_up"]) for row in webhooks},
            dict(map(tuple, missing)),
            _since(single["first_expected"], now),
        )


def _of_queue(row: Any, stuck: int, now: datetime) -> QueueMeasures:
    late = _since(row["ready_at"], now)
    staged = row["due"] if row["staged"] else 0
    return QueueMeasures(row["in_flight"], row["due"], staged, stuck, late, row["stale"])


def _since(at: datetime | None, now: datetime) -> float:
    """Seconds since then; 0 for none, and for what lies ahead."""
    return 0.0 if at is None else max(0.0, (now - at).total_seconds())
