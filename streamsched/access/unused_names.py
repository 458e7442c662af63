"""Names of groups and pools that nothing uses any more lose their owner, so that others can declare them."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import structlog

from streamsched.ports.clock import Clock
from streamsched.process.run_forever import run_forever
from streamsched.store.catalog.namespace_grants import NamespaceGrantStore

log = structlog.get_logger()

#: Seconds between two passes.
_EVERY_S: Final = 3600.0
#: How long after the last definition that asked for it a name is kept at least: one may just be stored.
KEPT: Final = timedelta(days=1)


class UnusedNames:
    """Belongs to one task. Several launchers may run it at a time."""

    def __init__(self, store: NamespaceGrantStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def run(self) -> None:
        """Frees names until cancelled; retries while PostgreSQL is unavailable."""
        await run_forever(self._step, called="unused_names", ending_by=self._clock)

    async def run_once(self) -> int:
        """One pass; returns how many names were freed.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        now = self._clock.now()
        freed = await self._store.free(before=now - KEPT, now=now)
        if freed:
            log.info("unused_names.freed", names=freed)
        return freed

    async def _step(self) -> float:
        await self.run_once()
        return _EVERY_S
