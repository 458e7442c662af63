"""Profiles of Spark programs, of a namespace or of the installation (namespace `*`). Times are UTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from streamsched.codec.schedules.spark_needs import profile_from_json, profile_to_json
from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.domain.names import ProgramRef
from streamsched.domain.programs.spark_profile import EVERYWHERE, SparkProfile
from streamsched.domain.revision import Expected, digest
from streamsched.store.catalog.history import record
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.sql import Select, fetch_value, queries

_SQL: Final = queries("programs/profiles")
#: Most profiles of a namespace.
MOST_PROFILES: Final = 1000
#: Programs that a refusal names.
_NAMED: Final = 10


class _ProfileRow(NamedTuple):
    namespace: str
    name: str
    definition: Mapping[str, Any]
    shell: bool
    reason: str
    changed_at: datetime


_EFFECTIVE: Final = Select(_SQL["effective"], _ProfileRow)
_LIST: Final = Select(_SQL["list"], _ProfileRow)
_GET: Final = Select(_SQL["get"], _ProfileRow)


@dataclass(frozen=True, slots=True)
class ProfileRecord:
    """A stored profile.

    Attributes:
        shell: whether who set it has the permission `shell`; of the installation's, always.
        reason: of the last change.
        revision: of its settings.
        users: programs that name it and get it, at most 100.
    """

    namespace: str
    profile: SparkProfile
    shell: bool
    reason: str
    changed_at: datetime
    revision: str
    users: Sequence[ProgramRef] = ()


class ProfileStore:
    """Profiles. Every call is one transaction."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, namespace: str, name: str) -> ProfileRecord | None:
        """The profile that programs of the namespace get by this name, without users: the namespace's own, or else the
        installation's; None without either.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        with translate_errors():
            row = await _EFFECTIVE.fetchrow(self._pool, namespace, name)
        return None if row is None else _record(row)

    async def list(self, namespace: str) -> Sequence[ProfileRecord]:
        """The profiles of a namespace and those of the installation, by name, without users."""
        with translate_errors():
            return [_record(row) for row in await _LIST.fetch(self._pool, namespace)]

    async def get(self, namespace: str, name: str) -> ProfileRecord:
        """The profile that the namespace itself has.

        Raises:
            NotFoundError: the namespace itself has no such profile.
        """
        with translate_errors():
            async with self._pool.acquire() as connection:
                return await _read_profile(connection, namespace, name)

    async def set(
        self,
        namespace: str,
        profile: SparkProfile,
        reason: str,
        *,
        now: datetime,
        expected: Expected | None = None,
        shell: bool,
    ) -> ProfileRecord:
        """Stores or replaces the profile. Runs that start afterwards have its settings. Idempotent.

        Raises:
            RevisionChangedError: the profile has no expected revision; nothing changed.
            ConflictError: the namespace has as many profiles as it may have.
        """
        definition = profile_to_json(profile)
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["lock"])
                if expected is not None:
                    row = await _GET.fetchrow(connection, namespace, profile.name)
                    expected.check(f"Spark profile '{profile.name}'", None if row is None else _record(row).revision)
                if await fetch_value(connection, _SQL["count"], int, namespace, profile.name) >= MOST_PROFILES:
                    raise ConflictError(f"namespace {namespace} has {MOST_PROFILES} profiles, the most it may have")
                await connection.execute(_SQL["set"], namespace, profile.name, definition, reason, now, shell)
                why = _reason(profile.name, reason)
                await record(connection, "namespace", namespace, "spark_profile.set", why, at=now)
                return await _read_profile(connection, namespace, profile.name)

    async def delete(
        self, namespace: str, name: str, *, force: bool, reason: str, now: datetime, expected: Expected | None = None
    ) -> ProfileRecord:
        """Deletes the profile and returns what it was.

        Raises:
            NotFoundError: the namespace itself has no such profile.
            RevisionChangedError: it has no expected revision; nothing changed.
            ConflictError: programs would be without a profile of this name, and not `force`; the message names them.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["lock"])
                found = await _read_profile(connection, namespace, name)
                if expected is not None:
                    expected.check(f"Spark profile '{name}'", found.revision)
                replaced = namespace != EVERYWHERE and await fetch_value(connection, _SQL["replaced"], bool, name)
                if found.users and not force and not replaced:
                    raise ConflictError(f"Spark profile '{name}' is used by {_names(found.users)}")
                await connection.execute(_SQL["remove"], namespace, name)
                why = _reason(name, reason)
                await record(connection, "namespace", namespace, "spark_profile.deleted", why, at=now)
                return found


async def _read_profile(connection: Connection, namespace: str, name: str) -> ProfileRecord:
    """Raises:
    NotFoundError: the namespace itself has no such profile.
    """
    row = await _GET.fetchrow(connection, namespace, name)
    if row is None:
        raise NotFoundError("Spark profile", f"{namespace}.{name}")
    users = await connection.fetch(_SQL["users"], namespace, name)
    return replace(_record(row), users=tuple(ProgramRef.parse(each["id"]) for each in users))


def _reason(name: str, reason: str) -> str:
    return f"profile '{name}': {reason}" if reason else f"profile '{name}'"


def _names(users: Sequence[ProgramRef]) -> str:
    more = len(users) - _NAMED
    return ", ".join(map(str, users[:_NAMED])) + (f" and {more} more" if more > 0 else "")


def _record(row: _ProfileRow) -> ProfileRecord:
    profile = profile_from_json(row.name, row.definition)
    return ProfileRecord(row.namespace, profile, row.shell, row.reason, row.changed_at, digest(row.definition))
