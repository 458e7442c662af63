"""Judges expectations when they are due, and says when something came late. Any number of instances may run; each due
time is judged once.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import structlog

from streamsched.ports.clock import Clock
from streamsched.ports.notifier import TIMERS, Notifier
from streamsched.process.run_forever import run_forever
from streamsched.store.expectations.judgement import ExpectationStore

log = structlog.get_logger()

#: Expectations of one transaction.
_BATCH: Final = 500
#: Misses of one transaction that are logged one by one.
_MOST_LOGGED: Final = 20
#: The longest sleep, in seconds, in case a notification is lost.
_SWEEP: Final = 5.0
#: The sleep, in seconds, while one is due whose evidence is still being read, or that another instance judges.
_RETRY: Final = 0.5


class ExpectationWatch:
    """Belongs to one task."""

    def __init__(self, expectations: ExpectationStore, notifier: Notifier, clock: Clock) -> None:
        self._expectations = expectations
        self._notifier = notifier
        self._clock = clock

    async def run(self) -> None:
        """Judges until cancelled; sleeps until the next one is due or an earlier one is notified."""
        async with self._notifier.listen(TIMERS) as subscription:
            await run_forever(self._step, sleep=subscription.wait, called="expectations")

    async def run_once(self) -> datetime | None:
        """Judges what can be judged now. Returns when the next one is due (UTC), also when it has passed already; None
        when there is none.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        while True:
            judged = await self._expectations.judge(now=self._clock.now(), limit=_BATCH)
            for miss in judged.misses[:_MOST_LOGGED]:
                log.warning("expectation.missed", expectation=str(miss.expectation.ref), reason=miss.reason)
            for came in judged.came[:_MOST_LOGGED]:
                log.info("expectation.met_late", expectation=str(came.expectation.ref), reason=came.reason)
            if max(len(judged.misses), len(judged.came)) > _MOST_LOGGED:
                log.warning("expectations.judged", missed=len(judged.misses), met_late=len(judged.came))
            if not judged.expectations:
                return await self._expectations.next_due_at()

    async def _step(self) -> float:
        next_due = await self.run_once()
        ahead = _SWEEP if next_due is None else (next_due - self._clock.now()).total_seconds()
        return max(_RETRY, min(ahead, _SWEEP))
