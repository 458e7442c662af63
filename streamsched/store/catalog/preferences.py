"""`ports.submissions.PreferenceStore` on PostgreSQL. Decisions and manual runs read the table in their transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import asyncpg

from streamsched.ports.submissions import PreferenceRecord
from streamsched.store.catalog.history import record
from streamsched.store.connections import Connection, translated
from streamsched.store.sql import queries

_SQL: Final = queries("catalog/preferences")
#: Names that a line of the history has; values may be confidential.
_NAMES: Final = 10


class PostgresPreferenceStore:
    """See `ports.submissions.PreferenceStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def get(self, namespace: str) -> PreferenceRecord:
        with translated():
            return _record(namespace, await self._pool.fetchrow(_SQL["get"], namespace))

    async def change(
        self, namespace: str, decide: Callable[[Mapping[str, str]], Mapping[str, str]], reason: str, *, now: datetime
    ) -> PreferenceRecord:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["ensure"], namespace)
                before = await connection.fetchval(_SQL["lock"], namespace)
                after = decide(before)
                if after != before:
                    await connection.execute(_SQL["set"], namespace, dict(after), reason, now)
                    change = _described(before, after)
                    change = f"{change}: {reason}" if reason else change
                    await record(connection, "namespace", namespace, "namespace.preferences_set", change, at=now)
                return _record(namespace, await connection.fetchrow(_SQL["get"], namespace))


async def preferences_of(connection: Connection, namespace: str) -> Mapping[str, str]:
    """The preferences in the caller's transaction, not locked."""
    return await connection.fetchval(_SQL["of_runs"], namespace) or {}


def _described(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Which names were set and which were removed."""
    set_ = sorted(name for name, value in after.items() if before.get(name) != value)
    removed = sorted(before.keys() - after.keys())
    parts = (("set", set_), ("removed", removed))
    return "; ".join(f"{what} {_listed(names)}" for what, names in parts if names)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(names[:_NAMES]) + (f" and {more} more" if more > 0 else "")


def _record(namespace: str, row: Any) -> PreferenceRecord:
    return PreferenceRecord(namespace, row["deployed"], row["arguments"], row["reason"], row["changed_at"])
