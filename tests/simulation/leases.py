"""Leases in a dictionary, judged by the database's clock alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from streamsched.codec.records.state import VERSION
from streamsched.ports.leases import Lease, LeaseHolder, Membership
from tests.simulation.database import Database, StoredLease
from tests.simulation.wire import Wire


class SimulationLeases:
    """`ports.leases.Leases`."""

    def __init__(self, database: Database, wire: Wire) -> None:
        self._database = database
        self._wire = wire

    async def heartbeat(self, holder: LeaseHolder, held: Mapping[str, int], ttl: timedelta) -> Membership:
        async def beat() -> Membership:
            now = self._database.clock.now()
            self._database.workers[holder.id] = now
            self._renew(held, holder.id, now + ttl)
            alive = sorted(name for name, seen in self._database.workers.items() if seen > now - ttl)
            leases = [
                Lease(name, row.owner, row.epoch, (row.expires_at - now).total_seconds(), row.wanted_by)
                for name, row in sorted(self._database.leases.items())
            ]
            return Membership(dict.fromkeys(alive, VERSION), tuple(leases))

        return await self._wire.call("leases.beat", beat)

    async def claim(
        self, names: Sequence[str], owner: str, ttl: timedelta, *, reads: int | None = None
    ) -> Mapping[str, int]:
        async def claim() -> dict[str, int]:
            now, got = self._database.clock.now(), dict[str, int]()
            for name in names:
                row = self._database.leases.get(name)
                if row is None or row.expires_at <= now or row.owner == owner:
                    got[name] = row.epoch + 1 if row else 1
                    self._database.leases[name] = StoredLease(owner, got[name], now + ttl)
            return got

        return await self._wire.call(f"leases.claim {','.join(names)}", claim)

    async def renew(self, held: Mapping[str, int], owner: str, ttl: timedelta) -> frozenset[str]:
        async def renew() -> frozenset[str]:
            return self._renew(held, owner, self._database.clock.now() + ttl)

        return await self._wire.call("leases.renew", renew)

    async def allow(self, held: Mapping[str, int], owner: str, version: int) -> frozenset[str]:
        raise NotImplementedError("all of a cluster read the same")

    async def want(self, names: Sequence[str], worker: str) -> None:
        async def want() -> None:
            for name in names:
                row = self._database.leases.get(name)
                if row is not None and row.owner != worker and row.expires_at > self._database.clock.now():
                    row.wanted_by = worker

        await self._wire.call("leases.want", want)

    async def release(self, held: Mapping[str, int], owner: str) -> None:
        async def release() -> None:
            self._renew(held, owner, self._database.clock.now())

        await self._wire.call("leases.release", release)

    async def leave(self, worker: str) -> None:
        async def leave() -> None:
            self._database.workers.pop(worker, None)

        await self._wire.call("leases.leave", leave)

    def _renew(self, held: Mapping[str, int], owner: str, until: datetime) -> frozenset[str]:
        kept: set[str] = set()
        for name, epoch in held.items():
            row = self._database.leases.get(name)
            if row is not None and (row.owner, row.epoch) == (owner, epoch):
                row.expires_at = until
                kept.add(name)
        return frozenset(kept)
