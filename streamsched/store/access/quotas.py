"""`ports.access.quotas.QuotaStore` on PostgreSQL.

Order of locks: a quota's row before the group of its runs; levels of events sorted by namespace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import asyncpg

from streamsched.domain.errors import NotFoundError
from streamsched.domain.quotas.event_level import HELD, SAVED, EventLease, EventLevel, EventShare, LeaseRequest, leased
from streamsched.domain.quotas.quota import Quota, QuotaGrowth, QuotaUse
from streamsched.domain.revision import Expected, digest
from streamsched.ports.access.quotas import Limits
from streamsched.store.catalog.history import record
from streamsched.store.catalog.quota_counts import check, uses
from streamsched.store.connections import Connection, translated
from streamsched.store.limits import namespace_runs
from streamsched.store.sql import queries

_SQL: Final = queries("access/quotas")


class PostgresQuotaStore:
    """See `ports.access.quotas.QuotaStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def limits(self) -> Limits:
        found: dict[str, dict[Quota, int]] = {}
        with translated():
            for row in await self._pool.fetch(_SQL["limits"], list(Quota)):
                found.setdefault(row["namespace"], {})[Quota(row["quota"])] = row["most"]
        return found

    async def all(self, *, now: datetime, after: str = "", limit: int | None = None) -> Sequence[QuotaUse]:
        with translated():
            async with self._pool.acquire() as connection:
                return await uses(connection, None, now=now, after=after, limit=limit)

    async def of(self, namespace: str, *, now: datetime) -> Sequence[QuotaUse]:
        with translated():
            async with self._pool.acquire() as connection:
                return await uses(connection, namespace, now=now)

    async def check(self, namespace: str, growth: QuotaGrowth, *, now: datetime) -> None:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await check(connection, namespace, growth, now=now)

    async def set(
        self, namespace: str, quota: Quota, limit: int, reason: str, *, now: datetime, expected: Expected | None = None
    ) -> QuotaUse:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await connection.fetchrow(_SQL["lock"], namespace, quota)
                if expected is not None:
                    expected.check(_named(namespace, quota), None if row is None else _revision(row))
                await connection.execute(_SQL["set"], namespace, quota, limit, reason, now)
                change = f"{quota} is {limit}" + (f": {reason}" if reason else "")
                await record(connection, "namespace", namespace, "quota.set", change, at=now)
                if quota is Quota.RUNS:
                    await namespace_runs.set_limit(connection, namespace, limit, now=now)
                return await _one(connection, namespace, quota, now)

    async def unset(
        self, namespace: str, quota: Quota, reason: str, *, now: datetime, expected: Expected | None = None
    ) -> QuotaUse:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await connection.fetchrow(_SQL["lock"], namespace, quota)
                if row is None:
                    raise NotFoundError("quota", f"{namespace}.{quota}")
                if expected is not None:
                    expected.check(_named(namespace, quota), _revision(row))
                found = await _one(connection, namespace, quota, now)
                await connection.execute(_SQL["unset"], namespace, quota)
                change = f"{quota} is without limit" + (f": {reason}" if reason else "")
                await record(connection, "namespace", namespace, "quota.unset", change, at=now)
                if quota is Quota.RUNS:
                    await namespace_runs.remove_limit(connection, namespace)
                if quota is Quota.EVENTS:
                    await connection.execute(_SQL["forget_events"], namespace)
                return found

    async def lease(
        self, process: str, demands: Mapping[str, LeaseRequest], limits: Mapping[str, int], *, now: datetime
    ) -> Mapping[str, EventLease]:
        names, since = sorted(demands), now - HELD
        leases: dict[str, EventLease] = {}
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                rows = await connection.fetch(_SQL["lock_levels"], names)
                if len(rows) < len(names):
                    await connection.execute(
                        _SQL["ensure_levels"], names, [float(limits[name] * SAVED) for name in names], now
                    )
                    rows = await connection.fetch(_SQL["lock_levels"], names)
                own, others = await _shares(connection, process, names, since)
                for row in rows:
                    name, demand = row["namespace"], demands[row["namespace"]]
                    if name not in own and demand.returned > 0:
                        demand = LeaseRequest(0.0, demand.asked, demand.accepted)
                    level = EventLevel(row["tokens"], row["at"])
                    leases[name] = leased(limits[name], level, demand, others.get(name, ()), now)
                tokens = [leases[name].left.tokens for name in names]
                times = [leases[name].left.at for name in names]
                await connection.execute(_SQL["put_levels"], names, tokens, times)
                asked, accepted = [demands[n].asked for n in names], [demands[n].accepted for n in names]
                held = [leases[name].tokens for name in names]
                await connection.execute(_SQL["put_shares"], process, names, held, asked, accepted, now)
                await connection.execute(_SQL["forget_shares"], names, since)
        return leases


async def _shares(
    connection: Connection, process: str, names: Sequence[str], since: datetime
) -> tuple[frozenset[str], Mapping[str, Sequence[EventShare]]]:
    """The namespaces of which the process itself holds a share, and the shares of the others."""
    own, others = set[str](), dict[str, list[EventShare]]()
    for row in await connection.fetch(_SQL["shares"], names, since):
        if row["process"] == process:
            own.add(row["namespace"])
        else:
            others.setdefault(row["namespace"], []).append(EventShare(row["tokens"], row["asked"]))
    return frozenset(own), others


async def _one(connection: Connection, namespace: str, quota: Quota, now: datetime) -> QuotaUse:
    return next(use for use in await uses(connection, namespace, now=now) if use.quota is quota)


def _named(namespace: str, quota: Quota) -> str:
    return f"quota '{quota}' of namespace '{namespace}'"


def _revision(row: Any) -> str:
    return digest([row["most"], row["reason"]])
