"""Ends pauses when their time is over, and begins those of schedules whose runs failed too often: the timers' part of
pausing. Any number of instances may run.

What is due is in PostgreSQL, so it survives every process; what is done about it is a change like any other, decided
under the schedule's lock, so two instances, or a person at the same moment, resume once.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import structlog

from streamsched.attendance import attend
from streamsched.catalog.change import pause_broken, resume_due
from streamsched.domain.names import ScheduleRef
from streamsched.ports.bell import TIMERS, Bell
from streamsched.ports.catalog import Break, CatalogStore, PauseBook
from streamsched.ports.clock import Clock

log = structlog.get_logger()

#: The longest sleep, in seconds: the sweep behind the bell, and what a clock that was set may cost.
_SWEEP: Final = 5.0
#: And the shortest: what is over and still paused is in another's hands.
_HELD: Final = 0.02
#: Schedules for one look.
_BATCH: Final = 100


class Resumption:
    """One instance."""

    def __init__(self, *, store: CatalogStore, pauses: PauseBook, bell: Bell, clock: Clock) -> None:
        self._store = store
        self._pauses = pauses
        self._bell = bell
        self._clock = clock

    async def run(self) -> None:
        """Resumes until cancelled: sleeps until the next pause ends, or the bell says that one ends sooner."""
        async with self._bell.listen(TIMERS) as ring:
            await attend(self._look, rest=ring.wait, called="resumption")

    async def run_once(self) -> datetime | None:
        """Pauses what failed too often, and resumes what is due now, never early.

        Returns when the next pause ends (UTC); None when none does.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        for broken in await self._pauses.broken(limit=_BATCH):
            await self._pause(broken)
        while due := await self._pauses.over(now=self._clock.now(), limit=_BATCH):
            resumed = [await self._resume(ref) for ref in due]
            if not any(resumed):
                break
        return await self._pauses.next_end()

    async def _look(self) -> float:
        next_end = await self.run_once()
        ahead = _SWEEP if next_end is None else (next_end - self._clock.now()).total_seconds()
        return max(_HELD, min(ahead, _SWEEP))

    async def _pause(self, broken: Break) -> None:
        ref, now = broken.schedule, self._clock.now()
        applied = await self._store.change(ref.owner, [ref], lambda app: pause_broken(app, broken, now=now), now=now)
        await self._pauses.mended(broken)
        for each in applied.change.schedules:
            log.warning("schedule.broken", schedule=str(ref), generation=each.after.generation, reason=each.reason)

    async def _resume(self, ref: ScheduleRef) -> bool:
        now = self._clock.now()
        applied = await self._store.change(ref.owner, [ref], lambda app: resume_due(app, ref, now=now), now=now)
        for each in applied.change.schedules:
            log.info("schedule.resumed", schedule=str(ref), generation=each.after.generation, reason=each.reason)
        return bool(applied.change.schedules)
