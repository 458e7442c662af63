"""A role that one process has at a time, such as the relay, held by a lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any

import structlog

from streamsched.domain.errors import UnavailableError
from streamsched.membership.broker_health import BrokerHealth
from streamsched.ports.leases import Leases, role_lease
from streamsched.process.cancellation import CLOSING_S, cancel

log = structlog.get_logger()


class SingletonRole:
    """Competes for the lease of the role `name`.

    For a moment two processes may both believe that they hold it: the work of a role must be fenced where it writes.
    """

    def __init__(
        self, leases: Leases, name: str, owner: str, *, ttl: timedelta, health: BrokerHealth | None = None
    ) -> None:
        """`health`: while the log is lost to this process, `run` leaves the role to others."""
        self.name = name
        self._lease = role_lease(name)
        self._health = health
        self._leases = leases
        self._owner = owner
        self._ttl = ttl
        self._epoch: int | None = None

    async def hold(self) -> bool:
        """Renews the lease, or claims it when it is free; whether this process holds it for another `ttl`.

        Raises:
            UnavailableError: the database is unavailable; the holder is unknown.
        """
        if self._epoch is not None:
            kept = await self._leases.renew({self._lease: self._epoch}, self._owner, self._ttl)
            if self._lease in kept:
                return True
        self._epoch = (await self._leases.claim([self._lease], self._owner, self._ttl)).get(self._lease)
        return self._epoch is not None

    async def release(self) -> None:
        """Releases the lease, so that another process can claim it at once. Idempotent."""
        epoch, self._epoch = self._epoch, None
        if epoch is not None:
            await self._leases.release({self._lease: epoch}, self._owner)

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs `work` while the role is held: starts it when the lease is claimed, cancels it when the lease is lost,
        restarts it when it returns. Runs until cancelled, then releases the lease. Raises what `work` raises.
        """
        every_s, now_s = self._ttl.total_seconds() / 4, asyncio.get_running_loop().time
        working: asyncio.Task[None] | None = None
        try:
            while True:
                held = await self._try()
                if held is False and working is not None:
                    log.info("singleton_role.lost", role=self.name)
                    await cancel(working, retry_s=CLOSING_S)
                    working = None
                if held and working is None:
                    log.info("singleton_role.taken", role=self.name)
                    working = asyncio.create_task(work())
                pause = every_s - now_s() % every_s  # all roles of a process at the same moments: one statement
                if working is None:
                    await asyncio.sleep(pause)
                    continue
                await asyncio.wait((working,), timeout=pause)
                if working.done():
                    working.result()
                    working = None
        finally:
            if working is not None:
                await cancel(working, retry_s=CLOSING_S)
            with suppress(UnavailableError):
                await self.release()

    async def _try(self) -> bool | None:
        """Whether the role is held; None when unknown, in which case nothing changes."""
        try:
            if self._health is not None and self._health.is_lost:
                await self.release()
                return False
            return await self.hold()
        except UnavailableError as error:
            log.warning("singleton_role.unknown", role=self.name, error=str(error))
            return None
