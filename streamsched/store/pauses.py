"""`ports.catalog.PauseBook` in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import asyncpg

from streamsched.domain.names import ScheduleRef
from streamsched.store.pool import translated
from streamsched.store.sql import queries

_SQL = queries("pauses")


class PostgresPauses:
    """`PauseBook`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def over(self, *, now: datetime, limit: int) -> Sequence[ScheduleRef]:
        with translated():
            rows = await self._pool.fetch(_SQL["over"], now, limit)
        return [ScheduleRef.parse(row["schedule"]) for row in rows]

    async def next_end(self) -> datetime | None:
        with translated():
            return await self._pool.fetchval(_SQL["next_end"])
