"""The composition root of servers: services are created from settings; a role is a set of loops that one process runs
with them. `runner` and `admin.installation` are smaller composition roots.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Any, Final
from uuid import uuid4

import structlog

from streamsched.access_services import access_services, authentication
from streamsched.admin.installation import assembled
from streamsched.api.deps import ApiServices
from streamsched.api.health import health_of
from streamsched.api.reads.catalog_map import CatalogMap
from streamsched.api.serving import HttpServer, bind, url_of
from streamsched.catalog.catalog import Catalog
from streamsched.catalog.listeners import Listeners
from streamsched.catalog.progress import ProgressCopy
from streamsched.catalog.relay import Relay
from streamsched.catalog.replaying import ScheduleReplay
from streamsched.catalog.verdicts import VerdictIntake
from streamsched.clock_services import clock_loops, measured_clock, tick_review
from streamsched.config import Settings
from streamsched.dapr_endpoint import dapr_loops, make_desk
from streamsched.domain.decisions.retention import Retention
from streamsched.domain.signals.layout import Layout
from streamsched.graph.progression import Progression
from streamsched.graph.submission import GraphDesk
from streamsched.health_services import health_served
from streamsched.launcher import plugins
from streamsched.launcher.backfills.feeding import BackfillFeeding
from streamsched.launcher.cluster_probes import ClusterProbes
from streamsched.launcher.intake import Intake
from streamsched.launcher.loop import Launcher
from streamsched.launcher.plugin_evaluator import PluginEvaluator
from streamsched.launcher.recovery import Recovery
from streamsched.launcher.retention import ArchiveLoop
from streamsched.launcher.run_monitor import RunMonitor, RunTimeouts
from streamsched.log.generation import open_log
from streamsched.log.maintenance import LogMaintenance
from streamsched.log.topics import LAUNCH, SIGNALS, topic_specs
from streamsched.membership.broker_health import BrokerHealth
from streamsched.membership.singleton_role import SingletonRole
from streamsched.ports.broker import Broker, TopicPartition
from streamsched.ports.clock import Clock, SystemClock
from streamsched.ports.leases import LeaseHolder, Leases
from streamsched.ports.notifier import Notifier
from streamsched.process.health import ProcessHealth, measure_installation
from streamsched.process.supervision import Loop, run_until_signal, supervise, wait_until_available
from streamsched.program_services import local_runners, make_inline, program_services, removal_of_bundles
from streamsched.spark.clusters import open_probe
from streamsched.spark.processes import this_process
from streamsched.store.catalog.catalog import PostgresCatalogStore
from streamsched.store.catalog.catalog_reader import PostgresCatalogReader
from streamsched.store.catalog.outbox import PostgresOutbox
from streamsched.store.catalog.progress import PostgresOpenKeyReader, PostgresProgress
from streamsched.store.connections import Pool, check_sessions, open_pool
from streamsched.store.events.event_traces import PostgresEventTraces
from streamsched.store.events.timers import PostgresTimers
from streamsched.store.events.verdicts import PostgresVerdicts
from streamsched.store.events.wakes import PostgresWakes
from streamsched.store.graph.nodes import PostgresNodeStore
from streamsched.store.jobs.archive import PostgresArchive
from streamsched.store.jobs.backfill_feed import PostgresBackfillFeed
from streamsched.store.jobs.backfills import PostgresBackfillStore
from streamsched.store.jobs.decisions import PostgresDecisionStore
from streamsched.store.jobs.intake import PostgresIntake
from streamsched.store.jobs.jobs import PostgresJobStore
from streamsched.store.jobs.submissions import PostgresSubmissionStore
from streamsched.store.limits.clusters import PostgresClusterStore
from streamsched.store.limits.groups import PostgresGroupStore
from streamsched.store.limits.pools import PostgresPoolStore
from streamsched.store.runs.launchers import PostgresLauncherLeases
from streamsched.store.runs.run_monitor import PostgresRunMonitorStore
from streamsched.store.runs.run_queries import PostgresRunQueries
from streamsched.store.server.clock import PostgresClock
from streamsched.store.server.gauges import PostgresGauges
from streamsched.store.server.leases import PostgresLeases
from streamsched.store.server.notifier import PostgresNotifier
from streamsched.store.server.probe import PostgresOutboxRepair
from streamsched.store.server.reports import PostgresReportStore
from streamsched.store.server.schema import require_schema
from streamsched.store.web.activity_reads import ActivityReads
from streamsched.store.web.link_reads import LinkReads
from streamsched.stream.shards.run_worker import run_worker
from streamsched.stream.shards.shard import ShardSettings
from streamsched.stream.shards.watchdog import Watchdog
from streamsched.stream.shards.worker import Worker
from streamsched.task_delivery import make_task_delivery
from streamsched.task_endpoints import serve_task_streams, task_intakes, task_services
from streamsched.telemetry.logs import configure_logs
from streamsched.timers.timers import Timers, WakeIntake
from streamsched.trace_services import Traces, open_traces
from streamsched.upkeep import host_loops, node_retention
from streamsched.watch_services import watching_loops, watching_roles, watching_services
from streamsched.web_services import make_http

log = structlog.get_logger()

#: Least time without an answer after which the log is considered lost; shorter outages may be a leader election.
_LOG_SILENCE: Final = timedelta(seconds=12)


class Role(StrEnum):
    """The role of a process."""

    WORKER = "worker"
    LAUNCHER = "launcher"
    API = "api"
    ALL = "all"


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
        ConfigurationError: the topics exist with another number of shards, or a URL is wrong.
    """
    host = socket.gethostname()
    async with AsyncExitStack() as stack:
        health = health or ProcessHealth()
        traces = open_traces(settings, os.environ, health.metrics)
        open_ours = partial(open_pool, settings.database_url, min_size=2, max_size=12, spans=traces is not None)
        pool = await wait_until_available("database", open_ours)
        stack.callback(pool.terminate)
        await wait_until_available("schema", lambda: require_schema(pool))
        identity = LeaseHolder(name or f"{host}-{os.getpid()}-{uuid4().hex[:6]}", host, os.getpid())
        measured = await measured_clock(pool, own, identity, health) if clock is None else None
        notifier = PostgresNotifier(settings.database_url)
        stack.push_async_callback(notifier.close)
        open_theirs = partial(open_log, settings.broker_url, shards=settings.shards)
        broker, layout = await wait_until_available("log", open_theirs)
        stack.push_async_callback(broker.close)
        if measured is not None:
            broker.keep_time(measured)
        specs = topic_specs(layout.shards, settings.retention, unkeyed_partitions=layout.unkeyed_partitions)
        await wait_until_available("log", lambda: broker.create_topics(specs))
        health.require("database", PostgresGauges(pool).answers)
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


