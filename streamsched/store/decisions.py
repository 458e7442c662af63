"""The history table; `record` joins the transaction of whoever decides something."""

from __future__ import annotations

from collections.abc import Sequence
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


async def history(connection: Any, subject_kind: str, subject: str, limit: int) -> list[Decision]:
    """The newest lines about one subject, newest first."""
    return [Decision(**row) for row in await connection.fetch(_SQL["history"], subject, subject_kind, limit)]
