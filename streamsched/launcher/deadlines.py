"""Settles deadlines when they are due. Any number of instances may run; each deadline is settled once."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import structlog

from streamsched.ports.clock import Clock
from streamsched.ports.notifier import TIMERS, Notifier
from streamsched.process.run_forever import run_forever
from streamsched.store.runs.deadlines import DeadlineStore

log = structlog.get_logger()

#: The longest sleep, in seconds, in case a notification is lost.
_SWEEP: Final = 5.0
#: The shortest sleep, in seconds: a deadline that is still due is locked by another instance.
_LOCKED_RETRY: Final = 0.02
#: Deadlines read at a time.
_BATCH: Final = 100


class DeadlineWatch:
    """Belongs to one task."""

    def __init__(self, deadlines: DeadlineStore, notifier: Notifier, clock: Clock) -> None:
        self._deadlines = deadlines
        self._notifier = notifier
        self._clock = clock

    async def run(self) -> None:
        """Settles until cancelled; sleeps until the next deadline is due or an earlier one is notified."""
        async with self._notifier.listen(TIMERS) as subscription:
            await run_forever(self._step, sleep=subscription.wait, called="deadlines", ending_by=self._clock)

    async def run_once(self) -> datetime | None:
        """Settles what is due now. Returns when the next one is due (UTC); None when there is none.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        while True:
            now = self._clock.now()
            due = await self._deadlines.list_due(now, limit=_BATCH)
            for watched in due:
                miss = await self._deadlines.settle(watched, now=now)
                if miss is not None:
                    log.warning("deadline.missed", job=miss.job, then=miss.deadline.then, reason=miss.reason)
            if len(due) < _BATCH:
                return await self._deadlines.next_due_at()

    async def _step(self) -> float:
        next_due = await self.run_once()
        ahead = _SWEEP if next_due is None else (next_due - self._clock.now()).total_seconds()
        return max(_LOCKED_RETRY, min(ahead, _SWEEP))
