"""Grants between namespaces, and the owners of groups and pools. Times are UTC."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import asyncpg

from streamsched.domain.access.grant import Denied
from streamsched.domain.access.namespace_grant import MOST_NAMESPACE_GRANTS, GrantState, NamespaceGrant, SharedKind
from streamsched.domain.access.references import (
    WITHOUT_ROLES,
    ForeignReference,
    KnownGrants,
    collect_names,
    find_foreign_references,
    judge_all,
    schedule_references,
)
from streamsched.domain.errors import ConflictError, ForbiddenError, NotFoundError
from streamsched.domain.history import HistoryEntry
from streamsched.domain.quotas.limited import Quota
from streamsched.store.catalog.history import record, record_all
from streamsched.store.catalog.quota_counts import check_number
from streamsched.store.catalog.records import Action, ScheduleChange
from streamsched.store.connections import Connection, compute_meanwhile, translate_errors
from streamsched.store.sql import Select, fetch_value, queries, slices

_SQL: Final = queries("catalog/namespace_grants")


class _OwnedName(NamedTuple):
    """The namespace that owns the name of a group or pool."""

    kind: str
    name: str
    namespace: str


class GrantRow(NamedTuple):
    """A grant."""

    owner: str
    kind: str
    name: str
    grantee: str
    state: str
    details: bool
    reason: str
    changed_by: str
    changed_at: datetime


_OWNERS: Final = Select(_SQL["owners"], _OwnedName)
_GIVEN: Final = Select(_SQL["given"], GrantRow)
#: Of owners $2 to the grantees beside them.
BETWEEN: Final = Select(_SQL["between"], GrantRow)
_OF_NAMESPACE: Final = Select(_SQL["of"], GrantRow)
_PENDING: Final = Select(_SQL["pending"], GrantRow)
_REMOVED: Final = Select(_SQL["remove"], GrantRow)
_FREED: Final = Select(_SQL["free"], _OwnedName)


class NamespaceGrantStore:
    """Every call is one transaction, and raises UnavailableError when PostgreSQL is unavailable."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def read_known(
        self, grantee: str, owners: Collection[str], shared: Collection[tuple[SharedKind, str]]
    ) -> KnownGrants:
        """What these namespaces, and the owners of these groups and pools, have given to `grantee`."""
        with translate_errors():
            async with self._pool.acquire() as connection:
                return await _read_known(connection, grantee, owners, shared)

    async def list_of(
        self, namespace: str, *, after: tuple[str, str, str, str] | None = None, limit: int
    ) -> Sequence[NamespaceGrant]:
        """Those that the namespace has given and those that it has, ordered by owner, kind, name and grantee; at most
        `limit` of those after `after`.
        """
        with translate_errors():
            rows = await _OF_NAMESPACE.fetch(self._pool, namespace, *(after or ("", "", "", "")), limit)
        return [grant_of(row) for row in rows]

    async def list_pending(self, *, limit: int) -> Sequence[NamespaceGrant]:
        """Those that wait for their owner's decision, ordered as `list_of`."""
        with translate_errors():
            return [grant_of(row) for row in await _PENDING.fetch(self._pool, limit)]

    async def record(self, grants: Sequence[NamespaceGrant], *, now: datetime) -> None:
        """Stores or replaces grants.

        Raises:
            ConflictError: a namespace would give or have more than `MOST_NAMESPACE_GRANTS`; nothing changed.
        """
        columns = [
            [getattr(each, name) for each in grants]
            for name in ("owner", "kind", "name", "grantee", "state", "details", "reason", "by")
        ]
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["record"], *columns, now)
                namespaces = sorted({each for grant in grants for each in (grant.owner, grant.grantee)})
                crowded = await connection.fetchval(_SQL["crowded"], namespaces, MOST_NAMESPACE_GRANTS)
                if crowded is not None:
                    most = f"more than {MOST_NAMESPACE_GRANTS} grants; a pattern stands for many"
                    raise ConflictError(f"namespace '{crowded}' would give or have {most}")
                for each in grants:
                    await _note(connection, each, f"grant.{each.state}", now)

    async def claim(self, namespace: str, shared: Collection[tuple[SharedKind, str]], *, now: datetime) -> int:
        """Makes groups and pools without an owner those of the namespace, and notes that it still asks for those which
        are its already; returns how many are now its.

        Raises:
            QuotaExceededError: it would own more names than its quota allows.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["lock_claims"], namespace)
                rows = await connection.fetch(_SQL["claim"], *_columns(shared), namespace, now)
                new, owned = sum(new for (new,) in rows), await fetch_value(connection, _SQL["names"], int, namespace)
                await check_number(connection, namespace, Quota.NAMES, owned - new, new)
                rows = await _OWNERS.fetch(connection, *_columns(shared))
                return sum(row.namespace == namespace for row in rows)

    async def free(self, *, before: datetime, now: datetime) -> int:
        """Takes the owner from names of groups and pools that nothing uses and that no definition has asked for since
        `before`; returns how many. The history of each owner has them.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                rows = await _FREED.fetch(connection, before)
                lines = [
                    HistoryEntry(now, "namespace", row.namespace, f"{row.kind}.freed", f"nothing uses {row.name}")
                    for row in rows
                ]
                for part in slices(lines):
                    await record_all(connection, part)
                return len(rows)

    async def hand_over(self, kind: SharedKind, name: str, namespace: str, *, now: datetime) -> None:
        """Makes the namespace the owner of a group or pool."""
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["hand_over"], kind, name, namespace, now)
                await record(connection, "namespace", namespace, f"{kind}.owned", f"it owns {kind} {name}", at=now)

    async def remove(self, grant: NamespaceGrant, *, now: datetime) -> NamespaceGrant:
        """Removes the grant with the owner, kind, name and grantee of this one, and returns what it was.

        Raises:
            NotFoundError: there is none.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await _REMOVED.fetchrow(connection, grant.owner, grant.kind, grant.name, grant.grantee)
                if row is None:
                    named = f"{grant.kind} {grant.owner}.{grant.name} to {grant.grantee}"
                    raise NotFoundError("grant", named)
                await _note(connection, grant, "grant.removed", now)
                return grant_of(row)


async def check_resumed(connection: Connection, changes: Sequence[ScheduleChange]) -> None:
    """Checks that the schedules which a change enables or resumes may still refer to what they refer to in other
    namespaces. Definitions are checked when they come in (`access.references`).

    Raises:
        ForbiddenError: a namespace has refused it, or given nothing.
    """
    of_namespace: dict[str, list[ForeignReference]] = {}
    for part in slices([each for each in changes if each.action in (Action.ENABLED, Action.RESUMED)]):
        for each in part:
            definition, namespace = each.after.definition, each.after.definition.ref.namespace
            of_namespace.setdefault(namespace, []).extend(
                find_foreign_references(schedule_references(definition), namespace)
            )
        await asyncio.sleep(0)
    for namespace, references in sorted(of_namespace.items()):
        if references:
            known = await _read_known(connection, namespace, *collect_names(references))
            verdict = await compute_meanwhile(connection, judge_all, references, WITHOUT_ROLES, namespace, known)
            if isinstance(verdict, Denied):
                raise ForbiddenError(verdict.reason)


async def _read_known(
    connection: Connection, grantee: str, owners: Collection[str], shared: Collection[tuple[SharedKind, str]]
) -> KnownGrants:
    rows = await _OWNERS.fetch(connection, *_columns(shared)) if shared else ()
    owned = {(SharedKind(row.kind), row.name): row.namespace for row in rows}
    named = {*owners, *owned.values()} - {grantee}
    found: dict[str, list[NamespaceGrant]] = {}
    for row in await _GIVEN.fetch(connection, grantee, sorted(named)) if named else ():
        found.setdefault(row.owner, []).append(grant_of(row))
    return KnownGrants(owned, found)


async def _note(connection: Connection, grant: NamespaceGrant, action: str, now: datetime) -> None:
    """The history of both namespaces."""
    what = f"{grant.kind} {grant.owner}.{grant.name} to {grant.grantee}" + (" with details" if grant.details else "")
    why = f"{what}, by {grant.by}" + (f": {grant.reason}" if grant.reason else "")
    for namespace in (grant.owner, grant.grantee):
        await record(connection, "namespace", namespace, action, why, at=now)


def _columns(shared: Collection[tuple[SharedKind, str]]) -> tuple[list[str], list[str]]:
    ordered = sorted(shared)
    return [kind for kind, _ in ordered], [name for _, name in ordered]


def grant_of(row: GrantRow) -> NamespaceGrant:
    """The grant of a row."""
    return NamespaceGrant(
        owner=row.owner,
        kind=SharedKind(row.kind),
        name=row.name,
        grantee=row.grantee,
        state=GrantState(row.state),
        details=row.details,
        reason=row.reason,
        by=row.changed_by,
        at=row.changed_at,
    )
