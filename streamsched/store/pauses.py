"""`ports.catalog.PauseBook` in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import asyncpg

from streamsched.domain.names import ScheduleRef
from streamsched.domain.pause import Pause
from streamsched.ports.catalog import Break
from streamsched.store.pool import translated
from streamsched.store.sql import queries

_SQL = queries("pauses")


class PostgresPauses:
    """`PauseBook`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def broken(self, *, limit: int) -> Sequence[Break]:
        with translated():
            rows = await self._pool.fetch(_SQL["broken"], limit)
        return [
            Break(
                ScheduleRef.parse(row["schedule"]),
                row["generation"],
                Pause(row["keep"], row["until"], row["note"]),
            )
            for row in rows
        ]

    async def mended(self, broken: Break) -> None:
        with translated():
            await self._pool.execute(_SQL["mended"], str(broken.schedule), broken.generation)

    async def over(self, *, now: datetime, limit: int) -> Sequence[ScheduleRef]:
        with translated():
            rows = await self._pool.fetch(_SQL["over"], now, limit)
        return [ScheduleRef.parse(row["schedule"]) for row in rows]

    async def next_end(self) -> datetime | None:
        with translated():
            return await self._pool.fetchval(_SQL["next_end"])
