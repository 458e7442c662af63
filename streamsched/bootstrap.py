"""The composition root of a server: which adapters its processes are made of is said here. Who needs only a few of them
says so itself: a run's process in `runner`, an administrator's commands in `admin.installation`.

Services are made from settings; a role is the loops that one process keeps alive with them.
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

from streamsched.api.app import make_api
from streamsched.api.deps import ApiServices
from streamsched.api.health import Health, make_health
from streamsched.api.serving import HttpServer, bind, url_of
from streamsched.attendance import attend
from streamsched.cancellation import TIDYING_UP, cancel
from streamsched.catalog.audience import Audience
from streamsched.catalog.catalog import Catalog
from streamsched.catalog.progress import ProgressCopy
from streamsched.catalog.relay import Relay
from streamsched.catalog.replaying import Replaying
from streamsched.catalog.resumption import Resumption
from streamsched.catalog.verdicts import VerdictIntake
from streamsched.config import Settings
from streamsched.domain.layout import Layout
from streamsched.domain.pace import Pace
from streamsched.domain.retention import Retention
from streamsched.emit import drain
from streamsched.launcher.advice import Advice
from streamsched.launcher.deadlines import DeadlineWatch
from streamsched.launcher.followup import FollowUp, Patience
from streamsched.launcher.hands import QuickHands
from streamsched.launcher.intake import Intake
from streamsched.launcher.loop import Launcher
from streamsched.launcher.probes import Probes
from streamsched.launcher.retention import Retirement
from streamsched.launcher.tidying import Tidying
from streamsched.membership.part import Part
from streamsched.membership.pulse import Pulse
from streamsched.ports import plugins
from streamsched.ports.bell import Bell
from streamsched.ports.broker import Broker, TopicPartition
from streamsched.ports.clock import Clock, SystemClock
from streamsched.ports.clusters import open_probe
from streamsched.ports.generation import open_log
from streamsched.ports.leases import Holder, Leases
from streamsched.ports.topics import LAUNCH, SIGNALS, topic_specs
from streamsched.spark.clusters import PROBES
from streamsched.spark.processes import LocalRunners, this_process
from streamsched.spark.shelf import RunShelf
from streamsched.store.archive import PostgresArchive
from streamsched.store.bell import PostgresBell
from streamsched.store.catalog import PostgresCatalogStore
from streamsched.store.clock import PostgresClock
from streamsched.store.clusters import PostgresBoard
from streamsched.store.crowd import PostgresRunCrowd
from streamsched.store.deadlines import PostgresDeadlines
from streamsched.store.docket import PostgresDecisions
from streamsched.store.followup import PostgresFollowUpBook
from streamsched.store.gauges import PostgresGauges
from streamsched.store.groups import PostgresGroups
from streamsched.store.intake import PostgresIntake
from streamsched.store.jobs import PostgresJobs
from streamsched.store.leases import PostgresLeases
from streamsched.store.lines import PostgresPools
from streamsched.store.listing import PostgresCatalogReader
from streamsched.store.migrate import migrate
from streamsched.store.outbox import PostgresOutbox
from streamsched.store.pauses import PostgresPauses
from streamsched.store.pool import Pool, open_pool
from streamsched.store.probe import PostgresMending
from streamsched.store.progress import PostgresOpenKeys, PostgresProgress
from streamsched.store.reports import PostgresReports
from streamsched.store.runs import PostgresRuns
from streamsched.store.timers import PostgresTimers
from streamsched.store.trails import PostgresTrails
from streamsched.store.verdicts import PostgresVerdicts
from streamsched.store.wakes import PostgresWakes
from streamsched.stream.duty import on_duty
from streamsched.stream.shard import ShardSettings
from streamsched.stream.watchdog import Watchdog
from streamsched.stream.worker import Worker
from streamsched.supervisor import Loop, once_there, run_until_told, supervise
from streamsched.telemetry.logs import configure_logs
from streamsched.timers.intake import WakeIntake
from streamsched.timers.loop import Timers
from streamsched.vitals import Vitals, measure_installation

log = structlog.get_logger()

_HEALTH_HOST: Final = "STREAMSCHED_HEALTH_HOST"
_HEALTH_PORT: Final = "--health-port or STREAMSCHED_HEALTH_PORT"
#: Seconds between two times that the log is cleaned, or the spool sent.
_CHORES: Final = 60.0
#: A log that is silent for less than this is not given up: its brokers may be choosing a new leader.
_SILENCE: Final = timedelta(seconds=12)


class Role(StrEnum):
    """What a process does."""

    WORKER = "worker"
    LAUNCHER = "launcher"
    API = "api"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What every role is made of; its connections are open."""

    settings: Settings
    identity: Holder
    clock: Clock
    vitals: Vitals
    pool: Pool
    bell: Bell
    broker: Broker
    layout: Layout
    leases: Leases
    pulse: Pulse


