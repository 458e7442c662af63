"""`ports.access.audit.AuditStore` on PostgreSQL. Triggers refuse changes and removals of its rows and of its head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import asyncpg

from streamsched.domain.access.audit import AuditEntry, AuditHead
from streamsched.domain.errors import UnavailableError
from streamsched.domain.limits import MOST
from streamsched.store.connections import translated
from streamsched.store.sql import queries

_SQL: Final = queries("access/audit")


class PostgresAuditStore:
    """See `ports.access.audit.AuditStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def append(
        self, *, caller: str, action: str, target: str, detail: Mapping[str, Any], now: datetime
    ) -> AuditEntry:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["lock"])
                last = _head(await connection.fetchrow(_SQL["head"]))
                if last is None:
                    raise UnavailableError("the audit cannot go on: the record of its last entry was removed")
                entry = AuditEntry(
                    number=last.number + 1,
                    at=now,
                    caller=caller,
                    action=action,
                    target=target,
                    detail=detail,
                    previous=last.hash,
                ).sealed()
                await connection.execute(
                    _SQL["append"],
                    *(entry.number, entry.at, entry.caller, entry.action, entry.target),
                    *(dict(entry.detail), entry.previous, entry.hash),
                )
        return entry

    async def newest(self, *, before: int | None = None, caller: str = "", limit: int) -> Sequence[AuditEntry]:
        bound = MOST if before is None else before
        with translated():
            if caller:
                return [_entry(row) for row in await self._pool.fetch(_SQL["newest_of_caller"], bound, limit, caller)]
            return [_entry(row) for row in await self._pool.fetch(_SQL["newest"], bound, limit)]

    async def head(self) -> AuditHead | None:
        with translated():
            return _head(await self._pool.fetchrow(_SQL["head"]))

    async def following(self, number: int, *, limit: int) -> Sequence[AuditEntry]:
        with translated():
            return [_entry(row) for row in await self._pool.fetch(_SQL["following"], number, limit)]


def _head(row: Any) -> AuditHead | None:
    return None if row is None else AuditHead(**dict(row))


def _entry(row: Any) -> AuditEntry:
    return AuditEntry(**dict(row))
