"""One clock for every process of an installation: PostgreSQL's (the reasons: ADR 0008)."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Final

import asyncpg
import structlog

from streamsched.domain.errors import UnavailableError
from streamsched.ports.clock import Clock
from streamsched.store.pool import translated

log = structlog.get_logger()

_EVERY: Final = 5.0
#: A machine whose clock is further off is worth a line in the log.
_FAR: Final = timedelta(seconds=1)


class PostgresClock:
    """`ports.clock.Clock`: the machine's clock, corrected by how far it was from PostgreSQL's when last looked.

    Ahead of PostgreSQL by no more than the machine gained since then; behind it by as long as the answer took.
    """

    def __init__(self, pool: asyncpg.Pool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock
        self._ahead = timedelta(0)

    def now(self) -> datetime:
        return self._clock.now() - self._ahead

    async def compare(self) -> None:
        """Looks at PostgreSQL's clock.

        Raises:
            UnavailableError: PostgreSQL is away; the correction stays as it was.
        """
        with translated():
            theirs: datetime = await self._pool.fetchval("SELECT clock_timestamp()")
        before, self._ahead = self._ahead, self._clock.now() - theirs
        if abs(self._ahead) > _FAR and abs(self._ahead - before) > _FAR:
            log.warning("clock.differs", ahead_s=round(self._ahead.total_seconds(), 3))

    async def run(self) -> None:
        """Looks again every few seconds, until cancelled."""
        while True:
            try:
                await self.compare()
            except UnavailableError as exc:
                log.debug("clock.unavailable", reason=str(exc))
            await asyncio.sleep(_EVERY)
