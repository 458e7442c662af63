"""Composition of the delivery of tasks: an owner of lanes with its store and its receivers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from streamsched.ports.clock import Clock
from streamsched.ports.leases import LeaseHolder
from streamsched.ports.notifier import Notifier
from streamsched.store.connections import Pool
from streamsched.store.tasks.delivery import PostgresDeliveryStore
from streamsched.store.tasks.owners import PostgresTaskLeases
from streamsched.store.tasks.queues import PostgresQueueStore
from streamsched.tasks.http_receiver import HttpReceiver
from streamsched.tasks.loop import TaskLoop
from streamsched.tasks.ownership import READS, Ownership
from streamsched.tasks.worker_streams import WorkerStreams
from streamsched.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class TaskDelivery:
    """The delivery of tasks in one process. `workers`: where connected workers attach."""

    loop: TaskLoop
    workers: WorkerStreams


def make_task_delivery(
    pool: Pool,
    notifier: Notifier,
    me: LeaseHolder,
    clock: Clock,
    *,
    lease: timedelta,
    metrics: Metrics | None = None,
) -> TaskDelivery:
    """Puts it together; `me` is this process, whose leases of lanes last for `lease` without a heartbeat. Call it in
    the event loop that runs it.
    """
    store, workers = PostgresDeliveryStore(pool), WorkerStreams(clock)
    ownership = Ownership(PostgresTaskLeases(pool), replace(me, reads=READS), store, clock, ttl=lease)
    loop = TaskLoop(
        store,
        PostgresQueueStore(pool),
        ownership,
        notifier,
        clock,
        http=HttpReceiver(clock),
        workers=workers,
        metrics=metrics,
    )
    workers.on_room = loop.wake
    return TaskDelivery(loop, workers)
