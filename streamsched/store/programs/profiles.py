"""`ports.programs.profiles.ProfileStore` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from streamsched.codec.schedules.spark_needs import profile_from_json, profile_to_json
from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.domain.limits import as_stored
from streamsched.domain.names import ProgramRef
from streamsched.domain.programs.spark_profile import EVERYWHERE, SparkProfile
from streamsched.domain.revision import Expected, digest
from streamsched.ports.programs.profiles import ProfileRecord
from streamsched.store.catalog.history import record
from streamsched.store.connections import Connection, Pool, translated
from streamsched.store.sql import queries

_SQL: Final = queries("programs/profiles")
#: Most profiles of a namespace.
MOST_PROFILES: Final = 1000
#: Programs that a refusal names.
_NAMED: Final = 10


class PostgresProfileStore:
    """See `ports.programs.profiles.ProfileStore`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def effective(self, namespace: str, name: str) -> ProfileRecord | None:
        with translated():
            row = await self._pool.fetchrow(_SQL["effective"], namespace, name)
        return None if row is None else _record(row)

    async def list(self, namespace: str) -> Sequence[ProfileRecord]:
        with translated():
            return [_record(row) for row in await self._pool.fetch(_SQL["list"], namespace)]

    async def get(self, namespace: str, name: str) -> ProfileRecord:
        with translated():
            async with self._pool.acquire() as connection:
                return await _found(connection, namespace, name)

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
        definition = profile_to_json(profile)
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["lock"])
                if expected is not None:
                    row = await connection.fetchrow(_SQL["get"], namespace, profile.name)
                    expected.check(f"Spark profile '{profile.name}'", None if row is None else _record(row).revision)
                if await connection.fetchval(_SQL["count"], namespace, profile.name) >= MOST_PROFILES:
                    raise ConflictError(f"namespace {namespace} has {MOST_PROFILES} profiles, the most it may have")
                await connection.execute(_SQL["set"], namespace, profile.name, definition, reason, now, shell)
                because = _because(profile.name, reason)
                await record(connection, "namespace", namespace, "spark_profile.set", because, at=now)
                return await _found(connection, namespace, profile.name)

    async def delete(
        self, namespace: str, name: str, *, force: bool, reason: str, now: datetime, expected: Expected | None = None
    ) -> ProfileRecord:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["lock"])
                found = await _found(connection, namespace, name)
                if expected is not None:
                    expected.check(f"Spark profile '{name}'", found.revision)
                replaced = namespace != EVERYWHERE and await connection.fetchval(_SQL["replaced"], name)
                if found.users and not force and not replaced:
                    raise ConflictError(f"Spark profile '{name}' is used by {_listed(found.users)}")
                await connection.execute(_SQL["remove"], namespace, name)
                because = _because(name, reason)
                await record(connection, "namespace", namespace, "spark_profile.deleted", because, at=now)
                return found


async def _found(connection: Connection, namespace: str, name: str) -> ProfileRecord:
    """Raises:
    NotFoundError: the namespace itself has no such profile.
    """
    row = await connection.fetchrow(_SQL["get"], namespace, name)
    if row is None:
        raise NotFoundError("Spark profile", f"{namespace}.{name}")
    users = await connection.fetch(_SQL["users"], namespace, name)
    return replace(_record(row), users=tuple(ProgramRef.parse(each["id"]) for each in users))


def _because(name: str, reason: str) -> str:
    return f"profile '{name}': {reason}" if reason else f"profile '{name}'"


def _listed(users: Sequence[ProgramRef]) -> str:
    more = len(users) - _NAMED
    return ", ".join(map(str, users[:_NAMED])) + (f" and {more} more" if more > 0 else "")


def _record(row: Any) -> ProfileRecord:
    with as_stored():
        profile = profile_from_json(row["name"], row["definition"])
    revision = digest(row["definition"])
    return ProfileRecord(row["namespace"], profile, row["shell"], row["reason"], row["changed_at"], revision)
