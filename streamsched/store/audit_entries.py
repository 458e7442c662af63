"""Appending to the audit. Its rows form a chain (ADR 30), so entries are appended one after another."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from streamsched.domain.access.audit import AuditEntry, AuditHead
from streamsched.domain.errors import UnavailableError
from streamsched.store.connections import Connection, Executor
from streamsched.store.sql import queries

_SQL: Final = queries("audit_entries")


async def append(
    connection: Connection, *, caller: str, action: str, target: str, detail: Mapping[str, Any], now: datetime
) -> AuditEntry:
    """Appends an entry in the transaction of the connection, which others that append wait for.

    Raises:
        UnavailableError: the record of the last entry was removed.
    """
    await connection.execute(_SQL["lock"])
    last = await head(connection)
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


async def head(executor: Executor) -> AuditHead | None:
    """The last entry; None when its record was removed."""
    row = await executor.fetchrow(_SQL["head"])
    return None if row is None else AuditHead(**dict(row))
