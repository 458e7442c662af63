"""`ports.outbox` on PostgreSQL; `write` and `copy` run in the transaction of a change."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from streamsched.ports.outbox import OutboxRecord, PendingRecord
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.sql import COPIED, Select, fetch_value, queries, slices

_SQL = queries("catalog/outbox")

#: Most bytes of keys and values of one read of the relay; a larger record is read alone.
_BATCH_BYTES: Final = 8 * 1024 * 1024
_PENDING: Final = Select(_SQL["pending"], PendingRecord)


async def write(connection: Connection, records: Sequence[OutboxRecord]) -> list[int]:
    """Writes records in order within the caller's transaction, and returns their ids.

    Transactions whose records must keep their order in the log exclude each other by a row's lock before this call.
    """
    ids: list[int] = []
    for part in slices(records):
        topics, keys, values = zip(*part, strict=True)
        ids += [number for (number,) in await connection.fetch(_SQL["write"], topics, keys, values)]
    return ids


async def list_unsent(connection: Connection, keys: Sequence[str]) -> list[int]:
    """The ids of records with these keys that the log has not acknowledged yet."""
    if not keys:
        return []
    return [number for (number,) in await connection.fetch(_SQL["unsent"], keys)]


async def copy(connection: Connection, records: Sequence[OutboxRecord]) -> None:
    """Writes records, many by COPY, without returning their ids."""
    if len(records) < COPIED:
        await write(connection, records)
    else:
        await connection.copy_records_to_table("outbox", records=records, columns=("topic", "key", "value"))


class PostgresOutbox:
    """`ports.outbox.Outbox` on PostgreSQL. What is left of it tells what the log has acknowledged."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list_pending(self, *, limit: int, beside: Collection[int] = ()) -> Sequence[PendingRecord]:
        """The visible records, smallest ids first, without the ids `beside`."""
        with translate_errors():
            return await _PENDING.fetch(self._pool, limit, beside, _BATCH_BYTES)

    async def forget(self, ids: Sequence[int]) -> None:
        """Deletes records that the log has acknowledged, and notifies `RELAYED`. Idempotent."""
        with translate_errors():
            await self._pool.execute(_SQL["forget"], ids)

    async def advance(self, last: int) -> bool:
        """Has new records get ids greater than `last`; returns whether they would have got others."""
        with translate_errors():
            return await self._pool.fetchval(_SQL["advance"], last) is not None

    async def count_outstanding(self, ids: Sequence[int]) -> int:
        """How many of these records the log has not acknowledged yet.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        with translate_errors():
            return await fetch_value(self._pool, _SQL["outstanding"], int, ids)

    async def count_between(self, first: int, last: int) -> int:
        """How many records with ids in this range (both included) the log has not acknowledged yet.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        with translate_errors():
            return await fetch_value(self._pool, _SQL["between"], int, first, last)
