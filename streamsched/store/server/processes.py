"""The processes of an installation, as each says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import asyncpg

from streamsched.ports.server import ProcessRow
from streamsched.store.connections import translated
from streamsched.store.sql import queries

_SQL: Final = queries("server/processes")


class PostgresProcesses:
    """Every method raises UnavailableError when PostgreSQL is unavailable."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def put(self, row: ProcessRow) -> None:
        """Stores what a process says of itself."""
        with translated():
            await self._pool.execute(
                _SQL["put"], row.id, row.role, row.host, row.pid, row.release, row.tzdata, row.own_ahead_s
            )

    async def live(self) -> Sequence[ProcessRow]:
        """Those that have said something lately, by id."""
        with translated():
            return [ProcessRow(**row) for row in await self._pool.fetch(_SQL["live"])]
