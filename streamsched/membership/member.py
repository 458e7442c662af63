"""One worker's part in sharing the shards: it beats, takes what is free, asks for its share, hands over the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import inf

from streamsched.membership.plan import plan
from streamsched.ports.leases import OLDEST, Holder, Leases, View

#: While a handover is under way, how soon to look again.
_HANDOVER = timedelta(milliseconds=150)
#: How often being late doubles the wait for a share, and after how many times that wait it is forgotten.
_MOST_LATE = 4
_FORGIVEN = 4


@dataclass(frozen=True, slots=True)
class Step:
    """What one beat decided.

    Attributes:
        taken: names held from now on.
        lost: names another has taken: stop at once, they are its.
        hand_over: names to stop at leisure and then `release`.
        again_in: when to beat next.
        others: whether anybody else is alive.
        format: the newest version of the states' encoding that may be written under everything that is held.
    """

    taken: tuple[str, ...]
    lost: tuple[str, ...]
    hand_over: tuple[str, ...]
    again_in: timedelta
    others: bool = False
    format: int = OLDEST


class Member:
    """Holds leases on some of `names`, in balance with whoever else beats.

    A worker cut off from the database goes on with what it holds: `step` raises, and nothing is lost before another
    takes it.
    """

    def __init__(
        self,
        leases: Leases,
        worker: Holder,
        names: Sequence[str],
        *,
        ttl: timedelta,
        renew: timedelta | None = None,
        settle: timedelta = timedelta(0),
    ) -> None:
        """`ttl`: how long a silent worker keeps its leases; `renew`: how often to beat, a quarter of it by default.
        `settle`: for how long it must have beaten in time before it asks others for its share; twice as long each
        time it was late. A worker that has too much to do to beat loses its shards; asking for them at once would
        only begin the same again.
        """
        self.worker = worker
        self._leases = leases
        self._names = tuple(names)
        self._ttl = ttl
        self._renew = renew or ttl / 4
        self._settle = settle.total_seconds()
        self._loop = asyncio.get_running_loop()
        self._beaten = self._steady_since = -inf
        self._late = 0
        self._held: dict[str, int] = {}

    @property
    def held(self) -> frozenset[str]:
        return frozenset(self._held)

    def epoch(self, name: str) -> int | None:
        """Of the lease on a name that is held."""
        return self._held.get(name)

    async def step(self) -> Step:
        """One beat. Takes what is free and ours by plan; what a living worker still holds, it asks for.

        Raises:
            UnavailableError: the database is away; nothing changed.
        """
        me = self.worker.id
        view = await self._leases.beat(self.worker, self._held, self._ttl)
        settled = self._settled()
        current = {lease.name: lease for lease in view.leases}
        lost = tuple(
            name
            for name, epoch in sorted(self._held.items())
            if name not in current or (current[name].owner, current[name].epoch) != (me, epoch)
        )
        kept = {name: epoch for name, epoch in self._held.items() if name not in lost}
        formats = await self._formats(view, kept)
        planned = plan(self._names, self._able(view), self._owners(view))
        mine = [name for name, worker in planned.items() if worker == me and name not in kept]
        wanted = [name for name in mine if name in current and current[name].live and current[name].owner != me]
        if wanted and settled:
            await self._leases.want(wanted, me)
        taken = await self._claim([name for name in mine if name not in wanted]) if mine else {}
        for name in lost:  # from here on nothing may raise: what is not told to the caller now, it never hears of
            self._held.pop(name, None)
        self._held.update(taken)
        hand_over = tuple(
            name
            for name in sorted(self._held)
            if planned.get(name) != me and name in current and current[name].wanted_by not in (None, me)
        )
        others = any(worker != me for worker in view.workers)
        formats |= {name: current[name].format if name in current else OLDEST for name in taken}
        pause = self._pause(view, wanted if settled else ())
        written = min(formats.values(), default=OLDEST)
        return Step(tuple(sorted(taken)), lost, hand_over, pause, others, written)

    async def release(self, name: str) -> None:
        """Gives one name back, its work stopped.

        Raises:
            UnavailableError: the database is away; the name is no longer held here, and its lease will run out.
        """
        epoch = self._held.pop(name, None)
        if epoch is not None:
            await self._leases.release({name: epoch}, self.worker.id)

    async def leave(self) -> None:
        """Gives everything back and is no longer among the living."""
        held, self._held = self._held, {}
        await self._leases.leave(self.worker.id)
        if held:
            await self._leases.release(held, self.worker.id)

    def _settled(self) -> bool:
        """Whether no beat was late for long enough; this one counts. What was long ago is forgotten."""
        now, needed = self._loop.time(), self._settle * 2**self._late
        if now - self._beaten > self._ttl.total_seconds():
            self._late = 0 if self._beaten == -inf else min(self._late + 1, _MOST_LATE)
            self._steady_since = now
        elif now - self._steady_since > _FORGIVEN * needed:
            self._late = 0
        self._beaten = now
        return now - self._steady_since >= self._settle * 2**self._late

    async def _claim(self, names: Sequence[str]) -> Mapping[str, int]:
        return await self._leases.claim(names, self.worker.id, self._ttl, reads=self.worker.reads)

    def _able(self, view: View) -> frozenset[str]:
        """Those who read everything that may have been written; an older release has no share any more (ADR 0055)."""
        newest = max((lease.format for lease in view.leases if lease.name in self._names), default=OLDEST)
        living = {**view.workers, self.worker.id: self.worker.reads}
        return frozenset(worker for worker, reads in living.items() if reads >= newest)

    async def _formats(self, view: View, held: Mapping[str, int]) -> dict[str, int]:
        """What may be written under each lease held. What everybody alive reads is allowed first, and written then."""
        formats = {lease.name: lease.format for lease in view.leases if lease.name in held}
        common = min((*view.workers.values(), self.worker.reads))
        behind = {name: held[name] for name, known in formats.items() if known < common}
        if behind:
            allowed = await self._leases.allow(behind, self.worker.id, common)
            formats |= dict.fromkeys(allowed, common)
        return formats

    def _owners(self, view: View) -> dict[str, str]:
        return {lease.name: lease.owner for lease in view.leases if lease.live}

    def _pause(self, view: View, wanted: Sequence[str]) -> timedelta:
        """Until the next beat: short during a handover, and not past the end of a lease somebody let run out."""
        if wanted:
            return min(self._renew, _HANDOVER)
        others = [lease.expires_in for lease in view.leases if lease.live and lease.owner != self.worker.id]
        soonest = timedelta(seconds=min(others, default=self._renew.total_seconds()))
        return max(min(self._renew, soonest), _HANDOVER)
