"""Leases of shards, singleton roles and partitions of lanes, and who holds them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, LiteralString, NamedTuple

from streamsched.ports.leases import Lease, LeaseHolder, Membership
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.expected_time import ExpectedTime, expected_parameter
from streamsched.store.sql import Select, queries

_SQL: Final = queries("server/leases")
#: Seconds in which renewals of the same owner become one statement.
_GATHER_S: Final = 0.02
#: Rows of processes without a heartbeat for this many lease times are deleted.
_FORGET_AFTER: Final = 100


class _Beat(NamedTuple):
    """Live members: ids with the newest format each reads. Leases: the fields of `Lease`."""

    members: list[tuple[str, int]]
    leases: list[tuple[str, str, int, float, str | None, int]]


class _Claimed(NamedTuple):
    """A claimed lease with its new epoch."""

    name: str
    epoch: int


@dataclass(frozen=True, slots=True)
class _Renewal:
    """Leases that are renewed together, and the names that are still held afterwards."""

    held: dict[str, int]
    kept: asyncio.Future[frozenset[str]]


_BEAT: Final = Select(_SQL["beat"], _Beat)
_CLAIMED: Final = Select(_SQL["claim"], _Claimed)


class PostgresLeases:
    """`ports.leases.Leases` on PostgreSQL, whose clock decides which leases have expired. The heartbeats of the holders
    are in table `members`; they are shown the leases like `names`. With `theirs` no lease expires while PostgreSQL's
    clock says something else: a shard, a role or a partition does not change hands because of a jump.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        theirs: ExpectedTime | None = None,
        members: LiteralString = "workers",
        names: str = "%",
    ) -> None:
        self._pool = pool
        self._theirs = theirs
        self._names = names
        self._beat = Select(_BEAT.sql.replace("workers", members), _Beat)
        self._leave = _SQL["leave"].replace("workers", members)
        #: Those that are gathered, by owner and lease time.
        self._renewals: dict[tuple[str, timedelta], _Renewal] = {}
        self._under_way: set[asyncio.Future[frozenset[str]]] = set()

    async def heartbeat(self, holder: LeaseHolder, held: Mapping[str, int], ttl: timedelta) -> Membership:
        """Stores a heartbeat, renews what is held (name → epoch), and returns the membership."""
        with translate_errors():
            found = await self._beat.fetch_one(
                self._pool,
                *(holder.id, holder.host, holder.pid, holder.reads),
                *(ttl, ttl * _FORGET_AFTER),
                *(list(held), list(held.values()), self._names, expected_parameter(self._theirs)),
            )
        return Membership(dict(found.members), tuple(Lease(*lease) for lease in found.leases))

    async def claim(
        self, names: Sequence[str], owner: str, ttl: timedelta, *, reads: int | None = None
    ) -> Mapping[str, int]:
        """Claims those names that are free, expired or the owner's already; returns name → new epoch."""
        with translate_errors():
            return dict(
                await _CLAIMED.fetch(self._pool, list(names), owner, ttl, reads, expected_parameter(self._theirs))
            )

    async def renew(self, held: Mapping[str, int], owner: str, ttl: timedelta) -> frozenset[str]:
        """Renews for another `ttl`, also expired leases that nobody claimed since; returns the names still held. The
        renewals of one moment are one statement: the roles of a process renew at the same moments.
        """
        gathered = self._renewals.get((owner, ttl))
        if gathered is None or gathered.held.keys() & held.keys():  # those are of another epoch
            leases: dict[str, int] = {}
            gathered = _Renewal(leases, asyncio.ensure_future(self._renew_gathered(leases, owner, ttl)))
            self._renewals[owner, ttl] = gathered
            self._under_way.add(gathered.kept)
            gathered.kept.add_done_callback(self._under_way.discard)
        gathered.held.update(held)
        return (await asyncio.shield(gathered.kept)) & held.keys()

    async def _renew_gathered(self, held: Mapping[str, int], owner: str, ttl: timedelta) -> frozenset[str]:
        """Renews what is in `held` after a moment."""
        await asyncio.sleep(_GATHER_S)
        self._renewals.pop((owner, ttl), None)
        with translate_errors():
            rows = await self._pool.fetch(_SQL["renew"], list(held), list(held.values()), owner, ttl)
        return frozenset(name for (name,) in rows)

    async def allow(self, held: Mapping[str, int], owner: str, version: int) -> frozenset[str]:
        """Permits writing a format version under these leases; returns the names for which it holds."""
        with translate_errors():
            rows = await self._pool.fetch(_SQL["allow"], list(held), list(held.values()), owner, version)
        return frozenset(name for (name,) in rows)

    async def want(self, names: Sequence[str], worker: str) -> None:
        """Asks the live owners to hand over."""
        with translate_errors():
            await self._pool.execute(_SQL["want"], list(names), worker)

    async def release(self, held: Mapping[str, int], owner: str) -> None:
        """Releases leases, except those claimed by another since. Idempotent. A renewal whose caller was cancelled is
        under way for others: the release comes after it, or it would hold the lease again for nobody.
        """
        if self._under_way:
            await asyncio.wait(set(self._under_way))
        with translate_errors():
            await self._pool.execute(_SQL["release"], list(held), list(held.values()), owner)

    async def leave(self, worker: str) -> None:
        """Removes the worker from the membership. Idempotent."""
        with translate_errors():
            await self._pool.execute(self._leave, worker)


class PostgresTaskLeases(PostgresLeases):
    """Leases of partitions of lanes: as those of shards, but the holders are owners of tasks, not workers. A row in
    `workers` is a process that runs shards, so the heartbeats of owners are in a table of their own.
    """

    def __init__(self, pool: Pool, *, theirs: ExpectedTime | None = None) -> None:
        super().__init__(pool, theirs=theirs, members="task_owners", names="tasks-%")
