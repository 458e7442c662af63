"""The history (table `decisions`): one line for each change of a schedule, job, run or limit, with its reason.

Lines are written in the transaction of the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from streamsched.domain.history import HistoryEntry
from streamsched.store.connections import Connection, Executor
from streamsched.store.sql import COPIED, Select, queries

_SQL = queries("catalog/history")


#: The newest lines of one subject, newest first: its name, its kind, and how many.
HISTORY: Final = Select(_SQL["history"], HistoryEntry)


async def record(
    executor: Executor,
    kind: str,
    subject: str,
    action: str,
    reason: str,
    *,
    at: datetime,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Writes one line."""
    await executor.execute(_SQL["record"], at, kind, subject, action, reason, detail)


async def record_all(connection: Connection, entries: Sequence[HistoryEntry]) -> None:
    """Writes lines in the order given."""
    if entries:
        columns = zip(*((e.at, e.subject_kind, e.subject, e.action, e.reason, e.detail) for e in entries), strict=True)
        await connection.execute(_SQL["record_all"], *columns)


async def copy(connection: Connection, lines: Iterable[tuple[datetime, str, str, str, str]]) -> None:
    """Writes lines without detail, many by COPY: (at, subject kind, subject, action, reason)."""
    records = list(lines)
    if len(records) < COPIED:
        await record_all(connection, [HistoryEntry(*each) for each in records])
    else:
        columns = ("at", "subject_kind", "subject", "action", "reason")
        await connection.copy_records_to_table("decisions", records=records, columns=columns)
