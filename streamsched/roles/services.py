"""What every role opens: database, log, clock, leases, traces and health checks; and what several roles make."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final
from uuid import uuid4

import structlog

from streamsched import __version__
from streamsched.access.emit_spans import EmitSpans
from streamsched.api.health import health_of, make_health
from streamsched.api.serving import HttpServer, bind, url_of
from streamsched.config import Settings
from streamsched.domain.signals.layout import Layout
from streamsched.domain.time.zone import tzdata_version
from streamsched.launcher.span_export import SpanExport
from streamsched.log.generation import open_log
from streamsched.log.topics import LAUNCH, SIGNALS, topic_specs
from streamsched.membership.broker_health import BrokerHealth
from streamsched.ports.broker import Broker, TopicPartition
from streamsched.ports.clock import Clock, SystemClock
from streamsched.ports.leases import LeaseHolder, Leases
from streamsched.ports.notifier import Notifier
from streamsched.process.cancellation import CLOSING_S, cancel
from streamsched.process.extras import missing_extra_error
from streamsched.process.health import ProcessHealth
from streamsched.process.http_client import HttpClient
from streamsched.process.run_forever import run_forever
from streamsched.process.supervision import Loop, supervise, wait_until_available
from streamsched.store.connections import Pool, check_sessions, open_pool, require_sessions
from streamsched.store.expected_time import ExpectedTime
from streamsched.store.jobs.spans import SpanStore
from streamsched.store.server.clock import PostgresClock
from streamsched.store.server.gauges import Gauges
from streamsched.store.server.leases import PostgresLeases
from streamsched.store.server.notifier import PostgresNotifier
from streamsched.store.server.processes import Processes, ProcessRow
from streamsched.store.server.schema import require_schema
from streamsched.telemetry.metrics import Metrics
from streamsched.telemetry.traces.queue import SpanQueue, SpanSender
from streamsched.telemetry.traces.settings import TraceSettings, trace_settings

log = structlog.get_logger()

#: Least time without an answer after which the log is considered lost; shorter outages may be a leader election.
_LOG_SILENCE: Final = timedelta(seconds=12)
#: Seconds between two rows of a process.
_PROCESS_EVERY_S = 30.0
_HEALTH_HOST: Final = "STREAMSCHED_HEALTH_HOST"
_HEALTH_PORT: Final = "--health-port or STREAMSCHED_HEALTH_PORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Open connections and adapters that every role uses. `measured`: the clock, unless another was given."""

    settings: Settings
    identity: LeaseHolder
    clock: Clock
    measured: PostgresClock | None
    health: ProcessHealth
    pool: Pool
    notifier: Notifier
    broker: Broker
    layout: Layout
    leases: Leases
    broker_health: BrokerHealth
    traces: Traces | None

    @property
    def steady(self) -> ExpectedTime | None:
        """The time by which leases end; None: that of PostgreSQL's statements."""
        return self.measured and self.measured.steady


@asynccontextmanager
async def open_database(settings: Settings, *, spans: bool = False) -> AsyncIterator[Pool]:
    """A pool until the end of the block. Waits while the database or its schema is unavailable. `spans`: jobs and runs
    that are inserted through it have spans.

    Raises:
        ConfigurationError: the URL is wrong, or that of a pooler without sessions.
    """
    opening = partial(open_pool, settings.database_url, min_size=2, max_size=12, spans=spans)
    pool = await wait_until_available("database", opening)
    try:
        await wait_until_available("database", lambda: require_sessions(pool))
        await wait_until_available("schema", lambda: require_schema(pool))
        yield pool
    finally:
        pool.terminate()


