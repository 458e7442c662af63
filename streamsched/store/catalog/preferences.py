"""`ports.submissions.PreferenceStore` on PostgreSQL. Decisions and manual runs read the table in their transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import asyncpg

from streamsched.ports.submissions import PreferenceRecord
from streamsched.store.catalog.history import record
from streamsched.store.connections import Connection, Executor, translated
from streamsched.store.sql import Select, queries

_SQL: Final = queries("catalog/preferences")
#: Names that a line of the history has; values may be confidential.
_NAMES: Final = 10


class _Preferences(NamedTuple):
    """The preferences of a namespace; `deployed`: whether it exists."""

    deployed: bool
    arguments: Mapping[str, str]
    reason: str
    changed_at: datetime | None


_PREFERENCES: Final = Select(_SQL["get"], _Preferences)


class PostgresPreferenceStore:
    """See `ports.submissions.PreferenceStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def get(self, namespace: str) -> PreferenceRecord:
        with translated():
            return await _read(self._pool, namespace)

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
                    change = _change_text(before, after)
                    change = f"{change}: {reason}" if reason else change
                    await record(connection, "namespace", namespace, "namespace.preferences_set", change, at=now)
                return await _read(connection, namespace)


async def preferences_of(connection: Connection, namespace: str) -> Mapping[str, str]:
    """The preferences in the caller's transaction, not locked."""
    return await connection.fetchval(_SQL["of_runs"], namespace) or {}


def _change_text(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Which names were set and which were removed."""
    set_ = sorted(name for name, value in after.items() if before.get(name) != value)
    removed = sorted(before.keys() - after.keys())
    parts = (("set", set_), ("removed", removed))
    return "; ".join(f"{what} {_names_text(names)}" for what, names in parts if names)


def _names_text(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(names[:_NAMES]) + (f" and {more} more" if more > 0 else "")


async def _read(executor: Executor, namespace: str) -> PreferenceRecord:
    return PreferenceRecord(namespace, *await _PREFERENCES.one(executor, namespace))
