"""Quotas of namespaces. Times are UTC.

Order of locks: a quota's row before the group of its runs; levels of events sorted by namespace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.domain.errors import NotFoundError
from streamsched.domain.quotas.event_level import (
    HELD,
    SAVED,
    EventLease,
    EventLevel,
    EventShare,
    LeaseRequest,
    grant_lease,
)
from streamsched.domain.quotas.limited import Quota
from streamsched.domain.quotas.quota import Limits, QuotaGrowth, QuotaUse
from streamsched.domain.revision import Expected, digest
from streamsched.store.catalog.history import record
from streamsched.store.catalog.quota_counts import check, uses
from streamsched.store.connections import Connection, Executor, Pool, translate_errors
from streamsched.store.limits import namespace_runs
from streamsched.store.sql import Select, queries


class _Limit(NamedTuple):
    namespace: str
    quota: str
    most: int


class _Backlog(NamedTuple):
    """Since when a namespace waits for its own backlog."""

    namespace: str
    since: datetime


class _LockedQuota(NamedTuple):
    most: int
    reason: str

    @property
    def revision(self) -> str:
        return digest([self.most, self.reason])


class _Level(NamedTuple):
    namespace: str
    tokens: float
    at: datetime


class _Share(NamedTuple):
    namespace: str
    process: str
    tokens: float
    asked: float


_SQL: Final = queries("access/quotas")
_LIMITS: Final = Select(_SQL["limits"], _Limit)
_BACKLOGS: Final = Select(_SQL["backlogs"], _Backlog)
_LOCK: Final = Select(_SQL["lock"], _LockedQuota)
_LOCK_LEVELS: Final = Select(_SQL["lock_levels"], _Level)
_SHARES: Final = Select(_SQL["shares"], _Share)


async def read_backlogs(executor: Executor) -> Mapping[str, datetime]:
    """By namespace the log time of the first record that waits behind others of it, by the last reports of shards."""
    return {row.namespace: row.since for row in await _BACKLOGS.fetch(executor)}


class QuotaStore:
    """`ports.event_quotas.EventQuotas` on PostgreSQL, and the administration of quotas. Every call is one transaction,
    and raises UnavailableError when PostgreSQL is unavailable.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def limits(self) -> Limits:
        """The quotas of all namespaces that have one."""
        found: dict[str, dict[Quota, int]] = {}
        with translate_errors():
            for row in await _LIMITS.fetch(self._pool, list(Quota)):
                found.setdefault(row.namespace, {})[Quota(row.quota)] = row.most
        return found

    async def backlogs(self) -> Mapping[str, datetime]:
        """`ports.event_quotas.EventQuotas.backlogs`, by the last reports of shards."""
        with translate_errors():
            return await read_backlogs(self._pool)

    async def list_all(self, *, now: datetime, after: str = "", limit: int | None = None) -> Sequence[QuotaUse]:
        """Quotas with what is in use, by namespace; those of at most `limit` namespaces after `after`."""
        with translate_errors():
            async with self._pool.acquire() as connection:
                return await uses(connection, None, now=now, after=after, limit=limit)

    async def list_of(self, namespace: str, *, now: datetime) -> Sequence[QuotaUse]:
        """The quotas of a namespace with what is in use, in the order of `Quota`."""
        with translate_errors():
            async with self._pool.acquire() as connection:
                return await uses(connection, namespace, now=now)

    async def check(self, namespace: str, growth: QuotaGrowth, *, now: datetime) -> None:
        """Checks what a plan would add. The change itself is checked again, in its transaction.

        Raises:
            QuotaExceededError: the namespace would have more than a limit.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await check(connection, namespace, growth, now=now)

    async def set(
        self, namespace: str, quota: Quota, limit: int, reason: str, *, now: datetime, expected: Expected | None = None
    ) -> QuotaUse:
        """Sets or replaces a quota. What exists stays, also when it is more than the limit. Jobs that wait for the
        quota `runs` are rechecked. Idempotent.

        Raises:
            RevisionChangedError: the quota has no expected revision; nothing changed.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await _LOCK.fetchrow(connection, namespace, quota)
                if expected is not None:
                    expected.check(_title(namespace, quota), row and row.revision)
                await connection.execute(_SQL["set"], namespace, quota, limit, reason, now)
                change = f"{quota} is {limit}" + (f": {reason}" if reason else "")
                await record(connection, "namespace", namespace, "quota.set", change, at=now)
                if quota is Quota.RUNS:
                    await namespace_runs.set_limit(connection, namespace, limit, now=now)
                return await _use(connection, namespace, quota, now)

    async def unset(
        self, namespace: str, quota: Quota, reason: str, *, now: datetime, expected: Expected | None = None
    ) -> QuotaUse:
        """Removes a quota and returns what it was.

        Raises:
            NotFoundError: it is not set.
            RevisionChangedError: it has no expected revision; nothing changed.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await _LOCK.fetchrow(connection, namespace, quota)
                if row is None:
                    raise NotFoundError("quota", f"{namespace}.{quota}")
                if expected is not None:
                    expected.check(_title(namespace, quota), row.revision)
                found = await _use(connection, namespace, quota, now)
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
        """Leases of tokens for events to this process, by namespace (`domain.quotas.event_level`). The levels are
        locked in the order of their names.
        """
        names, since = sorted(demands), now - HELD
        leases: dict[str, EventLease] = {}
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                rows = await _LOCK_LEVELS.fetch(connection, names)
                if len(rows) < len(names):
                    await connection.execute(
                        _SQL["ensure_levels"], names, [float(limits[name] * SAVED) for name in names], now
                    )
                    rows = await _LOCK_LEVELS.fetch(connection, names)
                own, others = await _shares(connection, process, names, since)
                for name, tokens, at in rows:
                    demand = demands[name]
                    if name not in own and demand.returned > 0:
                        demand = LeaseRequest(0.0, demand.asked, demand.accepted)
                    leases[name] = grant_lease(limits[name], EventLevel(tokens, at), demand, others.get(name, ()), now)
                left = [leases[name].left for name in names]
                await connection.execute(
                    _SQL["put_levels"], names, [each.tokens for each in left], [each.at for each in left]
                )
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
    for row in await _SHARES.fetch(connection, names, since):
        if row.process == process:
            own.add(row.namespace)
        else:
            others.setdefault(row.namespace, []).append(EventShare(row.tokens, row.asked))
    return frozenset(own), others


async def _use(connection: Connection, namespace: str, quota: Quota, now: datetime) -> QuotaUse:
    return next(use for use in await uses(connection, namespace, now=now) if use.quota is quota)


def _title(namespace: str, quota: Quota) -> str:
    return f"quota '{quota}' of namespace '{namespace}'"
