"""Fires ticks and wake-ups into the log: never early, each once, with any number of instances (promise G6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

import structlog

from streamsched.attendance import attend
from streamsched.ports.bell import TIMERS, Bell
from streamsched.ports.clock import Clock
from streamsched.ports.timers import TimerStore
from streamsched.ports.wakes import WakeStore
from streamsched.timers.firing import Firings, woken_record

log = structlog.get_logger()

#: Timers, or wake-ups, for one transaction.
_BATCH: Final = 1000
#: How many transactions are under way when there is more than one batch: while PostgreSQL stores one, the next is made.
_LANES: Final = 2
#: The longest sleep, in seconds: the sweep behind the bell, and what a clock that was set may cost.
_SWEEP: Final = 5.0
#: The shortest, when the next timer is due but another instance has it.
_NOT_MINE: Final = 0.2


class Timers:
    """One instance. Ticks go through the outbox, in the transaction that sets the timer to its next tick; wake-ups in
    the one that forgets them.
    """

    def __init__(self, *, store: TimerStore, wakes: WakeStore, bell: Bell, clock: Clock) -> None:
        self._store = store
        self._wakes = wakes
        self._bell = bell
        self._clock = clock

    async def run(self) -> None:
        """Fires until cancelled: sleeps until the next tick or wake-up is due, or the bell says that one is due
        sooner.
        """
        async with self._bell.listen(TIMERS) as ring:
            await attend(self._look, rest=ring.wait, called="timers")

    async def run_once(self) -> datetime | None:
        """Fires what is due now. Returns when the next timer or wake-up is due (UTC); None when there is none.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ticked, woken = await _all(self._tick), await _all(self._wake)
        if ticked or woken:
            log.info("timers.fired", timers=ticked, wakes=woken)
        dues = [await self._store.next_due(), await self._wakes.next_due()]
        return min((due for due in dues if due is not None), default=None)

    async def _tick(self) -> int:
        now = self._clock.now()
        return await self._store.fire(now=now, limit=_BATCH, decide=Firings(now))

    async def _wake(self) -> int:
        return await self._wakes.fire(now=self._clock.now(), limit=_BATCH, record=woken_record)

    async def _look(self) -> float:
        next_due = await self.run_once()
        if next_due is None:
            return _SWEEP
        ahead = (next_due - self._clock.now()).total_seconds()
        return min(ahead, _SWEEP) if ahead > 0 else _NOT_MINE


async def _all(fire: Callable[[], Awaitable[int]]) -> int:
    """Fires until a batch was not full; returns how many that were. Raises what a lane raised, when all have ended."""
    first = await fire()
    if first < _BATCH:
        return first

    async def lane() -> int:
        total = 0
        while fired := await fire():
            total += fired
            if fired < _BATCH:
                break
        return total

    ended = await asyncio.gather(*(lane() for _ in range(_LANES)), return_exceptions=True)
    for each in ended:
        if isinstance(each, BaseException):
            raise each
    return first + sum(each for each in ended if isinstance(each, int))
