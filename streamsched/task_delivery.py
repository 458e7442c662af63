"""Composition of the delivery of tasks: an owner of lanes with its store and its receivers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from streamsched.config import Settings
from streamsched.dapr.delivery import DaprDelivery
from streamsched.dapr_endpoint import make_desk
from streamsched.ports.clock import Clock
from streamsched.ports.leases import LeaseHolder
from streamsched.ports.notifier import Notifier
from streamsched.ports.tasks.partitions import READS
from streamsched.process.cancellation import CLOSING_S, cancel
from streamsched.process.http_client import HttpClient
from streamsched.process.supervision import supervise
from streamsched.secrets.resolver import Secrets, installed
from streamsched.store.connections import Pool
from streamsched.store.dapr.instances import PostgresAppInstances
from streamsched.store.server.clock import PostgresClock
from streamsched.store.server.task_leases import PostgresTaskLeases
from streamsched.store.tasks.delivery import PostgresDeliveryStore
from streamsched.store.tasks.partitions import PostgresTaskPartitions
from streamsched.store.tasks.queues import PostgresQueueStore
from streamsched.store.webhooks.webhooks import WebhookStore
from streamsched.tasks.http_receiver import HttpReceiver
from streamsched.tasks.lane_mover import LaneMover
from streamsched.tasks.loop import TaskLoop
from streamsched.tasks.ownership import Ownership
from streamsched.tasks.worker_streams import WorkerStreams
from streamsched.telemetry.metrics import Metrics
from streamsched.watch_services import make_mail
from streamsched.webhooks.delivery import WebhookReceiver


@dataclass(frozen=True, slots=True)
class TaskDelivery:
    """The delivery of tasks in one process. `workers`: where connected workers attach."""

    loop: TaskLoop
    workers: WorkerStreams
    dapr: DaprDelivery
    mover: Callable[[], Awaitable[None]]
    scheduler: Callable[[], Awaitable[None]] | None = None

    async def run(self) -> None:
        """Delivers until cancelled. Apps and sidecars are disconnected when deliveries have ended."""
        connecting = [asyncio.ensure_future(self.dapr.run()), asyncio.ensure_future(self.mover())]
        if self.scheduler is not None:
            connecting.append(asyncio.ensure_future(self.scheduler()))
        try:
            await self.loop.run()
        finally:
            await cancel(*connecting, retry_s=CLOSING_S)


def make_task_delivery(
    pool: Pool,
    notifier: Notifier,
    me: LeaseHolder,
    clock: Clock,
    settings: Settings,
    *,
    environ: Mapping[str, str] | None = None,
    metrics: Metrics | None = None,
    measured: PostgresClock | None = None,
) -> TaskDelivery:
    """Puts it together; `me` is this process; `environ`: the variables that secrets of webhooks may be; `measured`:
    PostgreSQL's clock, which judges leases. Call it in the event loop that runs it. With `dapr_scheduler` it is also
    Dapr's scheduler.

    Raises:
        ConfigurationError: the port of that is in use.
    """
    store, workers = PostgresDeliveryStore(pool), WorkerStreams(clock)
    partitions, me = PostgresTaskPartitions(pool), replace(me, reads=READS)
    leases = PostgresTaskLeases(pool, theirs=measured and measured.steady)
    ownership = Ownership(leases, me, store, partitions, clock, ttl=settings.lease)
    queues, networks, proxy = PostgresQueueStore(pool), settings.networks(), settings.outgoing_proxy
    http = HttpReceiver(HttpClient(networks, proxy=proxy), clock, leased=ownership.leased)
    sending = HttpClient(networks, proxy=proxy)
    secrets = Secrets(settings.secret_rules(), environ, installed())
    webhooks = WebhookReceiver(
        WebhookStore(pool),
        sending,
        secrets,
        clock,
        leased=ownership.leased,
        mail=make_mail(pool, settings, environ or {}, clock),
    )
    loop = TaskLoop(
        store,
        queues,
        ownership,
        notifier,
        clock,
        http=http,
        workers=workers,
        webhooks=webhooks,
        metrics=metrics,
        capacity=settings.tasks_in_flight,
    )
    workers.on_room = loop.wake
    instances = PostgresAppInstances(pool)
    scheduler = None
    if settings.dapr_scheduler:
        from streamsched.dapr.scheduler_server import DaprSchedulerServer  # noqa: PLC0415 - it comes with an extra

        desk = make_desk(pool, clock)
        scheduler = DaprSchedulerServer(desk, workers, instances, address=settings.dapr_scheduler).run
    mover = LaneMover(partitions, leads=lambda: 0 in ownership.starting)
    moving = partial(supervise, {"task_partitions": mover.run}, metrics=metrics or Metrics())
    return TaskDelivery(loop, workers, DaprDelivery(instances, workers), moving, scheduler)
