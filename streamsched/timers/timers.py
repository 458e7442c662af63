"""Sends due ticks and wake-ups to the log: never early, each once, with any number of instances (promise G6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

import structlog

from streamsched.codec.records import wakeup
from streamsched.log.control import outbox_record
from streamsched.log.intake import TopicIntake
from streamsched.log.topics import WAKEUPS
from streamsched.ports.broker import Broker, Record
from streamsched.ports.clock import Clock
from streamsched.ports.intake import IntakeStore
from streamsched.ports.notifier import TIMERS, Notifier
from streamsched.ports.timers import TimerStore, WakeStore, WakeUpRequest
from streamsched.process.run_forever import run_forever
from streamsched.timers.firing import Firings

log = structlog.get_logger()

#: Timers or wake-ups of one transaction.
_BATCH: Final = 1000
#: Transactions in progress at a time: while PostgreSQL stores one batch, the next is computed.
_CONCURRENT: Final = 2
#: The longest sleep, in seconds, in case a notification is lost or the clock is set.
_SWEEP: Final = 5.0
#: The sleep, in seconds, while another instance has locked the timer that is due.
_LOCKED_RETRY: Final = 0.2


class Timers:
    """Belongs to one task. A tick is written to the outbox in the transaction that sets the timer to its next tick, a
    wake-up in the one that deletes it.
    """

    def __init__(self, *, store: TimerStore, wakes: WakeStore, notifier: Notifier, clock: Clock) -> None:
        self._store = store
        self._wakes = wakes
        self._notifier = notifier
        self._clock = clock

    async def run(self) -> None:
        """Fires until cancelled; sleeps until the next tick or wake-up is due or an earlier one is notified."""
        async with self._notifier.listen(TIMERS) as subscription:
            await run_forever(self._step, sleep=subscription.wait, called="timers")

    async def run_once(self) -> datetime | None:
        """Fires what is due now. Returns when the next timer or wake-up is due (UTC); None when there is none.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ticked, woken = await _all(self._tick), await _all(self._wake)
        if ticked or woken:
            log.info("timers.fired", timers=ticked, wakes=woken)
        times = [await self._store.next_due_at(), await self._wakes.next_due_at()]
        return min((due for due in times if due is not None), default=None)

    async def _tick(self) -> int:
        now = self._clock.now()
        return await self._store.fire(now=now, limit=_BATCH, decide=Firings(now))

    async def _wake(self) -> int:
        return await self._wakes.fire(now=self._clock.now(), limit=_BATCH, record=outbox_record)

    async def _step(self) -> float:
        next_due = await self.run_once()
        if next_due is None:
            return _SWEEP
        ahead = (next_due - self._clock.now()).total_seconds()
        return min(ahead, _SWEEP) if ahead > 0 else _LOCKED_RETRY


class WakeIntake(TopicIntake[WakeUpRequest]):
    """Stores the newest wake-up request of each accumulation, from topic `wakeups`; belongs to one task."""

    def __init__(
        self, broker: Broker, store: IntakeStore[WakeUpRequest], clock: Clock, *, max_records: int = 2000
    ) -> None:
        super().__init__(WAKEUPS, _request, broker=broker, store=store, clock=clock, max_records=max_records)


async def _all(fire: Callable[[], Awaitable[int]]) -> int:
    """Fires until a batch is not full; returns how many were fired. Raises an exception of a batch when all ended."""
    first = await fire()
    if first < _BATCH:
        return first

    async def batches() -> int:
        total = 0
        while fired := await fire():
            total += fired
            if fired < _BATCH:
                break
        return total

    results = await asyncio.gather(*(batches() for _ in range(_CONCURRENT)), return_exceptions=True)
    for each in results:
        if isinstance(each, BaseException):
            raise each
    return first + sum(each for each in results if isinstance(each, int))


def _request(record: Record) -> WakeUpRequest:
    return WakeUpRequest(wakeup.decode(record.value or b""), record.at)
