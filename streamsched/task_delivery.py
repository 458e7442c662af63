"""Composition of the delivery of tasks: an owner of lanes with its store and its receivers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta

from streamsched.dapr.delivery import DaprDelivery
from streamsched.ports.clock import Clock
from streamsched.ports.leases import LeaseHolder
from streamsched.ports.notifier import Notifier
from streamsched.process.cancellation import CLOSING_S, cancel
from streamsched.store.connections import Pool
from streamsched.store.dapr.instances import PostgresAppInstances
from streamsched.store.tasks.delivery import PostgresDeliveryStore
from streamsched.store.tasks.owners import PostgresTaskLeases
from streamsched.store.tasks.queues import PostgresQueueStore
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

    async def run(self) -> None:
        """Delivers until cancelled. Apps are disconnected when deliveries have ended."""
        connecting = asyncio.create_task(self.dapr.run())
        try:
            await self.loop.run()
        finally:
            await cancel(connecting, retry_s=CLOSING_S)


def make_task_delivery(
    pool: Pool, notifier: Notifier, me: LeaseHolder, clock: Clock, *, lease: timedelta
) -> TaskDelivery:
    """Puts it together; `me` is this process, whose leases of lanes last for `lease` without a heartbeat. Call it in
    the event loop that runs it.
    """
    store, workers = PostgresDeliveryStore(pool), WorkerStreams(clock)
    ownership = Ownership(PostgresTaskLeases(pool), replace(me, reads=READS), store, clock, ttl=lease)
    loop = TaskLoop(
        store, PostgresQueueStore(pool), ownership, notifier, clock, http=HttpReceiver(clock), workers=workers
    )
    workers.on_room = loop.wake
    return TaskDelivery(loop, workers, DaprDelivery(PostgresAppInstances(pool), workers))
