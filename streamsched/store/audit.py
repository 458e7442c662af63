"""The audit: append-only, its rows form a chain (ADR 30). Triggers refuse changes and removals of its rows and of its
head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from streamsched.domain.access.audit import AuditEntry, AuditHead
from streamsched.domain.errors import UnavailableError
from streamsched.domain.limits import MOST
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.sql import Select, queries

_SQL: Final = queries("audit")
_HEAD: Final = Select(_SQL["head"], AuditHead)
_NEWEST: Final = Select(_SQL["newest"], AuditEntry)
_NEWEST_OF_CALLER: Final = Select(_SQL["newest_of_caller"], AuditEntry)
_FOLLOWING: Final = Select(_SQL["following"], AuditEntry)


class AuditStore:
    """Each method raises UnavailableError when PostgreSQL cannot be reached."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def append(
        self, *, caller: str, action: str, target: str, detail: Mapping[str, Any], now: datetime
    ) -> AuditEntry:
        """Appends an entry behind the last one and returns it."""
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                return await append(connection, caller=caller, action=action, target=target, detail=detail, now=now)

    async def list_newest(self, *, before: int | None = None, caller: str = "", limit: int) -> Sequence[AuditEntry]:
        """Entries with a number below `before`, newest first; of this caller only, unless it is empty."""
        bound = MOST if before is None else before
        with translate_errors():
            if caller:
                return await _NEWEST_OF_CALLER.fetch(self._pool, bound, limit, caller)
            return await _NEWEST.fetch(self._pool, bound, limit)

    async def head(self) -> AuditHead | None:
        """The last entry that was appended, which is kept beside the entries; None: it was removed."""
        with translate_errors():
            return await _HEAD.fetchrow(self._pool)

    async def list_after(self, number: int, *, limit: int) -> Sequence[AuditEntry]:
        """Entries behind this number, oldest first."""
        with translate_errors():
            return await _FOLLOWING.fetch(self._pool, number, limit)


async def append(
    connection: Connection, *, caller: str, action: str, target: str, detail: Mapping[str, Any], now: datetime
) -> AuditEntry:
    """Appends an entry in the transaction of the connection, which others that append wait for.

    Raises:
        UnavailableError: the record of the last entry was removed.
    """
    await connection.execute(_SQL["lock"])
    last = await _HEAD.fetchrow(connection)
    if last is None:
        raise UnavailableError("the audit cannot go on: the record of its last entry was removed")
    entry = AuditEntry(
        number=last.number + 1,
        at=now,
        caller=caller,
        action=action,
        target=target,
        detail=dict(detail),
        previous=last.hash,
    ).with_hash()
    await connection.execute(_SQL["append"], *entry)
    return entry