@asynccontextmanager
async def open_services(
    settings: Settings,
    *,
    name: str | None = None,
    clock: Clock | None = None,
    own: Clock | None = None,
    health: ProcessHealth | None = None,
) -> AsyncIterator[Services]:
    """Opens the connections, creates missing topics, and closes the connections after the block. Waits while the
    database, its schema or the log is unavailable.

    `name`: the unique name of this process; after a restart it owns its former leases at once. Default: a random one.
    `clock`: what it goes by instead of PostgreSQL's clock; `own`: the clock of this machine.

    Raises:
        ConfigurationError: the topics exist with another number of shards, or a URL is wrong or that of a pooler
            without sessions.
    """
    host = socket.gethostname()
    async with AsyncExitStack() as stack:
        health = health or ProcessHealth()
        traces = open_traces(settings, os.environ, health.metrics)
        pool = await stack.enter_async_context(open_database(settings, spans=traces is not None))
        identity = LeaseHolder(name or f"{host}-{os.getpid()}-{uuid4().hex[:6]}", host, os.getpid())
        measured = await open_clock(pool, identity.id, own) if clock is None else None
        notifier = PostgresNotifier(settings.database_url)
        stack.push_async_callback(notifier.close)
        if settings.broker_url != settings.database_url and settings.broker_url.startswith("postgres"):
            await wait_until_available("log", lambda: check_sessions(settings.broker_url))
        open_theirs = partial(open_log, settings.broker_url, shards=settings.shards)
        broker, layout = await wait_until_available("log", open_theirs)
        stack.push_async_callback(broker.close)
        if measured is not None:
            health.attach_clock(measured)
            broker.keep_time(measured)
        specs = topic_specs(
            layout.shards,
            settings.keep.log,
            horizon=settings.worker.dedupe_horizon,
            unkeyed_partitions=layout.unkeyed_partitions,
        )
        await wait_until_available("log", lambda: broker.create_topics(specs))
        health.require("database", Gauges(pool).answers)
        health.require("log", lambda: broker.ends([TopicPartition(LAUNCH, 0)]))
        yield Services(
            settings=settings,
            identity=identity,
            clock=clock or measured or SystemClock(),
            measured=measured,
            health=health,
            pool=pool,
            notifier=notifier,
            broker=broker,
            layout=layout,
            leases=PostgresLeases(pool, theirs=measured and measured.steady),
            broker_health=BrokerHealth(
                lambda: broker.ends([TopicPartition(SIGNALS, 0)]),
                every=settings.lease / 2,
                patience=max(2 * settings.lease, _LOG_SILENCE),
            ),
            traces=traces,
        )


async def open_clock(pool: Pool, name: str, own: Clock | None = None) -> PostgresClock:
    """PostgreSQL's clock, measured once. Waits while PostgreSQL is unavailable. `name`: of the process; `own`: the
    machine's clock.
    """
    clock = PostgresClock(pool, own or SystemClock(), name=name)
    await wait_until_available("database", clock.compare)
    return clock


def clock_loops(services: Services, role: str) -> Mapping[str, Loop]:
    """The loops of every role; none when the process goes by another clock."""
    clock, me, processes = services.measured, services.identity, Processes(services.pool)
    if clock is None:
        return {}

    async def step() -> float:
        own_ahead = clock.own_ahead.total_seconds()
        await processes.put(ProcessRow(me.id, role, me.host, me.pid, __version__, tzdata_version(), own_ahead))
        return _PROCESS_EVERY_S

    return {"clock": clock.run, "process": lambda: run_forever(step, called="process")}


@dataclass(frozen=True, slots=True)
class Traces:
    """What a process that makes spans has for it."""

    settings: TraceSettings
    sender: SpanSender
    queue: SpanQueue
    metrics: Metrics

    @property
    def emit_spans(self) -> EmitSpans:
        """For the API."""
        return EmitSpans(self.settings.sampler, self.queue.put)

    def export(self, pool: Pool, clock: Clock) -> SpanExport:
        """For a launcher."""
        return SpanExport(SpanStore(pool), self.sender, self.settings, clock, self.metrics)


def open_traces(settings: Settings, environ: Mapping[str, str], metrics: Metrics) -> Traces | None:
    """None when no spans are made; then nothing of OpenTelemetry is imported.

    Raises:
        ConfigurationError: a variable is malformed, or the extra is not installed.
    """
    read = trace_settings(environ) if settings.traces else None
    if read is None:
        return None
    try:
        from streamsched.telemetry.traces.otlp import OtlpSender  # noqa: PLC0415 - only who makes spans needs it
    except ModuleNotFoundError as exc:
        raise (missing_extra_error(exc) or exc) from exc
    sender = OtlpSender()
    return Traces(read, sender, SpanQueue(sender, read, metrics), metrics)


@asynccontextmanager
async def health_served(settings: Settings, health: ProcessHealth) -> AsyncIterator[None]:
    """Serves health checks during the block if a port is set, also while the process waits for database or log."""
    if not settings.health.port:
        yield
        return

    async def measure() -> None:
        health.measure()

    bound = bind(settings.health.host, settings.health.port, host_by=_HEALTH_HOST, port_by=_HEALTH_PORT)
    server = HttpServer(make_health(health_of(health, measure)), bound)
    answering = asyncio.create_task(supervise({"health": server.run}, metrics=health.metrics))
    log.info("health.bound", url=url_of(bound))
    try:
        yield
    finally:
        await cancel(answering, retry_s=CLOSING_S)
        bound.close()


def make_http_client(settings: Settings) -> HttpClient:
    """What sends requests to where definitions may send."""
    return HttpClient(settings.programs.outgoing_networks, proxy=settings.programs.outgoing_proxy)