def worker_loops(services: Services) -> Mapping[str, Loop]:
    """The loops of a worker, which runs shards by lease."""

    async def work() -> None:
        settings, health, me = services.settings, services.broker_health, services.identity
        shards = ShardSettings(
            dedupe_horizon=settings.dedupe_horizon, verdicts=bool(settings.verdicts_keep), clock=services.clock
        )
        worker = Worker(services.broker, services.leases, me, ttl=settings.lease, settings=shards, broker_health=health)
        patience_s = settings.stuck_after.total_seconds()
        dog = Watchdog(worker.shard_stats, patience_s=patience_s, excused=lambda: health.lost) if patience_s else None
        services.health.attach_worker(worker, dog)
        await run_worker(worker, PostgresReportStore(services.pool), name=me.id, watchdog=dog)

    return {"worker": work, "broker_health": services.broker_health.run}


def launcher_loops(services: Services, environ: Mapping[str, str], *, dev: bool = False) -> Mapping[str, Loop]:
    """The loops of a launcher. Loops that must not run twice at a time are singleton roles.

    `environ`: environment of runner processes, in addition to the settings. `dev`: whether they are those of
    `streamsched dev`, on a machine of one person.
    """
    pool, broker, notifier, clock = services.pool, services.broker, services.notifier, services.clock
    settings = services.settings
    inline = make_inline(pool, this_process(), clock, settings, environ)
    runners = local_runners(settings, environ)
    leases = PostgresLauncherLeases(pool, theirs=services.measured and services.measured.steady)
    recovery = Recovery(leases, runners, inline.runner, clock, ttl=settings.lease, attempts=settings.run_attempts)
    timeouts = RunTimeouts(silence=settings.lost_after, attempts=settings.run_attempts, pace=settings.pace)
    monitor = RunMonitor(PostgresRunMonitorStore(pool), runners, clock, timeouts, inline=inline)
    due_by = services.measured and services.measured.theirs
    decisions, wakes = PostgresDecisionStore(pool), PostgresWakes(pool, theirs=due_by)
    callers = authentication(pool, clock, settings)
    evaluator = PluginEvaluator(plugins.installed(), decisions, clock)
    probes = {name: open_probe(url) for name, url in settings.cluster_urls().items()}
    keep = settings.verdicts_keep
    verdicts = VerdictIntake(broker, PostgresVerdicts(pool, keep=keep), clock, keep=keep)
    metrics = services.health.metrics
    tasks = make_task_delivery(
        pool, notifier, services.identity, clock, settings, environ=environ, metrics=metrics, measured=services.measured
    )
    keeps = Retention(jobs=settings.jobs_keep, audit=settings.audit_keep)
    feeding = BackfillFeeding(PostgresBackfillFeed(pool), notifier, clock, keep=settings.jobs_keep)

    def in_time(loop: Callable[[], Awaitable[None]]) -> Loop:
        """Starts the loop when the time is known, with the lease of this launcher."""

        async def begin() -> None:
            if services.measured is not None:
                await wait_until_available("database", services.measured.begin)
            await wait_until_available("database", recovery.renew)
            await loop()

        return begin

    def alone(name: str, loop: Callable[[], Coroutine[Any, Any, None]]) -> Loop:
        role = SingletonRole(
            services.leases, name, services.identity.id, ttl=settings.lease, health=services.broker_health
        )
        return lambda: role.run(loop)

    return {
        "relay": alone("relay", lambda: Relay(broker=broker, outbox=PostgresOutbox(pool), notifier=notifier).run()),
        "progress": alone("progress", lambda: ProgressCopy(broker=broker, store=PostgresProgress(pool)).run()),
        "verdicts": alone("verdicts", verdicts.run),
        "intake": alone("intake", lambda: Intake(broker, PostgresIntake(pool), clock, services.health.metrics).run()),
        "backfills": alone("backfills", feeding.run),
        "retention": alone("retention", lambda: ArchiveLoop(PostgresArchive(pool), keeps, clock).run()),
        "log-cleaning": alone("log-cleaning", LogMaintenance(broker, clock).run),
        "wake-ups": alone("wake-ups", lambda: WakeIntake(broker, wakes, clock).run()),
        **{name: in_time(each) for name, each in watching_loops(pool, notifier, clock).items()},
        "timers": in_time(
            lambda: Timers(store=PostgresTimers(pool, theirs=due_by), wakes=wakes, notifier=notifier, clock=clock).run()
        ),
        "tick-review": alone("tick-review", tick_review(pool, clock, services.measured).run),
        "node-retention": alone("node-retention", node_retention(pool, clock, settings).run),
        "bundles": alone("bundles", removal_of_bundles(pool, clock)),
        **({"spans": alone("spans", services.traces.export(pool, clock).run)} if services.traces else {}),
        "graph": in_time(Progression(PostgresNodeStore(pool), notifier, clock).run),
        "broker_health": services.broker_health.run,
        **host_loops(
            pool, broker, services.layout, settings, me=services.identity, clock=clock, metrics=metrics, dev=dev
        ),
        "probes": lambda: ClusterProbes(PostgresClusterStore(pool), probes, notifier, clock).run(),
        "launcher": in_time(Launcher(decisions, monitor, notifier, clock, evaluator, inline=inline).run),
        "inline": in_time(inline.run),
        "recovery": in_time(recovery.run),
        "tasks": in_time(tasks.run),
        "task-streams": lambda: serve_task_streams(settings, pool, services.identity.id, tasks.workers, callers),
        **{name: alone(name, each) for name, each in task_intakes(settings, pool, broker, clock).items()},
        **{name: alone(name, each) for name, each in watching_roles(settings, pool, broker, clock).items()},
    }


