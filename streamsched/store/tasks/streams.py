"""`ports.tasks.delivery.StreamAddresses` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import asyncpg

from streamsched.store.connections import translated
from streamsched.store.sql import queries

_SQL: Final = queries("tasks/streams")


class PostgresStreamAddresses:
    """See `ports.tasks.delivery.StreamAddresses`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def announce(self, owner: str, url: str) -> None:
        with translated():
            await self._pool.execute(_SQL["announce"], owner, url)

    async def withdraw(self, owner: str) -> None:
        with translated():
            await self._pool.execute(_SQL["withdraw"], owner)

    async def all(self) -> Mapping[str, str]:
        with translated():
            return {row["owner"]: row["url"] for row in await self._pool.fetch(_SQL["list"])}
