"""One worker's membership: sends heartbeats, claims free leases, requests its share, hands over the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import inf

from streamsched.membership.plan import plan
from streamsched.ports.leases import OLDEST, LeaseHolder, Leases, Membership

#: The time until the next heartbeat while a handover is in progress.
_HANDOVER = timedelta(milliseconds=150)
#: How many late heartbeats double the settling time at most, and after how many settling times they are forgotten.
_MAX_LATE = 4
_FORGIVEN = 4


@dataclass(frozen=True, slots=True)
class Step:
    """What one heartbeat decided.

    Attributes:
        taken: names held from now on.
        lost: names that another worker has taken; stop them at once.
        hand_over: names to stop in an orderly way and then to `release`.
        again_in: the time until the next heartbeat.
        others: whether other workers are alive.
        format: the newest changelog format that may be written under all leases held.
    """

    taken: tuple[str, ...]
    lost: tuple[str, ...]
    hand_over: tuple[str, ...]
    again_in: timedelta
    others: bool = False
    format: int = OLDEST


class Member:
    """Holds leases on a balanced part of `names`.

    A worker cut off from the database keeps running what it holds: `step` raises, and a lease is lost only when another
    worker takes it.
    """

    def __init__(
        self,
        leases: Leases,
        worker: LeaseHolder,
        names: Sequence[str],
        *,
        ttl: timedelta,
        renew: timedelta | None = None,
        settle: timedelta = timedelta(0),
    ) -> None:
        """`ttl`: how long leases last without a heartbeat. `renew`: the interval of heartbeats, by default `ttl` / 4.
        `settle`: how long heartbeats must have been in time before the worker requests its share; doubled each time one
        was late. A worker too busy to send heartbeats loses its shards; requesting them at once would repeat that.
        """
        self.worker = worker
        self._leases = leases
        self._names = tuple(names)
        self._ttl = ttl
        self._renew = renew or ttl / 4
        self._settle = settle.total_seconds()
        self._loop = asyncio.get_running_loop()
        self._last_beat = self._steady_since = -inf
        self._late = 0
        self._held: dict[str, int] = {}

    @property
    def held_names(self) -> frozenset[str]:
        """The names whose leases this process holds."""
        return frozenset(self._held)

    def epoch(self, name: str) -> int | None:
        """The epoch of the lease on a name; None when it is not held."""
        return self._held.get(name)

    def share(self, names: Sequence[str]) -> None:
        """Other names are shared from the next step on. One that is held and no longer shared is handed over."""
        self._names = tuple(names)

    async def step(self) -> Step:
        """Sends one heartbeat. Of the names planned for this worker it claims the free ones and requests the others
        from their holders.

        Raises:
            UnavailableError: the database is unavailable; nothing changed.
        """
        me = self.worker.id
        view = await self._leases.heartbeat(self.worker, self._held, self._ttl)
        settled = self._record_heartbeat()
        current = {lease.name: lease for lease in view.leases}
        lost = tuple(
            name
            for name, epoch in sorted(self._held.items())
            if name not in current or (current[name].owner, current[name].epoch) != (me, epoch)
        )
        kept = {name: epoch for name, epoch in self._held.items() if name not in lost}
        formats = await self._formats(view, kept)
        planned = plan(self._names, self._workers_that_read_format(view), self._owners(view))
        mine = [name for name, worker in planned.items() if worker == me and name not in kept]
        wanted = [name for name in mine if name in current and current[name].is_live and current[name].owner != me]
        if wanted and settled:
            await self._leases.want(wanted, me)
        taken = await self._claim([name for name in mine if name not in wanted]) if mine else {}
        for name in lost:  # nothing may raise from here on: the caller would miss these changes
            self._held.pop(name, None)
        self._held.update(taken)
        hand_over = tuple(
            name
            for name in sorted(self._held)
            if name not in self._names
            or (planned.get(name) != me and name in current and current[name].wanted_by not in (None, me))
        )
        others = any(worker != me for worker in view.workers)
        formats |= {name: current[name].format if name in current else OLDEST for name in taken}
        pause = self._pause(view, wanted if settled else ())
        written = min(formats.values(), default=OLDEST)
        return Step(tuple(sorted(taken)), lost, hand_over, pause, others, written)

    async def release(self, name: str) -> None:
        """Releases one lease; stop its work first.

        Raises:
            UnavailableError: the database is unavailable; the name is no longer held here, and its lease expires.
        """
        epoch = self._held.pop(name, None)
        if epoch is not None:
            await self._leases.release({name: epoch}, self.worker.id)

    async def leave(self) -> None:
        """Releases all leases and leaves the membership."""
        held, self._held = self._held, {}
        await self._leases.leave(self.worker.id)
        if held:
            await self._leases.release(held, self.worker.id)

    def _record_heartbeat(self) -> bool:
        """Records this heartbeat; whether none was late for the settling time."""
        now, needed = self._loop.time(), self._settle * 2**self._late
        if now - self._last_beat > self._ttl.total_seconds():
            self._late = 0 if self._last_beat == -inf else min(self._late + 1, _MAX_LATE)
            self._steady_since = now
        elif now - self._steady_since > _FORGIVEN * needed:
            self._late = 0
        self._last_beat = now
        return now - self._steady_since >= self._settle * 2**self._late

    async def _claim(self, names: Sequence[str]) -> Mapping[str, int]:
        return await self._leases.claim(names, self.worker.id, self._ttl, reads=self.worker.reads)

    def _workers_that_read_format(self, view: Membership) -> frozenset[str]:
        """The workers that can read every format written so far; others get no share (ADR 5)."""
        newest = max((lease.format for lease in view.leases if lease.name in self._names), default=OLDEST)
        living = {**view.workers, self.worker.id: self.worker.reads}
        return frozenset(worker for worker, reads in living.items() if reads >= newest)

    async def _formats(self, view: Membership, held: Mapping[str, int]) -> dict[str, int]:
        """By lease held, the format that may be written. A format that all living workers read is first recorded in the
        lease, then written.
        """
        formats = {lease.name: lease.format for lease in view.leases if lease.name in held}
        common = min((*view.workers.values(), self.worker.reads))
        behind = {name: held[name] for name, known in formats.items() if known < common}
        if behind:
            allowed = await self._leases.allow(behind, self.worker.id, common)
            formats |= dict.fromkeys(allowed, common)
        return formats

    def _owners(self, view: Membership) -> dict[str, str]:
        return {lease.name: lease.owner for lease in view.leases if lease.is_live}

    def _pause(self, view: Membership, wanted: Sequence[str]) -> timedelta:
        """The time until the next heartbeat: short during a handover, and not after the expiry of another's lease."""
        if wanted:
            return min(self._renew, _HANDOVER)
        others = [lease.expires_in for lease in view.leases if lease.is_live and lease.owner != self.worker.id]
        soonest = timedelta(seconds=min(others, default=self._renew.total_seconds()))
        return max(min(self._renew, soonest), _HANDOVER)
