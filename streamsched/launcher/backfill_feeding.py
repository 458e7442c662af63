"""Makes the jobs of backfills, at most `max_active` of each at a time.

One process runs this at a time, by lease; if two did, each job would still be made once.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import structlog

from streamsched.domain.limits import add_duration
from streamsched.ports.clock import Clock
from streamsched.ports.notifier import BACKFILLS, Notifier
from streamsched.process.run_forever import run_forever
from streamsched.store.jobs.backfill_feed import BackfillFeed

log = structlog.get_logger()

#: Seconds between two passes while a backfill is running, and while none is, in case a notification is lost.
_EVERY: Final = 0.5
_IDLE: Final = 5.0
#: Backfills of one transaction.
_BATCH: Final = 100
#: How often ended backfills are deleted.
_FORGET: Final = timedelta(minutes=10)


class BackfillFeeding:
    """Belongs to one task. `keep`: how long backfills are kept after their end."""

    def __init__(self, feed: BackfillFeed, notifier: Notifier, clock: Clock, *, keep: timedelta) -> None:
        self._feed = feed
        self._notifier = notifier
        self._clock = clock
        self._keep = keep
        self._forgot_at: datetime | None = None

    async def run(self) -> None:
        """Feeds until cancelled; sleeps while no backfill is running."""
        async with self._notifier.listen(BACKFILLS) as subscription:
            await run_forever(self._step, sleep=subscription.wait, called="backfills")

    async def run_once(self) -> int | None:
        """One pass; what `BackfillFeed.feed` returns.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call again.
        """
        now = self._clock.now()
        if not self._clock.in_doubt and (self._forgot_at is None or now - self._forgot_at >= _FORGET):
            while forgotten := await self._feed.forget(before=add_duration(now, -self._keep)):
                log.info("backfills.forgotten", count=forgotten)
            self._forgot_at = now
        changed = await self._feed.feed(now=now, limit=_BATCH)
        if changed:
            log.info("backfills.fed", jobs=changed)
        return changed

    async def _step(self) -> float:
        return _IDLE if await self.run_once() is None else _EVERY
