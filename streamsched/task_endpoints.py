"""Composition of the ways in and out of tasks: the services of the API, topics with tasks, and streams to workers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any, Final

import structlog

from streamsched.access.authentication import Authentication
from streamsched.api.allowed_hosts import AllowedHosts
from streamsched.api.serving import HttpServer, bind
from streamsched.api.streams.decision_feed import DecisionFeed
from streamsched.api.task_streams import make_stream_api
from streamsched.config import Settings
from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.log.drivers import open_broker
from streamsched.log.topics import topic_specs
from streamsched.ports.broker import Broker
from streamsched.ports.clock import Clock
from streamsched.process.cancellation import CLOSING_S, STOPPING_S, cancel
from streamsched.process.run_forever import run_forever
from streamsched.process.supervision import wait_until_available
from streamsched.setting_values import url_here
from streamsched.store.connections import Pool
from streamsched.store.tasks.intake import PostgresTaskIntake
from streamsched.store.tasks.partitions import PostgresTaskPartitions
from streamsched.store.tasks.queues import PostgresQueueStore
from streamsched.store.tasks.registry import PostgresTaskRegistry
from streamsched.store.tasks.streams import PostgresStreamAddresses
from streamsched.store.webhooks.webhooks import WebhookStore
from streamsched.store.webhooks.work_history import PostgresWorkHistory
from streamsched.tasks.intake import TaskIntake
from streamsched.tasks.worker_streams import WorkerStreams
from streamsched.webhooks.feeding import WebhookFeeding

log = structlog.get_logger()

#: Seconds between two announcements of the address.
_ANNOUNCE_S: Final = 3.0


def task_services(pool: Pool) -> Mapping[str, Any]:
    """The services of the HTTP application that tasks, webhooks and streams have (`ApiServices`)."""
    return {
        "queues": PostgresQueueStore(pool),
        "tasks": PostgresTaskRegistry(pool),
        "task_streams": PostgresStreamAddresses(pool),
        "task_partitions": PostgresTaskPartitions(pool),
        "webhooks": WebhookStore(pool),
        "decisions": DecisionFeed(PostgresWorkHistory(pool)),
    }


def task_intakes(
    settings: Settings, pool: Pool, log: Broker, clock: Clock
) -> Mapping[str, Callable[[], Coroutine[Any, Any, None]]]:
    """The loops that put tasks into queues, by the name of the role; one each at a time. They copy topics, and put
    changes of jobs and runs into the queues of webhooks.

    Raises:
        ConfigurationError: a topic is one of the installation.
    """
    own = {spec.name for spec in topic_specs(settings.shards, settings.retention)}
    for topic in settings.task_queues():
        if topic in own and not settings.task_log_url:
            raise ConfigurationError(f"STREAMSCHED_TASK_TOPICS: '{topic}' is a topic of the installation itself")

    async def copy(topic: str, queue: str) -> None:
        async with AsyncExitStack() as stack:
            source, name = log, topic
            if settings.task_log_url:
                source = await wait_until_available("task log", lambda: open_broker(settings.task_log_url))
                stack.push_async_callback(source.close)
                name = f"task-log:{topic}"
            intake = TaskIntake(
                topic,
                queue,
                broker=source,
                letters=log,
                store=PostgresTaskIntake(pool, queue, name),
                queues=PostgresQueueStore(pool),
                clock=clock,
                partitions=settings.shards,
                retention=settings.retention,
            )
            await intake.run()

    history, pages = PostgresWorkHistory(pool), settings.pages_url.rstrip("/")
    feeding = WebhookFeeding(history, WebhookStore(pool), clock, pages=pages)
    copying = {f"tasks-of-{topic}": partial(copy, topic, queue) for topic, queue in settings.task_queues().items()}
    return {"webhooks": feeding.run, **copying}


async def serve_task_streams(
    settings: Settings, pool: Pool, owner: str, workers: WorkerStreams, authentication: Authentication
) -> None:
    """Gives tasks to workers over HTTP until cancelled, and shows them the address.

    Raises:
        ConfigurationError: the address cannot be used.
    """
    host, variable = settings.task_streams_host, "STREAMSCHED_TASK_STREAMS"
    bound = bind(host, settings.task_streams_port, host_by=f"{variable}_HOST", port_by=f"{variable}_PORT")
    url = settings.task_streams_url or _advertised(bound, host)
    hosts = AllowedHosts.of(settings.api_allowed_hosts.split(","), api_host=host, urls=[url])
    server = HttpServer(make_stream_api(workers, hosts, authentication, body_limit=settings.body_limit), bound)
    addresses = PostgresStreamAddresses(pool)

    async def announce() -> float:
        await addresses.announce(owner, url)
        return _ANNOUNCE_S

    announcing = asyncio.create_task(run_forever(announce, called="task_streams"))
    log.info("task_streams.bound", url=url)
    workers.start()
    serving = asyncio.create_task(server.run())
    try:
        await asyncio.shield(serving)
    finally:
        await cancel(announcing, retry_s=CLOSING_S)
        await workers.stop(STOPPING_S)  # their reports still come while tasks in progress end
        await cancel(serving, retry_s=CLOSING_S)
        bound.close()
        with suppress(UnavailableError):
            await addresses.withdraw(owner)


def _advertised(bound: socket.socket, host: str) -> str:
    """The URL for workers: by the name of this machine if it listens on all addresses."""
    port = bound.getsockname()[1]
    return url_here(socket.gethostname() if host in {"0.0.0.0", "::"} else host, port)
