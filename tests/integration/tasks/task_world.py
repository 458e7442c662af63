"""Owners of tasks on a real PostgreSQL, stepped by hand, with a settable clock and a receiver that the test answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import asyncpg

from streamsched.domain.tasks.attempt import Acknowledged, AttemptEnd, AttemptFailed, StartedTask
from streamsched.domain.tasks.queue import HttpTarget, QueuePolicy, Target
from streamsched.domain.tasks.task import TaskRequest
from streamsched.ports.leases import LeaseHolder
from streamsched.ports.notifier import NotifierSubscription
from streamsched.store.server.leases import PostgresTaskLeases
from streamsched.store.tasks.delivery import DeliveryStore
from streamsched.store.tasks.partitions import READS, TaskPartitions
from streamsched.store.tasks.queues import QueueStore
from streamsched.store.tasks.registry import TaskRegistry
from streamsched.tasks.lane_mover import LaneMover
from streamsched.tasks.loop import TaskLoop
from streamsched.tasks.ownership import Ownership
from streamsched.tasks.worker_streams import WorkerStreams
from streamsched.telemetry.metrics import Metrics
from streamsched.testing.clock import SettableClock
from tests.support.world import StoredWorld

HTTP = QueuePolicy(target=HttpTarget("http://127.0.0.1:9/none"))


class SilentNotifier:
    """Owners are stepped by hand, so none waits for a notification."""

    def listen(self, channel: str) -> AbstractAsyncContextManager[NotifierSubscription]:
        raise AssertionError(channel)

    async def close(self) -> None: ...


@dataclass
class AnsweringReceiver:
    """Receives every task and ends its attempt as `answer` says, when `held` is set; records what it received."""

    clock: SettableClock
    answer: Callable[[StartedTask], str | None] = lambda _: None
    received: list[StartedTask] = field(default_factory=list)
    held: asyncio.Event | None = None

    def room(self, queue: str) -> int:
        del queue
        return 1_000_000

    async def deliver(self, task: StartedTask, target: Target) -> AttemptEnd:
        del target
        self.received.append(task)
        if self.held is not None:
            await self.held.wait()
        failure = self.answer(task)
        return Acknowledged(self.clock.now()) if failure is None else AttemptFailed(self.clock.now(), failure)

    async def close(self) -> None: ...

    @property
    def keys(self) -> list[str]:
        return [task.key for task in self.received]


class TaskWorld(StoredWorld):
    """One database, one clock, any number of owners."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        super().__init__(pool)
        self.clock = SettableClock()
        self.queues = QueueStore(pool)
        self.registry = TaskRegistry(pool)
        self.store = DeliveryStore(pool)
        self.partitions = TaskPartitions(pool)
        self.receiver = AnsweringReceiver(self.clock)
        self.workers = WorkerStreams(self.clock)
        self.metrics = Metrics()
        self._owners = 0

    async def queue(self, name: str = "q", policy: QueuePolicy = HTTP) -> None:
        await self.queues.set(name, policy, "test", now=self.clock.now())

    async def add(self, key: str, lane: str = "", *, after: float = 0, queue: str = "q", **more: Any) -> str:
        """Registers one task; returns its id."""
        due_at = self.clock.now() + timedelta(seconds=after)
        request = TaskRequest(key=key, lane=lane, due_at=more.pop("due_at", due_at), **more)
        (found,) = await self.registry.register(queue, [request], now=self.clock.now())
        return found.task

    def owner(self, *, ttl: timedelta = timedelta(seconds=60), capacity: int = 100) -> TaskLoop:
        """An owner that has not joined yet."""
        self._owners += 1
        me = LeaseHolder(f"owner-{self._owners}", "host", self._owners, READS)
        ownership = Ownership(PostgresTaskLeases(self.pool), me, self.store, self.partitions, self.clock, ttl=ttl)
        return TaskLoop(
            self.store,
            self.queues,
            ownership,
            SilentNotifier(),
            self.clock,
            http=self.receiver,
            workers=self.workers,
            metrics=self.metrics,
            capacity=capacity,
        )

    def mover(self) -> LaneMover:
        return LaneMover(self.partitions, leads=lambda: True)

    @asynccontextmanager
    async def owning(self, **options: Any) -> AsyncIterator[TaskLoop]:
        """An owner of all partitions, which leaves in order."""
        owner = self.owner(**options)
        await owner.step_ownership()
        try:
            yield owner
        finally:
            await owner.stop(0)

    async def expire(self) -> None:
        """The leases of all owners have ended, as when their processes are dead or paused."""
        await self.expire_task_owners()

    async def settle(self, owner: TaskLoop) -> None:
        """Steps until nothing is due any more."""
        while await owner.run_once():
            await owner.wait_until_delivered()

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))
