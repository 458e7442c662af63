"""`ports.outbox` in PostgreSQL; `write` joins the transaction of whoever changes something."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import asyncpg

from streamsched.ports.outbox import OutboxRecord, PendingRecord
from streamsched.store.pool import translated
from streamsched.store.sql import queries

_SQL = queries("outbox")


async def write(connection: Any, records: Sequence[OutboxRecord]) -> list[int]:
    """Writes records in their order within the caller's transaction, and returns their ids.

    Two transactions whose records must keep their order in the log exclude each other (by a row's lock) before they
    come here.
    """
    if not records:
        return []
    topics, keys, values = zip(*records, strict=True)
    return [row["id"] for row in await connection.fetch(_SQL["write"], topics, keys, values)]


async def unsent(connection: Any, keys: Sequence[str]) -> list[int]:
    """The ids of records with these keys that the log has not acknowledged yet."""
    if not keys:
        return []
    return [row["id"] for row in await connection.fetch(_SQL["unsent"], keys)]


async def copy(connection: Any, records: Sequence[OutboxRecord]) -> None:
    """As `write`, for many records whose ids nobody needs."""
    if records:
        await connection.copy_records_to_table("outbox", records=records, columns=("topic", "key", "value"))


class PostgresOutbox:
    """`Outbox` and `Receipts`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def pending(self, *, limit: int, beside: Collection[int] = ()) -> Sequence[PendingRecord]:
        with translated():
            rows = await self._pool.fetch(_SQL["pending"], limit, beside)
        return [PendingRecord(*row) for row in rows]

    async def forget(self, ids: Sequence[int]) -> None:
        with translated():
            await self._pool.execute(_SQL["forget"], ids)

    async def outstanding(self, ids: Sequence[int]) -> int:
        with translated():
            return await self._pool.fetchval(_SQL["outstanding"], ids)