@asynccontextmanager
async def open_services(
    settings: Settings, *, name: str | None = None, clock: Clock | None = None, vitals: Vitals | None = None
) -> AsyncIterator[Services]:
    """Opens connections and makes the topics that are missing; closes them at the end. While the database or the log
    is away, it waits for them.

    `name` is for a process that is the only one of its name: when it comes back, its leases are its own at once.

    Raises:
        ConfigurationError: the topics exist with another number of shards, or a URL is wrong.
    """
    host = socket.gethostname()
    async with AsyncExitStack() as held:
        pool = await once_there("database", lambda: open_pool(settings.database_url, min_size=2, max_size=12))
        held.callback(pool.terminate)
        bell = PostgresBell(settings.database_url)
        held.push_async_callback(bell.close)
        broker, layout = await once_there("log", lambda: open_log(settings.broker_url, shards=settings.shards))
        held.push_async_callback(broker.close)
        specs = topic_specs(layout.shards, settings.retention, outlets=layout.outlets)
        await once_there("log", lambda: broker.create_topics(specs))
        vitals = vitals or Vitals()
        vitals.stands_on("database", PostgresGauges(pool).answers)
        vitals.stands_on("log", lambda: broker.ends([TopicPartition(LAUNCH, 0)]))
        yield Services(
            settings=settings,
            identity=Holder(name or f"{host}-{os.getpid()}-{uuid4().hex[:6]}", host, os.getpid()),
            clock=clock or SystemClock(),
            vitals=vitals,
            pool=pool,
            bell=bell,
            broker=broker,
            layout=layout,
            leases=PostgresLeases(pool),
            pulse=Pulse(
                lambda: broker.ends([TopicPartition(SIGNALS, 0)]),
                every=settings.lease / 2,
                patience=max(2 * settings.lease, _SILENCE),
            ),
        )


def worker_loops(services: Services) -> Mapping[str, Loop]:
    """A worker: shards of the log, by lease."""

    async def work() -> None:
        settings, pulse, me = services.settings, services.pulse, services.identity
        shards = ShardSettings(dedupe_horizon=settings.dedupe_horizon, verdicts=bool(settings.verdicts_keep))
        worker = Worker(services.broker, services.leases, me, ttl=settings.lease, settings=shards, pulse=pulse)
        patience_s = settings.stuck_after.total_seconds()
        dog = Watchdog(worker.signs, patience_s=patience_s, excused=lambda: pulse.lost) if patience_s else None
        services.vitals.works(worker, dog)
        await on_duty(worker, PostgresReports(services.pool), name=me.id, watchdog=dog)

    return {"worker": work, "pulse": services.pulse.run}


