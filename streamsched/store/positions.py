"""How far topics of the log are stored. The statement that stores rows also moves the position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import asyncpg

from streamsched.store.connections import translated
from streamsched.store.sql import queries

_SQL: Final = queries("positions")


class StoredPositions:
    """The part of `ports.intake.IntakeStore` that is the same for every table."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def positions(self, topic: str, partitions: int) -> Mapping[int, int]:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["ensure"], topic, partitions)
                rows = await connection.fetch(_SQL["positions"], topic)
        return {row["partition"]: row["position"] for row in rows if row["partition"] < partitions}
