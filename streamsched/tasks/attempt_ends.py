"""The ends of attempts, from the end of a delivery until it is stored.

They are stored in batches, while other tasks are started: an end names its start, so it never counts as the end of a
later start of the same task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from streamsched.domain.errors import SYSTEMIC, describe_failure
from streamsched.domain.failure_isolation import FailureIsolation
from streamsched.domain.tasks.attempt import AttemptFailed, after_attempt
from streamsched.domain.tasks.task_retry import BackoffRetry
from streamsched.ports.clock import Clock
from streamsched.store.tasks.delivery import DeliveryKey, DeliveryStore, EndedAttempt
from streamsched.tasks.in_flight import HeldDeliveries
from streamsched.tasks.ownership import Ownership
from streamsched.tasks.pace import MANY, TransactionPace

log = structlog.get_logger()

#: Ends that are stored in one transaction.
AT_ONCE: Final = 500
#: An attempt whose end cannot be stored is repeated whatever the policy.
UNUSED: Final = BackoffRetry()


class AttemptEnds:
    """Belongs to one event loop.

    Args:
        stored: called when lanes have been freed.
    """

    def __init__(
        self,
        store: DeliveryStore,
        ownership: Ownership,
        held: HeldDeliveries,
        clock: Clock,
        *,
        stored: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._ownership = ownership
        self._held = held
        self._clock = clock
        self._stored = stored
        self._waiting: dict[DeliveryKey, EndedAttempt] = {}
        self._storing = asyncio.Lock()
        self._arrived = asyncio.Event()
        self._pace = TransactionPace()

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: DeliveryKey) -> bool:
        return key in self._waiting

    def add(self, key: DeliveryKey, ended: EndedAttempt) -> None:
        """An end to be stored; its delivery is held until then."""
        self._waiting[key] = ended
        self._arrived.set()

    def forget(self, key: DeliveryKey) -> None:
        """Stores nothing of this delivery any more, and holds it no longer. Idempotent."""
        self._waiting.pop(key, None)
        self._held.remove(key)

    async def step(self) -> float:
        """Waits for ends and stores those that have come; returns the seconds until the next call: none.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call again.
        """
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        await self._pace.keep(busy=len(self._waiting) < MANY <= len(self._held))
        await self._store_next()
        return 0.0

    async def store_all(self) -> None:
        """Stores the ends that wait.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call again.
        """
        while self._waiting:
            await self._store_next()

    async def fence_again(self) -> None:
        """After a start with an unknown outcome: what is in flight and not held waits again.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call again.
        """
        async with self._storing:
            await self._ownership.fence_again([held.task for _, held in self._held])

    async def _store_next(self) -> None:
        async with self._storing:
            batch = dict(list(self._waiting.items())[:AT_ONCE])
            if batch:
                await self._store_batch(batch, self._ownership.writing)
                self._stored()

    async def _store_batch(self, batch: Mapping[DeliveryKey, EndedAttempt], epochs: Mapping[int, int]) -> None:
        """Stores ends. One that cannot be stored is stored as a failure of the attempt, and otherwise left to the next
        owner of its lane.
        """
        search = FailureIsolation(list(batch.items()))
        for part in search:
            ends = [ended for _, ended in part]
            try:
                stored = await self._store.store(ends, epochs, now=self._clock.now())
            except Exception as exc:  # noqa: BLE001 - a row may hold anything; the other ends are stored
                if search.halve(exc):
                    continue
                log.error("tasks.end_refused", task=ends[0].task.id, reason=describe_failure(exc))
                await self._store_bare(ends[0], epochs)
            else:
                if stored < len(ends):
                    log.warning("tasks.ends_disowned", tasks=len(ends) - stored)
            for key, ended in part:
                held = self._held.get(key)
                if held is not None and held.task is ended.task:  # else it was started again already
                    self.forget(key)

    async def _store_bare(self, ended: EndedAttempt, epochs: Mapping[int, int]) -> None:
        end = AttemptFailed(ended.end.at, "its end could not be stored")
        bare = EndedAttempt(ended.task, end, after_attempt(ended.task, end, UNUSED))
        try:
            await self._store.store([bare], epochs, now=self._clock.now())
        except SYSTEMIC:
            raise
        except Exception as exc:  # noqa: BLE001 - as above
            log.error("tasks.end_lost", task=ended.task.id, reason=describe_failure(exc))
