"""Looks at deadlines when their time comes, never before. Any number of instances may run; each is settled once."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import structlog

from streamsched.attendance import attend
from streamsched.ports.bell import TIMERS, Bell
from streamsched.ports.clock import Clock
from streamsched.ports.deadlines import Deadlines

log = structlog.get_logger()

#: The longest sleep, in seconds: the sweep behind the bell.
_SWEEP: Final = 5.0
#: And the shortest: what is due and still there is in another instance's hands.
_HELD: Final = 0.02
#: Deadlines for one look.
_BATCH: Final = 100


class DeadlineWatch:
    """One instance."""

    def __init__(self, deadlines: Deadlines, bell: Bell, clock: Clock) -> None:
        self._deadlines = deadlines
        self._bell = bell
        self._clock = clock

    async def run(self) -> None:
        """Watches until cancelled: sleeps until the next one is due, or the bell says that one is sooner."""
        async with self._bell.listen(TIMERS) as ring:
            await attend(self._look, rest=ring.wait, called="deadlines")

    async def run_once(self) -> datetime | None:
        """Settles what is due now. Returns when the next one is (UTC); None when none is watched.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        while True:
            now = self._clock.now()
            due = await self._deadlines.due(now, limit=_BATCH)
            for watched in due:
                miss = await self._deadlines.settle(watched, now=now)
                if miss is not None:
                    log.warning("deadline.missed", job=miss.job, then=miss.deadline.then, reason=miss.reason)
            if len(due) < _BATCH:
                return await self._deadlines.next_due()

    async def _look(self) -> float:
        next_due = await self.run_once()
        ahead = _SWEEP if next_due is None else (next_due - self._clock.now()).total_seconds()
        return max(_HELD, min(ahead, _SWEEP))
