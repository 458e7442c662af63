"""`ports.webhooks.work_history.WorkHistory` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import asyncpg

from streamsched.domain.decisions.names_in_reasons import own_names_only
from streamsched.domain.webhooks.change import WorkLine
from streamsched.store.connections import Connection, translated
from streamsched.store.sql import queries

_SQL: Final = queries("webhooks/work_history")


class PostgresWorkHistory:
    """See `ports.webhooks.work_history.WorkHistory`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._settled = 0
        self._last = 0
        self._writers: frozenset[str] = frozenset()

    async def last(self) -> int:
        with translated():
            return await self._pool.fetchval(_SQL["last"])

    async def settled(self) -> int:
        with translated():
            async with self._pool.acquire() as connection:
                if self._writers:
                    self._writers &= await _writers(connection)
                if not self._writers:
                    self._settled = max(self._settled, self._last)
                    self._last = await connection.fetchval(_SQL["last"])
                    self._writers = await _writers(connection)
                    if not self._writers:
                        self._settled = max(self._settled, self._last)
        return self._settled

    async def read(self, after: int, upto: int, *, limit: int, whole: bool = False) -> Sequence[WorkLine]:
        with translated():
            rows = await self._pool.fetch(_SQL["read"], after, upto, limit, whole)
        return [line_of(row) for row in rows]


async def _writers(connection: Connection) -> frozenset[str]:
    return frozenset(row["virtualtransaction"] for row in await connection.fetch(_SQL["writers"]))


def line_of(row: Any) -> WorkLine:
    """A row of the history with what is known of its job or run."""
    reason, detail = own_names_only(row["reason"], row["subject"].partition(".")[0]), row["detail"]
    return WorkLine(**{**row, "reason": reason, "detail": detail if isinstance(detail, Mapping) else None})
