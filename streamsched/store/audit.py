"""The audit: append-only, its rows form a chain (ADR 30). Triggers refuse changes of its rows and of its head, and
removals but of entries that were kept for their time, which an entry says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from streamsched.domain.access.audit import FORGET, AuditEntry, AuditHead
from streamsched.domain.errors import UnavailableError
from streamsched.domain.limits import MOST
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.sql import Select, queries

_SQL: Final = queries("audit")
_HEAD: Final = Select(_SQL["head"], AuditHead)
_START: Final = Select(_SQL["start"], AuditHead)
_OLDEST: Final = Select(_SQL["oldest"], AuditHead)
_NEWEST: Final = Select(_SQL["newest"], AuditEntry)
_NEWEST_OF_CALLER: Final = Select(_SQL["newest_of_caller"], AuditEntry)
_FOLLOWING: Final = Select(_SQL["following"], AuditEntry)

#: Who removes entries that were kept for their time.
_RETENTION: Final = "streamsched:retention"


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

    async def start(self) -> AuditHead | None:
        """The entry before the first that is kept; number 0: all are. None: the record of it was removed."""
        with translate_errors():
            return await _START.fetchrow(self._pool)

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


async def forget(connection: Connection, before: datetime, *, limit: int, now: datetime) -> int:
    """Deletes the oldest entries that are older than `before`, at most `limit`, in the transaction of the connection,
    after an entry that says so, with the number of the last of them (`upto`). Returns how many.

    The chain stays checkable: it begins with the hash of the last entry that is gone, which `audit_start` keeps.

    Raises:
        UnavailableError: the record of the last entry was removed.
    """
    await connection.execute(_SQL["lock"])
    last, start = await _OLDEST.fetchrow(connection, before, limit), await _START.fetchrow(connection)
    if last is None or start is None:
        return 0
    detail = {"upto": last.number, "before": before.isoformat()}
    await append(connection, caller=_RETENTION, action=FORGET, target="/v1/audit", detail=detail, now=now)
    await connection.execute(_SQL["move_start"], *last)
    await connection.execute(_SQL["forget"], last.number)
    return last.number - start.number
