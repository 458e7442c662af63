"""`ports.catalog.PauseStore` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import asyncpg

from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.pause import Pause, PauseMode
from streamsched.ports.schedules.pauses import FailureStreak
from streamsched.store.connections import translated
from streamsched.store.sql import queries

_SQL = queries("catalog/pauses")


class PostgresPauseStore:
    """See `ports.catalog.PauseStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def broken(self, *, limit: int) -> Sequence[FailureStreak]:
        with translated():
            rows = await self._pool.fetch(_SQL["broken"], limit)
        return [
            FailureStreak(
                ScheduleRef.parse(row["schedule"]),
                row["generation"],
                Pause(PauseMode.of(keep=row["keep"]), row["until"], row["note"]),
            )
            for row in rows
        ]

    async def mended(self, broken: FailureStreak) -> None:
        with translated():
            await self._pool.execute(_SQL["mended"], str(broken.schedule), broken.generation)

    async def over(self, *, now: datetime, limit: int) -> Sequence[ScheduleRef]:
        with translated():
            rows = await self._pool.fetch(_SQL["over"], now, limit)
        return [ScheduleRef.parse(row["schedule"]) for row in rows]

    async def next_end(self) -> datetime | None:
        with translated():
            return await self._pool.fetchval(_SQL["next_end"])
