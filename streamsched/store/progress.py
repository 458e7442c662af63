"""`ports.progress` in PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping

import asyncpg

from streamsched.ports.progress import Copied
from streamsched.store.pool import translated
from streamsched.store.sql import queries

_SQL = queries("progress")


class PostgresProgress:
    """`ProgressStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def positions(self, topic: str) -> Mapping[int, int]:
        with translated():
            rows = await self._pool.fetch(_SQL["positions"], topic)
        return {row["partition"]: row["position"] for row in rows}

    async def save(self, topic: str, copied: Copied) -> bool:
        rows = [(str(p.schedule), p.generation, p.sequence, p.explanation, p.at) for p in copied.progress]
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                moved = await connection.fetchval(_SQL["move"], topic, copied.partition, copied.next, copied.start)
                if moved is None:
                    return False
                if rows:
                    await connection.execute(_SQL["put"], *zip(*rows, strict=True))
                if copied.gone:
                    await connection.execute(_SQL["remove"], [str(ref) for ref in copied.gone])
        return True
