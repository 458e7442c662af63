"""Leases in PostgreSQL, judged by its clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

import asyncpg

from streamsched.ports.leases import Lease, View, Worker
from streamsched.store.pool import translated
from streamsched.store.sql import queries

#: Workers not heard of for this many lease times are forgotten.
_FORGET_AFTER: Final = 100


class PostgresLeases:
    """`ports.leases.Leases` over a pool."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._sql = queries("leases")

    async def beat(self, worker: Worker, held: Mapping[str, int], ttl: timedelta) -> View:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(self._sql["alive"], worker.id, worker.host, worker.pid)
                await connection.execute(self._sql["forget"], ttl * _FORGET_AFTER)
                if held:
                    await connection.fetch(self._sql["renew"], list(held), list(held.values()), worker.id, ttl)
                workers = await connection.fetch(self._sql["workers"], ttl)
                leases = await connection.fetch(self._sql["leases"])
        return View(tuple(row["id"] for row in workers), tuple(Lease(**row) for row in leases))

    async def claim(self, names: Sequence[str], owner: str, ttl: timedelta) -> Mapping[str, int]:
        with translated():
            rows = await self._pool.fetch(self._sql["claim"], list(names), owner, ttl)
        return {row["name"]: row["epoch"] for row in rows}

    async def renew(self, held: Mapping[str, int], owner: str, ttl: timedelta) -> frozenset[str]:
        with translated():
            rows = await self._pool.fetch(self._sql["renew"], list(held), list(held.values()), owner, ttl)
        return frozenset(row["name"] for row in rows)

    async def want(self, names: Sequence[str], worker: str) -> None:
        with translated():
            await self._pool.execute(self._sql["want"], list(names), worker)

    async def release(self, held: Mapping[str, int], owner: str) -> None:
        with translated():
            await self._pool.execute(self._sql["release"], list(held), list(held.values()), owner)

    async def leave(self, worker: str) -> None:
        with translated():
            await self._pool.execute(self._sql["leave"], worker)