def launcher_loops(services: Services, environ: Mapping[str, str]) -> Mapping[str, Loop]:
    """A launcher. What two of them would only do against each other is played by one at a time.

    `environ` is what runner processes are given besides the settings.
    """
    pool, broker, bell, clock = services.pool, services.broker, services.bell, services.clock
    settings = services.settings
    theirs = PostgresClock(pool, clock)
    hands = QuickHands(PostgresRunCrowd(pool), this_process(), theirs, heartbeat=settings.heartbeat)
    followup = FollowUp(
        PostgresFollowUpBook(pool),
        LocalRunners(settings.data_dir.absolute(), {**environ, **settings.variables()}),
        theirs,
        Patience(silence=settings.lost_after, attempts=settings.run_attempts, pace=_pace(settings)),
        hands=hands,
    )

    decisions = PostgresDecisions(pool)
    advice = Advice(plugins.installed(), decisions, theirs)
    probes = {name: open_probe(url, PROBES) for name, url in settings.cluster_urls().items()}
    keep = settings.verdicts_keep
    verdicts = VerdictIntake(broker, PostgresVerdicts(pool, keep=keep), clock, keep=keep)

    keeps = Retention(jobs=settings.jobs_keep, audit=settings.audit_keep)
    wakes = PostgresWakes(pool)

    def in_time(loop: Callable[[], Awaitable[None]]) -> Loop:
        """Begins when it knows what time it is."""

        async def begin() -> None:
            await once_there("database", theirs.compare)
            await loop()

        return begin

    def alone(name: str, loop: Callable[[], Coroutine[Any, Any, None]]) -> Loop:
        part = Part(services.leases, name, services.identity.id, ttl=settings.lease, pulse=services.pulse)
        return lambda: part.run(loop)

    return {
        "relay": alone("relay", lambda: Relay(broker=broker, outbox=PostgresOutbox(pool), bell=bell).run()),
        "progress": alone("progress", lambda: ProgressCopy(broker=broker, store=PostgresProgress(pool)).run()),
        "verdicts": alone("verdicts", verdicts.run),
        "intake": alone("intake", lambda: Intake(broker, PostgresIntake(pool), clock).run()),
        "retention": alone("retention", lambda: Retirement(PostgresArchive(pool), keeps, clock).run()),
        "tidying": lambda: Tidying(
            RunShelf(settings.data_dir.absolute()), PostgresArchive(pool), clock, keep=settings.jobs_keep
        ).run(),
        "log-cleaning": alone("log-cleaning", lambda: attend(partial(_clean, broker), called="log_cleaning")),
        "resumption": lambda: Resumption(
            store=PostgresCatalogStore(pool), pauses=PostgresPauses(pool), bell=bell, clock=clock
        ).run(),
        "wake-ups": alone("wake-ups", lambda: WakeIntake(broker, wakes, theirs).run()),
        "deadlines": in_time(lambda: DeadlineWatch(PostgresDeadlines(pool), bell, theirs).run()),
        "timers": in_time(lambda: Timers(store=PostgresTimers(pool), wakes=wakes, bell=bell, clock=theirs).run()),
        "clock": theirs.run,
        "pulse": services.pulse.run,
        "spool": lambda: attend(partial(_drain, settings), called="spool"),
        "probes": lambda: Probes(PostgresBoard(pool), probes, bell, clock).run(),
        "launcher": in_time(lambda: Launcher(decisions, followup, bell, theirs, advice, hands=hands).run()),
        "hands": in_time(hands.run),
    }


