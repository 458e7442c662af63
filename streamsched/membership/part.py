"""A part that one process plays at a time, such as the relay's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any

import structlog

from streamsched.cancellation import TIDYING_UP, cancel
from streamsched.domain.errors import UnavailableError
from streamsched.membership.pulse import Pulse
from streamsched.ports.leases import Leases, part_lease

log = structlog.get_logger()


class Part:
    """Tries to hold the lease of the part `name`, and says whether it does.

    Two processes may for a moment both believe they do: what the part does must be fenced where it acts.
    """

    def __init__(self, leases: Leases, name: str, owner: str, *, ttl: timedelta, pulse: Pulse | None = None) -> None:
        """`pulse`: whether what the part works with answers this process; while it is lost, `run` leaves the part to
        others."""
        self.name = name
        self._lease = part_lease(name)
        self._pulse = pulse
        self._leases = leases
        self._owner = owner
        self._ttl = ttl
        self._epoch: int | None = None

    async def held(self) -> bool:
        """Renews the lease, or takes it when nobody holds it; whether it is ours for another `ttl`.

        Raises:
            UnavailableError: the database is away; who holds it is unknown.
        """
        if self._epoch is not None:
            kept = await self._leases.renew({self._lease: self._epoch}, self._owner, self._ttl)
            if self._lease in kept:
                return True
        self._epoch = (await self._leases.claim([self._lease], self._owner, self._ttl)).get(self._lease)
        return self._epoch is not None

    async def release(self) -> None:
        """Lets the next one take it at once. Idempotent."""
        epoch, self._epoch = self._epoch, None
        if epoch is not None:
            await self._leases.release({self._lease: epoch}, self._owner)

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Does `work` while the part is held: started when it is won, cancelled when it is lost, started again when it
        ends or is won back. Runs until cancelled, then gives the part back. What `work` raises is raised.
        """
        pause = self._ttl.total_seconds() / 4
        working: asyncio.Task[None] | None = None
        try:
            while True:
                held = await self._try()
                if held is False and working is not None:
                    log.info("part.lost", part=self.name)
                    await cancel(working, again_s=TIDYING_UP)
                    working = None
                if held and working is None:
                    log.info("part.taken", part=self.name)
                    working = asyncio.create_task(work())
                if working is None:
                    await asyncio.sleep(pause)
                    continue
                await asyncio.wait((working,), timeout=pause)
                if working.done():
                    working.result()
                    working = None
        finally:
            if working is not None:
                await cancel(working, again_s=TIDYING_UP)
            with suppress(UnavailableError):
                await self.release()

    async def _try(self) -> bool | None:
        """Whether it is held; None when nobody can say, and then what was so goes on."""
        try:
            if self._pulse is not None and self._pulse.lost:
                await self.release()
                return False
            return await self.held()
        except UnavailableError as error:
            log.warning("part.unknown", part=self.name, error=str(error))
            return None
