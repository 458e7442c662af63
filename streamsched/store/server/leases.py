"""`ports.leases.Leases` on PostgreSQL; its clock decides which leases have expired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, LiteralString

import asyncpg

from streamsched.ports.leases import Lease, LeaseHolder, Membership
from streamsched.store.connections import translated
from streamsched.store.expected_time import ExpectedTime, expected
from streamsched.store.sql import queries

#: Rows of processes without a heartbeat for this many lease times are deleted.
_FORGET_AFTER: Final = 100


class PostgresLeases:
    """See `ports.leases.Leases`. The heartbeats of the holders are in table `members`; they are shown the leases like
    `names`. With `theirs` no lease expires while PostgreSQL's clock says something else: a shard, a role or a partition
    does not change hands because of a jump.
    """

    def __init__(
        self,
        pool: asyncpg.Pool,
        *,
        theirs: ExpectedTime | None = None,
        members: LiteralString = "workers",
        names: str = "%",
    ) -> None:
        self._pool = pool
        self._theirs = theirs
        self._names = names
        self._sql = {name: sql.replace("{members}", members) for name, sql in queries("server/leases").items()}

    async def heartbeat(self, holder: LeaseHolder, held: Mapping[str, int], ttl: timedelta) -> Membership:
        with translated():
            row = await self._pool.fetchrow(
                self._sql["beat"],
                *(holder.id, holder.host, holder.pid, holder.reads),
                *(ttl, ttl * _FORGET_AFTER),
                *(list(held), list(held.values()), self._names, expected(self._theirs)),
            )
        assert row is not None
        return Membership(dict(row["workers"]), tuple(Lease(*lease) for lease in row["leases"]))

    async def claim(
        self, names: Sequence[str], owner: str, ttl: timedelta, *, reads: int | None = None
    ) -> Mapping[str, int]:
        with translated():
            rows = await self._pool.fetch(self._sql["claim"], list(names), owner, ttl, reads, expected(self._theirs))
        return {row["name"]: row["epoch"] for row in rows}

    async def renew(self, held: Mapping[str, int], owner: str, ttl: timedelta) -> frozenset[str]:
        with translated():
            rows = await self._pool.fetch(self._sql["renew"], list(held), list(held.values()), owner, ttl)
        return frozenset(row["name"] for row in rows)

    async def allow(self, held: Mapping[str, int], owner: str, version: int) -> frozenset[str]:
        with translated():
            rows = await self._pool.fetch(self._sql["allow"], list(held), list(held.values()), owner, version)
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