def api_services(services: Services) -> ApiServices:
    """What the HTTP application needs."""
    pool = services.pool
    gauges = PostgresGauges(pool)
    trails = PostgresTrails(pool, services.broker)

    async def measure() -> None:
        services.vitals.measure()
        await measure_installation(services.vitals.metrics, gauges, services.broker, now=services.clock.now())

    return ApiServices(
        broker=services.broker,
        catalog=Catalog(
            store=PostgresCatalogStore(pool),
            reader=PostgresCatalogReader(pool),
            receipts=PostgresOutbox(pool),
            bell=services.bell,
            clock=services.clock,
            check=partial(plugins.check, known=plugins.installed()),
            largest_record=services.broker.capabilities.largest_record,
        ),
        replaying=Replaying(
            reader=PostgresCatalogReader(pool),
            mending=PostgresMending(pool),
            receipts=PostgresOutbox(pool),
            bell=services.bell,
        ),
        jobs=PostgresJobs(pool),
        runs=PostgresRuns(pool),
        groups=PostgresGroups(pool),
        pools=PostgresPools(pool),
        clusters=PostgresBoard(pool),
        cluster_urls=services.settings.cluster_urls(),
        trails=trails,
        audience=Audience(trails, services.clock),
        keys=PostgresOpenKeys(pool),
        verdicts_keep=services.settings.verdicts_keep,
        clock=services.clock,
        shards=services.layout.outlets,
        body_limit=services.settings.body_limit,
        health=health_of(services.vitals, measure),
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
    """Plays a role until cancelled. `ready` is called when it has begun (and its API, if any, answers).

    Raises:
        ConfigurationError: the installation is wrong; a restart cannot help.
    """
    vitals = Vitals()
    async with _probed(settings, vitals), open_services(settings, name=name, vitals=vitals) as services:
        loops: dict[str, Loop] = {}
        if role in {Role.WORKER, Role.ALL}:
            loops |= worker_loops(services)
        if role in {Role.LAUNCHER, Role.ALL}:
            loops |= launcher_loops(services, environ)
        if role in {Role.API, Role.ALL}:
            bound = bound or bind(settings.api_host, settings.api_port)
            server = HttpServer(make_api(api_services(services)), bound, started=ready)
            loops["api"] = server.run
            log.info("api.bound", url=url_of(bound))
        elif ready is not None:
            ready()
        log.info("role.begun", role=role, worker=services.identity.id)
        await supervise(loops, metrics=vitals.metrics)


def health_of(vitals: Vitals, measure: Callable[[], Awaitable[None]]) -> Health:
    """What is told of a process."""
    return Health(live=vitals.live, ready=vitals.ready, measure=measure, metrics=vitals.metrics)


@asynccontextmanager
async def _probed(settings: Settings, vitals: Vitals) -> AsyncIterator[None]:
    """Meanwhile probes are answered, if a port is set; also while it waits for its database and its log."""
    if not settings.health_port:
        yield
        return

    async def measure() -> None:
        vitals.measure()

    bound = bind(settings.health_host, settings.health_port, host_by=_HEALTH_HOST, port_by=_HEALTH_PORT)
    server = HttpServer(make_health(health_of(vitals, measure)), bound)
    answering = asyncio.create_task(supervise({"health": server.run}, metrics=vitals.metrics))
    log.info("health.bound", url=url_of(bound))
    try:
        yield
    finally:
        await cancel(answering, again_s=TIDYING_UP)
        bound.close()


def run_role(role: Role, environ: Mapping[str, str], **options: object) -> None:
    """A process that plays one role until SIGINT or SIGTERM. `options` are fields of `Settings` given on the command
    line, which win over variables.
    """
    settings = Settings.from_env(environ, **options)
    configure_logs(level=settings.log_level, style=settings.log_format)
    run_until_told(serve(settings, role, environ=environ))


def run_migrations(environ: Mapping[str, str]) -> None:
    """Brings the database to the newest schema."""
    settings = Settings.from_env(environ)
    configure_logs(level=settings.log_level, style=settings.log_format)
    migrate(settings.database_url)


def _pace(settings: Settings) -> Pace | None:
    rate = settings.launches_per_second
    return Pace(rate, settings.launch_burst) if rate else None


async def _drain(settings: Settings) -> float:
    """Sends what runs of this host could not say while nobody was there."""
    spool = settings.data_dir / "spool"
    if spool.exists():
        drained = await asyncio.to_thread(drain, spool, settings.broker_url)
        if drained.sent or drained.refused or drained.left:
            log.info("spool.drained", sent=drained.sent, refused=drained.refused, left=drained.left)
    return _CHORES


async def _clean(broker: Broker) -> float:
    await broker.maintain()
    return _CHORES