def api_services(services: Services) -> ApiServices:
    """The services of the HTTP application."""
    pool, broker, notifier, layout = services.pool, services.broker, services.notifier, services.layout
    gauges, trails = PostgresGauges(pool), PostgresEventTraces(pool, broker)
    reader, outbox = PostgresCatalogReader(pool), PostgresOutbox(pool)
    specs = topic_specs(layout.shards, services.settings.retention, unkeyed_partitions=layout.unkeyed_partitions)

    async def measure() -> None:
        services.health.measure()
        await measure_installation(services.health.metrics, gauges, broker, layout.shards, now=services.clock.now())

    return ApiServices(
        broker=broker,
        catalog=Catalog(
            store=PostgresCatalogStore(pool),
            reader=reader,
            acks=outbox,
            notifier=notifier,
            clock=services.clock,
            check=partial(plugins.check, known=plugins.installed()),
            largest_record=broker.capabilities.largest_record,
        ),
        replaying=ScheduleReplay(reader=reader, mending=PostgresOutboxRepair(pool), acks=outbox, notifier=notifier),
        jobs=PostgresJobStore(pool),
        runs=PostgresRunQueries(pool),
        submissions=PostgresSubmissionStore(pool),
        **program_services(pool, services.settings),
        backfills=PostgresBackfillStore(pool),
        graphs=GraphDesk(PostgresNodeStore(pool), services.clock),
        **task_services(pool),
        **watching_services(pool, services.settings),
        dapr=make_desk(pool, services.clock),
        groups=PostgresGroupStore(pool),
        pools=PostgresPoolStore(pool),
        clusters=PostgresClusterStore(pool),
        cluster_urls=services.settings.cluster_urls(),
        traces=trails,
        listeners=Listeners(trails, services.clock),
        keys=PostgresOpenKeyReader(pool),
        activity=ActivityReads(pool),
        links=CatalogMap(LinkReads(pool)),
        verdicts_keep=services.settings.verdicts_keep,
        clock=services.clock,
        shards=services.layout.unkeyed_partitions,
        body_limit=services.settings.body_limit,
        health=health_of(services.health, measure),
        installation=assembled(pool, notifier, SystemClock(), log=broker, broker=broker, specs=specs),
        **access_services(pool, services.clock, services.settings, services.identity.id, services.health.metrics),
        installation_name=services.settings.installation,
        update_schedules=services.settings.update_schedules,
        emit_spans=services.traces and services.traces.emit_spans,
    )


