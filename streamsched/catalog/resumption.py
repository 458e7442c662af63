"""Resumes schedules whose pause has ended, and pauses those whose runs failed too often. Runs with the timers, in any
number of instances.

Due times are in PostgreSQL. Each resumption is an ordinary change, decided under the schedule's lock, so concurrent
instances or users resume a schedule once.
"""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import datetime
from typing import Final

import structlog

from streamsched.catalog.change import pause_broken, resume_due
from streamsched.domain.errors import FencedError, UnavailableError, describe_failure
from streamsched.domain.names import ScheduleRef
from streamsched.domain.quarantine import Quarantine
from streamsched.ports.clock import Clock
from streamsched.ports.notifier import TIMERS, Notifier
from streamsched.process.run_forever import run_forever
from streamsched.store.catalog.catalog import CatalogStore
from streamsched.store.catalog.pauses import PauseStore
from streamsched.store.catalog.records import FailureStreak

log = structlog.get_logger()

#: Longest sleep in seconds: bounds the delay after a lost notification or a change of the clock.
_SWEEP: Final = 5.0
#: Shortest sleep in seconds: an ended pause that still exists is being resumed by another instance.
_HELD: Final = 0.02
#: Shortest sleep in seconds while schedules that failed to change are in quarantine.
_FAILED: Final = 1.0
#: Most schedules in one step.
_BATCH: Final = 100


class Resumption:
    """One instance of the resumption loop."""

    def __init__(self, *, store: CatalogStore, pauses: PauseStore, notifier: Notifier, clock: Clock) -> None:
        self._store = store
        self._pauses = pauses
        self._notifier = notifier
        self._clock = clock
        self._failed: Quarantine[ScheduleRef] = Quarantine()

    async def run(self) -> None:
        """Resumes until cancelled; sleeps until the next pause ends or a notification arrives."""
        async with self._notifier.listen(TIMERS) as subscription:
            await run_forever(self._step, sleep=subscription.wait, called="resumption")

    async def run_once(self) -> datetime | None:
        """Pauses schedules that failed too often, and resumes those whose pause has ended, never early.

        Returns when the next pause ends (UTC); None when there is none.

        Raises:
            UnavailableError: PostgreSQL is unreachable.
        """
        held = self._failed.held_keys(self._clock.now())
        for broken in await self._pauses.list_streaks(limit=_BATCH + len(held)):
            if broken.schedule not in held:
                await self._try(broken.schedule, self._pause(broken))
        while due := await self._pauses.list_ended(now=self._clock.now(), limit=_BATCH + len(held)):
            resumed = [await self._try(ref, self._resume(ref)) for ref in due if ref not in held]
            if not any(resumed):
                break
            held = self._failed.held_keys(self._clock.now())
        return await self._pauses.next_end()

    async def _step(self) -> float:
        next_end = await self.run_once()
        now = self._clock.now()
        ahead = _SWEEP if next_end is None else (next_end - now).total_seconds()
        shortest = _FAILED if self._failed.held_keys(now) else _HELD
        return max(shortest, min(ahead, _SWEEP))

    async def _try(self, ref: ScheduleRef, change: Awaitable[bool]) -> bool:
        """Returns the result of the change; if it raises, the schedule is quarantined and retried later."""
        try:
            done = await change
        except (UnavailableError, FencedError):
            raise
        except Exception as failure:  # noqa: BLE001 - caused by this schedule's own data; others continue
            retry = self._failed.add(ref, self._clock.now())
            log.error(
                "schedule.not_changed", schedule=str(ref), reason=describe_failure(failure), retry_at=retry.isoformat()
            )
            return False
        self._failed.release(ref)
        return done

    async def _pause(self, broken: FailureStreak) -> bool:
        ref, now = broken.schedule, self._clock.now()
        applied = await self._store.change(ref.owner, [ref], lambda app: pause_broken(app, broken, now=now), now=now)
        await self._pauses.remove_streak(broken)
        for each in applied.change.schedules:
            log.warning("schedule.broken", schedule=str(ref), generation=each.after.generation, reason=each.reason)
        return bool(applied.change.schedules)

    async def _resume(self, ref: ScheduleRef) -> bool:
        now = self._clock.now()
        applied = await self._store.change(ref.owner, [ref], lambda app: resume_due(app, ref, now=now), now=now)
        for each in applied.change.schedules:
            log.info("schedule.resumed", schedule=str(ref), generation=each.after.generation, reason=each.reason)
        return bool(applied.change.schedules)
