"""Composition of the delivery of tasks: an owner of lanes with its store and its receivers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from streamsched.config import Settings
from streamsched.dapr.delivery import DaprDelivery
from streamsched.dapr.desk import DaprDesk
from streamsched.ports.clock import Clock
from streamsched.ports.leases import LeaseHolder
from streamsched.ports.notifier import Notifier
from streamsched.process.cancellation import CLOSING_S, cancel
from streamsched.store.connections import Pool
from streamsched.store.dapr.instances import PostgresAppInstances
from streamsched.store.dapr.jobs import PostgresDaprJobs
from streamsched.store.tasks.delivery import PostgresDeliveryStore
from streamsched.store.tasks.owners import PostgresTaskLeases
from streamsched.store.tasks.queues import PostgresQueueStore
from streamsched.store.tasks.registry import PostgresTaskRegistry
from streamsched.tasks.http_receiver import HttpReceiver
from streamsched.tasks.loop import TaskLoop
from streamsched.tasks.ownership import READS, Ownership
from streamsched.tasks.worker_streams import WorkerStreams


@dataclass(frozen=True, slots=True)
class TaskDelivery:
    """The delivery of tasks in one process. `workers`: where connected workers attach."""

    loop: TaskLoop
    workers: WorkerStreams
    dapr: DaprDelivery
    scheduler: Callable[[], Awaitable[None]] | None = None

    async def run(self) -> None:
        """Delivers until cancelled. Apps and sidecars are disconnected when deliveries have ended."""
        connecting = [asyncio.ensure_future(self.dapr.run())]
        if self.scheduler is not None:
            connecting.append(asyncio.ensure_future(self.scheduler()))
        try:
            await self.loop.run()
        finally:
            await cancel(*connecting, retry_s=CLOSING_S)


def make_task_delivery(
    pool: Pool, notifier: Notifier, me: LeaseHolder, clock: Clock, *, lease: timedelta, dapr: Settings | None = None
) -> TaskDelivery:
    """Puts it together; `me` is this process, whose leases of lanes last for `lease` without a heartbeat. Call it in
    the event loop that runs it. With a `dapr_scheduler` in the settings `dapr` it is also Dapr's scheduler.

    Raises:
        ConfigurationError: its port is in use.
    """
    store, workers = PostgresDeliveryStore(pool), WorkerStreams(clock)
    ownership = Ownership(PostgresTaskLeases(pool), replace(me, reads=READS), store, clock, ttl=lease)
    loop = TaskLoop(
        store, PostgresQueueStore(pool), ownership, notifier, clock, http=HttpReceiver(clock), workers=workers
    )
    workers.on_room = loop.wake
    instances = PostgresAppInstances(pool)
    scheduler = None
    if dapr is not None and dapr.dapr_scheduler:
        from streamsched.dapr.scheduler_server import DaprSchedulerServer  # noqa: PLC0415 - it comes with an extra

        desk = DaprDesk(PostgresDaprJobs(pool), PostgresQueueStore(pool), PostgresTaskRegistry(pool), clock)
        scheduler = DaprSchedulerServer(desk, workers, instances, address=dapr.dapr_scheduler).run
    return TaskDelivery(loop, workers, DaprDelivery(instances, workers), scheduler)
