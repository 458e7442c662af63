"""Registrations of one queue that arrive at the same time share a transaction, and so its round trips and its commit.

A registration that finds none on its way starts at once; those that arrive meanwhile go together when a transaction
ends. Each is still stored as a whole or not at all: when a batch cannot be stored, its registrations are stored one by
one. Those of one transaction are decided in the order of their arrival.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from streamsched.domain.errors import SYSTEMIC
from streamsched.domain.tasks.queue import MOST_TASKS
from streamsched.domain.tasks.task import TaskRequest
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.tasks.queues import stored_queue
from streamsched.store.tasks.registration import CheckedRegistration, RegisteredTask, check_registrations, register

#: Transactions of one queue at a time: one is sent while another commits.
_AT_ONCE: Final = 2
#: The most bytes of data in a transaction of several registrations.
_MOST_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A registration that waits. `stored`: its result, or its error."""

    requests: Sequence[TaskRequest]
    now: datetime
    stored: asyncio.Future[Sequence[RegisteredTask]]

    @property
    def bytes(self) -> int:
        return sum(len(each.data) for each in self.requests)

    def fail(self, error: BaseException) -> None:
        if not self.stored.done():
            self.stored.set_exception(error)


class RegistrationBatches:
    """Belongs to the event loop of its first registration. A cancelled registration may still be stored."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._waiting: dict[str, deque[_Arrival]] = {}
        self._running: dict[str, set[asyncio.Task[None]]] = {}

    async def register(self, queue: str, requests: Sequence[TaskRequest], now: datetime) -> Sequence[RegisteredTask]:
        """See `TaskRegistry.register`."""
        arrival = _Arrival(requests, now, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(queue, deque()).append(arrival)
        running = self._running.setdefault(queue, set())
        if len(running) < _AT_ONCE:
            task = asyncio.create_task(self._store_waiting(queue))
            running.add(task)
            task.add_done_callback(lambda ended: self._handle_end(queue, ended))
        return await arrival.stored

    def _handle_end(self, queue: str, task: asyncio.Task[None]) -> None:
        running = self._running[queue]
        running.discard(task)
        if not running and not self._waiting[queue]:
            del self._running[queue], self._waiting[queue]

    async def _store_waiting(self, queue: str) -> None:
        waiting = self._waiting[queue]
        while waiting:
            batch = _take_batch(waiting)
            try:
                await self._store_batch(queue, batch)
            except BaseException as exc:
                for each in batch:
                    each.fail(exc)
                if not isinstance(exc, Exception):
                    raise

    async def _store_batch(self, queue: str, batch: Sequence[_Arrival]) -> None:
        try:
            await self._store(queue, batch)
        except SYSTEMIC:
            raise
        except Exception:
            if len(batch) == 1:
                raise
            for each in batch:
                try:
                    await self._store(queue, [each])
                except Exception as exc:  # noqa: BLE001 - it is the result of this registration alone
                    each.fail(exc)

    async def _store(self, queue: str, batch: Sequence[_Arrival]) -> None:
        """Stores registrations in one transaction; refuses those that are invalid."""
        with translate_errors():
            policy = (await stored_queue(self._pool, queue)).queue.policy
            valid: list[tuple[_Arrival, list[CheckedRegistration]]] = []
            for each in batch:
                try:
                    valid.append((each, check_registrations(policy, queue, each.requests, each.now)))
                except Exception as exc:  # noqa: BLE001 - as above
                    each.fail(exc)
            if not valid:
                return
            incoming = [task for _, tasks in valid for task in tasks]
            now = max(each.now for each, _ in valid)
            async with self._pool.acquire() as connection, connection.transaction():
                found = iter(await register(connection, policy, incoming, now))
        for each, tasks in valid:
            stored = [next(found) for _ in tasks]
            if not each.stored.done():
                each.stored.set_result(stored)


def _take_batch(waiting: deque[_Arrival]) -> list[_Arrival]:
    """The next registrations that fit into one transaction, at least one."""
    batch = [waiting.popleft()]
    tasks, size = len(batch[0].requests), batch[0].bytes
    while waiting:
        tasks, size = tasks + len(waiting[0].requests), size + waiting[0].bytes
        if tasks > MOST_TASKS or size > _MOST_BYTES:
            break
        batch.append(waiting.popleft())
    return batch
