"""The history table; `record` joins the transaction of whoever decides something."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from streamsched.ports.catalog import Decision
from streamsched.store.sql import queries

_SQL = queries("decisions")


async def record(connection: Any, decisions: Sequence[Decision]) -> None:
    """Writes lines of history within the caller's transaction."""
    if decisions:
        columns = zip(
            *((d.at, d.subject_kind, d.subject, d.action, d.reason, d.detail) for d in decisions), strict=True
        )
        await connection.execute(_SQL["record"], *columns)


async def copy(connection: Any, lines: Iterable[tuple[datetime, str, str, str, str]]) -> None:
    """As `record`, for many lines without detail: (at, subject kind, subject, action, reason)."""
    records = list(lines)
    if records:
        columns = ("at", "subject_kind", "subject", "action", "reason")
        await connection.copy_records_to_table("decisions", records=records, columns=columns)


async def history(connection: Any, subject_kind: str, subject: str, limit: int) -> list[Decision]:
    """The newest lines about one subject, newest first."""
    return [Decision(**row) for row in await connection.fetch(_SQL["history"], subject, subject_kind, limit)]
