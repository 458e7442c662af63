"""Fires ticks and wake-ups into the log: never early, each once, with any number of instances (promise G6)."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Final

import structlog

from streamsched.codec import signal as signal_codec
from streamsched.domain.errors import UnavailableError
from streamsched.domain.event import Event, Ticked
from streamsched.domain.jitter import due_until, fires_at, tick_fired_at
from streamsched.domain.misfire import due_ticks
from streamsched.domain.signal import Occurred, Woken
from streamsched.ports.bell import TIMERS, Bell
from streamsched.ports.clock import Clock
from streamsched.ports.outbox import OutboxRecord
from streamsched.ports.timers import DueTimer, Firing, TimerStore
from streamsched.ports.topics import SIGNALS
from streamsched.ports.wakes import WakeStore

log = structlog.get_logger()

SOURCE: Final = "streamsched/timers"

#: Timers, or wake-ups, for one transaction.
_BATCH: Final = 200
#: The longest sleep, in seconds: the sweep behind the bell, and what a clock that was set may cost.
_SWEEP: Final = 5.0
#: The shortest, when the next timer is due but another instance has it.
_NOT_MINE: Final = 0.2
_AGAIN: Final = 1.0


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
            while True:
                try:
                    pause = self._pause(await self.run_once())
                except UnavailableError as exc:
                    log.warning("timers.interrupted", reason=str(exc), again_in=_AGAIN)
                    await asyncio.sleep(_AGAIN)
                    continue
                await ring.wait(pause)

    async def run_once(self) -> datetime | None:
        """Fires what is due now. Returns when the next timer or wake-up is due (UTC); None when there is none.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        while True:
            now = self._clock.now()
            ticked = await self._store.fire(now=now, limit=_BATCH, decide=lambda timer, now=now: firing(timer, now))
            woken = await self._wakes.fire(now=now, limit=_BATCH, record=_woken)
            if ticked or woken:
                log.info("timers.fired", timers=ticked, wakes=woken)
            if ticked < _BATCH and woken < _BATCH:
                dues = [await self._store.next_due(), await self._wakes.next_due()]
                return min((due for due in dues if due is not None), default=None)

    def _pause(self, next_due: datetime | None) -> float:
        if next_due is None:
            return _SWEEP
        ahead = (next_due - self._clock.now()).total_seconds()
        return min(ahead, _SWEEP) if ahead > 0 else _NOT_MINE


def firing(timer: DueTimer, now: datetime) -> Firing:
    """What a due timer sends to its schedule's home, by the schedule's misfire policy. Pure; the same tick always has
    the same event id.
    """
    if timer.leaf is None:
        return Firing((), None)
    leaf, created_at = timer.leaf, timer.created_at
    ticks = due_ticks(
        leaf,
        timer.tick_at or tick_fired_at(leaf, timer.due_at, created_at=created_at),
        now,
        timer.misfire,
        timer.catch_up,
        created_at=created_at,
        until=due_until(leaf, now, timer.schedule, created_at=created_at),
        due_at=timer.due_at if timer.tick_at else None,
    )
    records = [_tick(timer, due) for due in ticks.fire]
    if ticks.tick is None or ticks.next_at != ticks.tick:  # there is none, or it waits for its turn
        return Firing(records, ticks.next_at, ticks.tick, ticks.skipped)
    next_at = fires_at(leaf, ticks.tick, timer.schedule, created_at=created_at)
    return Firing(records, next_at, skipped=ticks.skipped)


def _tick(timer: DueTimer, due: datetime) -> OutboxRecord:
    name = f"tick:{timer.schedule}:{timer.generation}:{timer.leaf_id}:{due.isoformat()}"
    fact = Ticked(timer.schedule, timer.generation, timer.leaf_id, due)
    key, value = signal_codec.encode(Occurred(Event(name, SOURCE, due, fact)))
    return OutboxRecord(SIGNALS, key.decode(), value)


def _woken(woken: Woken) -> OutboxRecord:
    key, value = signal_codec.encode(woken)
    return OutboxRecord(SIGNALS, key.decode(), value)
