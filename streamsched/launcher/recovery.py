"""The lease of this launcher, and the return of the inline runs of launchers whose lease has expired.

Within one lease time and `_CHECK` seconds after a launcher died, its runs are back, whatever their number: those that
were never started are in the queue again with all their attempts, and those whose request may have left are repeated
with the same `Idempotency-Key`. A launcher that is only paused keeps, on this host, the runs that it started.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Final

import structlog

from streamsched.domain.errors import InvalidError, UnavailableError
from streamsched.ports.clock import Clock
from streamsched.ports.runner import RunnerId, Runners
from streamsched.process.run_forever import run_forever
from streamsched.store.runs.launchers import LauncherLeases

log = structlog.get_logger()

#: Seconds between two renewals, at most; each also looks for expired leases.
_CHECK: Final = 1.0


class Recovery:
    """Belongs to one launcher. Any number of launchers recover at a time; each lost one is recovered by one of them.

    Args:
        me: the id of this process, as its inline runs have it.
        ttl: how long a lease lives without renewal.
        attempts: most runs of a job when they are lost, unless its schedule sets another number.
    """

    def __init__(
        self, leases: LauncherLeases, runners: Runners, me: RunnerId, clock: Clock, *, ttl: timedelta, attempts: int
    ) -> None:
        self._leases = leases
        self._runners = runners
        self._me = str(me)
        self._clock = clock
        self._ttl = ttl
        self._attempts = attempts

    async def renew(self) -> None:
        """Holds the lease for another lease time; before the first run is claimed, and all the time after.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        await self._leases.renew(self._me, self._ttl, self._runners.places())

    async def run(self) -> None:
        """Renews and recovers until cancelled, then releases the lease. Retries while PostgreSQL is unavailable."""
        try:
            await run_forever(self._step, called="recovery")
        finally:
            with suppress(UnavailableError):
                await self._leases.release(self._me)

    async def run_once(self) -> bool:
        """Renews the lease and takes back what expired ones left; whether there is more to take.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call again.
        """
        await self.renew()
        more = [await self._recover(launcher) for launcher in await self._leases.list_expired(self._me, self._ttl)]
        return any(more)

    async def _recover(self, launcher: str) -> bool:
        gone = not self._is_alive(launcher)
        found = await self._leases.recover(
            launcher, self._ttl, gone=gone, attempts=self._attempts, now=self._clock.now()
        )
        if found is None or not (gone or found.runs):
            return False
        action = "launcher.lost" if gone else "launcher.paused"
        write = log.error if found.runs else log.info
        write(action, launcher=launcher, requeued=found.requeued, repeated=found.repeated, ended=found.ended)
        return found.more

    def _is_alive(self, launcher: str) -> bool:
        """Whether its process lives on this host. On another host its lease decides."""
        try:
            return self._runners.is_alive(RunnerId.parse(launcher)) is True
        except InvalidError:
            return False

    async def _step(self) -> float:
        return 0.0 if await self.run_once() else min(_CHECK, self._ttl.total_seconds() / 4)
