"""Preferences: arguments that a person gives to every run of a namespace. Decisions and manual runs read the table in
their transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.store.catalog.history import record
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.sql import Select, queries

_SQL: Final = queries("catalog/preferences")
#: Names that a line of the history has; values may be confidential.
_NAMES: Final = 10


class PreferenceRecord(NamedTuple):
    """The preferences of a namespace.

    Attributes:
        deployed: whether an app was ever deployed to the namespace; its name may be mistyped if not.
        reason: of the last change.
        changed_at: None of a namespace that never had preferences.
    """

    namespace: str
    deployed: bool
    arguments: Mapping[str, str]
    reason: str
    changed_at: datetime | None


_PREFERENCES: Final = Select(_SQL["get"], PreferenceRecord)


class PreferenceStore:
    """Preferences of namespaces (`domain.schedules.preferences`). A namespace need not have an app."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get(self, namespace: str) -> PreferenceRecord:
        """Empty when the namespace has none."""
        with translate_errors():
            return await _PREFERENCES.fetch_one(self._pool, namespace)

    async def change(
        self, namespace: str, decide: Callable[[Mapping[str, str]], Mapping[str, str]], reason: str, *, now: datetime
    ) -> PreferenceRecord:
        """Stores what `decide` makes of the present ones, under their lock, and writes which names changed to the
        history; `reason` says who and why. Equal ones change nothing. What `decide` raises is raised, and nothing
        changes. Jobs that become runs afterwards have them.

        Raises:
            UnavailableError: PostgreSQL is unavailable; the change may be repeated.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["ensure"], namespace)
                before = await connection.fetchval(_SQL["lock"], namespace)
                after = decide(before)
                if after != before:
                    await connection.execute(_SQL["set"], namespace, dict(after), reason, now)
                    change = _change_text(before, after)
                    change = f"{change}: {reason}" if reason else change
                    await record(connection, "namespace", namespace, "namespace.preferences_set", change, at=now)
                return await _PREFERENCES.fetch_one(connection, namespace)


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