async def serve(
    settings: Settings,
    role: Role,
    *,
    environ: Mapping[str, str],
    name: str | None = None,
    bound: socket.socket | None = None,
    ready: Callable[[], None] | None = None,
) -> None:
    """Runs a role until cancelled. `ready` is called when it has started (and its API, if any, answers).

    Raises:
        ConfigurationError: the installation is misconfigured; a restart does not help.
    """
    health = ProcessHealth()
    async with health_served(settings, health), open_services(settings, name=name, health=health) as services:
        loops: dict[str, Loop] = {}
        if role in {Role.WORKER, Role.ALL}:
            loops |= worker_loops(services)
        if role in {Role.LAUNCHER, Role.ALL}:
            loops |= launcher_loops(services, environ, dev=role is Role.ALL)
        if role in {Role.API, Role.ALL}:
            bound = bound or bind(settings.api_host, settings.api_port)
            server = HttpServer(make_http(api_services(services), services.pool), bound, started=ready)
            loops["api"] = server.run
            loops |= {} if services.traces is None else {"emit-spans": services.traces.queue.run}
            log.info("api.bound", url=url_of(bound))
        elif ready is not None:
            ready()
        loops |= dapr_loops(settings, services.pool, services.clock) if role is Role.ALL else {}
        loops |= clock_loops(services.measured, services.pool, services.identity, role)
        log.info("role.started", role=role, worker=services.identity.id)
        await supervise(loops, metrics=health.metrics)


def run_role(role: Role, environ: Mapping[str, str], **options: object) -> None:
    """Runs one role until SIGINT or SIGTERM. `options` (fields of `Settings`) take precedence over variables."""
    settings = Settings.from_env(environ, **options)
    configure_logs(level=settings.log_level, style=settings.log_format)
    run_until_signal(serve(settings, role, environ=environ))


def run_migrations(environ: Mapping[str, str]) -> None:
    """Migrates the database to the newest schema."""
    from streamsched.store.server.migrate import migrate  # noqa: PLC0415 - Alembic, which no server needs

    settings = Settings.from_env(environ)
    configure_logs(level=settings.log_level, style=settings.log_format)
    asyncio.run(check_sessions(settings.database_url))
    migrate(settings.database_url)
