"""Reviews the stored next ticks of all schedules: when a process takes this over, after each judgement about the clock,
when this process knows other rules of zones than the one before, and every hour.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import structlog

from streamsched.domain.time.zone import tzdata_version
from streamsched.ports.clock import Clock
from streamsched.process.run_forever import run_forever
from streamsched.store.events.timers import PostgresTimers, TicksReview
from streamsched.timers.firing import review

log = structlog.get_logger()

#: Seconds between two looks at what has changed.
_EVERY_S: Final = 5.0
#: Without a reason to review them, ticks are reviewed so often: another process may know other rules of zones.
_AT_LEAST: Final = timedelta(hours=1)
#: Timers of one transaction.
_BATCH: Final = 500


class TickReview:
    """Belongs to one task; one process does it, by lease. Nothing is reviewed while the clock is in doubt.

    `judgement`: the number of the last judgement about the clock.
    """

    def __init__(
        self, store: PostgresTimers, clock: Clock, *, judgement: Callable[[], int] = lambda: 0, batch: int = _BATCH
    ) -> None:
        self._store = store
        self._clock = clock
        self._judgement = judgement
        self._batch = batch
        self._reviewed_at: datetime | None = None

    async def run(self) -> None:
        """Reviews until cancelled; retries while PostgreSQL is unavailable."""
        await run_forever(self._step, called="tick_review", ending_by=self._clock)

    async def run_once(self) -> int:
        """Reviews all timers if there is a reason to; returns how many were moved.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call it again.
        """
        now, present = self._clock.now(), TicksReview(tzdata_version(), self._judgement())
        last = await self._store.last_review()
        recent = self._reviewed_at is not None and timedelta(0) <= now - self._reviewed_at < _AT_LEAST
        if recent and last == present:
            return 0
        moved, behind = 0, ("", "")
        while True:
            page = await self._store.review(behind, now=self._clock.now(), limit=self._batch, decide=review)
            moved += page.moved
            if page.last is None:
                break
            behind = page.last
            await asyncio.sleep(0)
        await self._store.note_review(present, now=now)
        self._reviewed_at = now
        if moved or last != present:
            log.info("ticks.reviewed", moved=moved, tzdata=present.tzdata, before=last and last.tzdata)
        return moved

    async def _step(self) -> float:
        await self.run_once()
        return _EVERY_S
