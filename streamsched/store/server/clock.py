"""One clock for every process of an installation: PostgreSQL's (the reasons: ADR 0008)."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Final

import asyncpg
import structlog

from streamsched.domain.errors import UnavailableError
from streamsched.ports.clock import Clock
from streamsched.store.connections import translated

log = structlog.get_logger()

_EVERY: Final = 5.0
#: A larger difference is logged.
_FAR: Final = timedelta(seconds=1)


class PostgresClock:
    """`ports.clock.Clock`: the machine's clock, corrected by its last measured difference from PostgreSQL's.

    It is ahead of PostgreSQL by at most the drift since then, and behind by at most the time of the round trip.
    """

    def __init__(self, pool: asyncpg.Pool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock
        self._ahead = timedelta(0)

    def now(self) -> datetime:
        return self._clock.now() - self._ahead

    async def compare(self) -> None:
        """Measures the difference from PostgreSQL's clock.

        Raises:
            UnavailableError: PostgreSQL is unavailable; the correction stays as it was.
        """
        with translated():
            theirs: datetime = await self._pool.fetchval("SELECT clock_timestamp()")
        before, self._ahead = self._ahead, self._clock.now() - theirs
        if abs(self._ahead) > _FAR and abs(self._ahead - before) > _FAR:
            log.warning("clock.differs", ahead_s=round(self._ahead.total_seconds(), 3))

    async def run(self) -> None:
        """Measures every few seconds, until cancelled."""
        while True:
            try:
                await self.compare()
            except UnavailableError as exc:
                log.debug("clock.unavailable", reason=str(exc))
            await asyncio.sleep(_EVERY)
