"""The launcher, top to bottom: jobs to runs, timers, tasks to their targets, what watches and what notifies, the work
for its host, and what one launcher does at a time for the installation.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, Final

import structlog

from streamsched.access.authentication import PERSON_OF_DEV, Authentication
from streamsched.access.event_intake import EventIntake
from streamsched.access.quota_watch import QuotaWatch
from streamsched.access.run_spools import RunSpools
from streamsched.access.unused_names import UnusedNames
from streamsched.api.allowed_hosts import AllowedHosts
from streamsched.api.serving import HttpServer, bind
from streamsched.api.task_streams import make_stream_api
from streamsched.catalog.progress import ProgressCopy
from streamsched.catalog.relay import Relay
from streamsched.catalog.resumption import Resumption
from streamsched.catalog.verdicts import VerdictIntake
from streamsched.config import Settings
from streamsched.dapr.delivery import DaprDelivery
from streamsched.domain.constraints.process_room import ProcessKind
from streamsched.domain.decisions.retention import Retention
from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.domain.programs.secret_rules import SecretRule
from streamsched.domain.signals.layout import Layout
from streamsched.emit.destination import SPOOLS
from streamsched.graph.progression import Progression
from streamsched.graph.retention import NodeRetention
from streamsched.launcher import plugins
from streamsched.launcher.backfills.feeding import BackfillFeeding
from streamsched.launcher.cluster_probes import ClusterProbes
from streamsched.launcher.deadlines import DeadlineWatch
from streamsched.launcher.inline_executor import InlineExecutor
from streamsched.launcher.loop import Launcher
from streamsched.launcher.plugin_evaluator import PluginEvaluator
from streamsched.launcher.recovery import Recovery
from streamsched.launcher.retention import ArchiveLoop
from streamsched.launcher.run_monitor import RunMonitor, RunTimeouts
from streamsched.log.drivers import open_broker
from streamsched.log.maintenance import LogMaintenance
from streamsched.log.topics import topic_specs
from streamsched.membership.singleton_role import SingletonRole
from streamsched.ports.access.spools import SpoolingRun
from streamsched.ports.broker import Broker
from streamsched.ports.clock import Clock
from streamsched.ports.leases import LeaseHolder
from streamsched.ports.notifier import Notifier
from streamsched.ports.runner import RunnerId
from streamsched.process.cancellation import CLOSING_S, STOPPING_S, cancel
from streamsched.process.http_client import HttpClient
from streamsched.process.os_user import OsUser
from streamsched.process.run_forever import run_forever
from streamsched.process.separation import check_users, not_separated
from streamsched.process.supervision import Loop, supervise, wait_until_available
from streamsched.roles.access import authentication
from streamsched.roles.services import Services, make_desk
from streamsched.secrets.resolver import Secrets, installed
from streamsched.setting_values import url_here
from streamsched.spark.clusters import open_probe
from streamsched.spark.log_cleanup import LogCleanup, RunFileStore
from streamsched.spark.processes import LocalRunners, this_process
from streamsched.store.access.quotas import PostgresQuotaStore
from streamsched.store.access.spools import PostgresSpoolStore
from streamsched.store.catalog.catalog import CatalogStore
from streamsched.store.catalog.namespace_grants import PostgresNamespaceGrantStore
from streamsched.store.catalog.outbox import PostgresOutbox
from streamsched.store.catalog.pauses import PauseStore
from streamsched.store.catalog.progress import PostgresProgress
from streamsched.store.connections import Pool
from streamsched.store.dapr.instances import AppInstances
from streamsched.store.events.timers import PostgresTimers
from streamsched.store.events.verdicts import VerdictStore
from streamsched.store.events.wakes import PostgresWakes
from streamsched.store.expectations.evidence import (
    CompletionStore,
    EvidenceStore,
)
from streamsched.store.expectations.judgement import ExpectationStore
from streamsched.store.graph.nodes import NodeStore
from streamsched.store.jobs.archive import Archive
from streamsched.store.jobs.backfill_feed import BackfillFeed
from streamsched.store.jobs.decisions import DecisionStore
from streamsched.store.jobs.intake import JobIntake, PostgresIntake
from streamsched.store.limits.clusters import ClusterStore
from streamsched.store.programs.bundles import BundleStore
from streamsched.store.runs.deadlines import DeadlineStore
from streamsched.store.runs.launchers import LauncherLeases
from streamsched.store.runs.run_batch import RunBatch
from streamsched.store.runs.run_commits import RunCommitStore
from streamsched.store.runs.run_monitor import RunMonitorStore
from streamsched.store.server.clock import PostgresClock
from streamsched.store.server.leases import PostgresTaskLeases
from streamsched.store.tasks.delivery import DeliveryStore
from streamsched.store.tasks.intake import PostgresTaskIntake
from streamsched.store.tasks.partitions import READS, TaskPartitions
from streamsched.store.tasks.queues import QueueStore
from streamsched.store.tasks.streams import StreamAddresses
from streamsched.store.webhooks.feed import PostgresWebhookFeed
from streamsched.store.webhooks.notices import PostgresNoticeStore
from streamsched.store.webhooks.webhooks import PostgresWebhookStore
from streamsched.store.webhooks.work_history import PostgresWorkHistory
from streamsched.tasks.http_receiver import HttpReceiver
from streamsched.tasks.intake import TaskIntake
from streamsched.tasks.lane_mover import LaneMover
from streamsched.tasks.loop import TaskLoop
from streamsched.tasks.ownership import Ownership
from streamsched.tasks.worker_streams import WorkerStreams
from streamsched.telemetry.metrics import Metrics
from streamsched.telemetry.traces.settings import run_sampler
from streamsched.timers.evidence import CompletionIntake, EvidenceIntake
from streamsched.timers.expectations import ExpectationWatch
from streamsched.timers.tick_review import TickReview
from streamsched.timers.timers import Timers, WakeIntake
from streamsched.webhooks.delivery import WebhookReceiver
from streamsched.webhooks.feeding import WebhookFeeding
from streamsched.webhooks.mailing import MailDelivery
from streamsched.webhooks.notices import NoticeFeeding

log = structlog.get_logger()

#: Variables that other programs take proxies from.
_PROXIES: Final = frozenset({"http_proxy", "https_proxy", "all_proxy"})
#: How long a bundle is kept to which nothing refers: a deployment follows its upload.
_BUNDLE_KEPT: Final = timedelta(days=1)
#: Seconds between two removals of unused bundles.
_BUNDLES_EVERY_S: Final = 600.0
#: Seconds between two announcements of the address.
_ANNOUNCE_S: Final = 3.0
_Roles = Mapping[str, Callable[[], Coroutine[Any, Any, None]]]


def launcher_loops(services: Services, environ: Mapping[str, str], *, dev: bool = False) -> Mapping[str, Loop]:
    """The loops of a launcher. Loops that must not run twice at a time are singleton roles.

    `environ`: environment of runner processes, in addition to the settings. `dev`: whether they are those of
    `streamsched dev`, on a machine of one person.
    """
    pool, broker, notifier, clock = services.pool, services.broker, services.notifier, services.clock
    settings = services.settings
    inline = make_inline(pool, this_process(), clock, settings, environ)
    runners = local_runners(settings, environ)
    leases = LauncherLeases(pool, theirs=services.measured and services.measured.steady)
    recovery = Recovery(leases, runners, inline.runner, clock, ttl=settings.lease, attempts=settings.runs.attempts)
    timeouts = RunTimeouts(silence=settings.runs.lost_after, attempts=settings.runs.attempts, pace=settings.runs.pace)
    monitor = RunMonitor(RunMonitorStore(pool), runners, clock, timeouts, inline=inline)
    due_by = services.measured and services.measured.theirs
    decisions, wakes = DecisionStore(pool), PostgresWakes(pool, theirs=due_by)
    callers = authentication(pool, clock, settings)
    evaluator = PluginEvaluator(plugins.installed(), decisions, clock)
    probes = {name: open_probe(url) for name, url in settings.runs.clusters.items()}
    keep = settings.keep.verdicts
    verdicts = VerdictIntake(broker, VerdictStore(pool, keep=keep), clock, keep=keep)
    metrics = services.health.metrics
    tasks = make_task_delivery(
        pool, notifier, services.identity, clock, settings, environ=environ, metrics=metrics, measured=services.measured
    )
    keeps = Retention(jobs=settings.keep.jobs, audit=settings.keep.audit)
    feeding = BackfillFeeding(BackfillFeed(pool), notifier, clock, keep=settings.keep.jobs)

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
        "intake": alone("intake", lambda: JobIntake(broker, PostgresIntake(pool), clock, metrics).run()),
        "backfills": alone("backfills", feeding.run),
        "retention": alone("retention", lambda: ArchiveLoop(Archive(pool), keeps, clock).run()),
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
        "graph": in_time(Progression(NodeStore(pool), notifier, clock).run),
        "broker_health": services.broker_health.run,
        **host_loops(
            pool, broker, services.layout, settings, me=services.identity, clock=clock, metrics=metrics, dev=dev
        ),
        "probes": lambda: ClusterProbes(ClusterStore(pool), probes, notifier, clock).run(),
        "launcher": in_time(Launcher(decisions, monitor, notifier, clock, evaluator, inline=inline).run),
        "inline": in_time(inline.run),
        "recovery": in_time(recovery.run),
        "tasks": in_time(tasks.run),
        "task-streams": lambda: serve_task_streams(settings, pool, services.identity.id, tasks.workers, callers),
        **{name: alone(name, each) for name, each in task_intakes(settings, pool, broker, clock).items()},
        **{name: alone(name, each) for name, each in watching_roles(settings, pool, broker, clock).items()},
    }


def make_inline(
    pool: Pool, me: RunnerId, clock: Clock, settings: Settings, environ: Mapping[str, str]
) -> InlineExecutor:
    """What executes HTTP and publish programs. `environ`: the variables that secrets may be."""
    secrets = Secrets(settings.programs.secrets, environ, installed())
    sampler = run_sampler(environ, traces=settings.traces)
    batch = RunBatch(pool)
    client = HttpClient(settings.programs.outgoing_networks, proxy=settings.programs.outgoing_proxy)
    ignored = [] if settings.programs.outgoing_proxy else sorted(name for name in environ if name.lower() in _PROXIES)
    if ignored:
        log.warning("outgoing.proxies_ignored", variables=ignored, instead="STREAMSCHED_OUTGOING_PROXY")
    return InlineExecutor(batch, me, client, clock, heartbeat=settings.runs.heartbeat, secrets=secrets, sampler=sampler)


def local_runners(settings: Settings, environ: Mapping[str, str]) -> LocalRunners:
    """What starts runners on this machine. Logs what does not separate programs. `environ`: of the runners, in addition
    to the settings.

    Raises:
        ConfigurationError: programs cannot run as the users that the settings name.
    """
    users = settings.programs.run_as
    check_users(users)
    for each in not_separated(users):
        log.warning("programs.not_separated", reason=each)
    runners = LocalRunners(
        settings.data_dir.absolute(),
        {**environ, **settings.variables()},
        warm=settings.runs.warm_starts,
        places={ProcessKind.HOST: settings.runs.processes, ProcessKind.CLUSTER: settings.runs.cluster_processes},
    )
    if settings.spark.prepared_drivers:  # the first Spark run teaches what to prepare, if it is forked
        runners.start_fork_server()
    return runners


def removal_of_bundles(pool: Pool, clock: Clock) -> Callable[[], Coroutine[Any, Any, None]]:
    """The loop that removes unused bundles."""
    return lambda: run_forever(partial(remove_bundles, BundleStore(pool), clock), called="bundles", ending_by=clock)


async def remove_bundles(store: BundleStore, clock: Clock) -> float:
    """Removes bundles to which nothing refers; returns the seconds until the next call."""
    removed = await store.remove_unused(before=clock.now() - _BUNDLE_KEPT)
    if removed:
        log.info("bundles.removed", bundles=len(removed), first=removed[0])
    return _BUNDLES_EVERY_S


def tick_review(pool: Pool, clock: Clock, measured: PostgresClock | None) -> TickReview:
    """The review of stored ticks."""
    judgement = (lambda: 0) if measured is None else (lambda: measured.judgement)
    return TickReview(PostgresTimers(pool), clock, judgement=judgement)


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
    store, workers = DeliveryStore(pool), WorkerStreams(clock)
    partitions, me = TaskPartitions(pool), replace(me, reads=READS)
    leases = PostgresTaskLeases(pool, theirs=measured and measured.steady)
    ownership = Ownership(leases, me, store, partitions, clock, ttl=settings.lease)
    queues, networks, proxy = (
        QueueStore(pool),
        settings.programs.outgoing_networks,
        settings.programs.outgoing_proxy,
    )
    http = HttpReceiver(HttpClient(networks, proxy=proxy), clock, leased=ownership.leased)
    sending = HttpClient(networks, proxy=proxy)
    secrets = Secrets(settings.programs.secrets, environ, installed())
    webhooks = WebhookReceiver(
        PostgresWebhookStore(pool),
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
        capacity=settings.tasks.in_flight,
    )
    workers.on_room = loop.wake
    instances = AppInstances(pool)
    scheduler = None
    if settings.dapr.scheduler:
        from streamsched.dapr.scheduler_server import DaprSchedulerServer  # noqa: PLC0415 - it comes with an extra

        desk = make_desk(pool, clock)
        scheduler = DaprSchedulerServer(desk, workers, instances, address=settings.dapr.scheduler).run
    mover = LaneMover(partitions, leads=lambda: 0 in ownership.starting)
    moving = partial(supervise, {"task_partitions": mover.run}, metrics=metrics or Metrics())
    return TaskDelivery(loop, workers, DaprDelivery(instances, workers), moving, scheduler)


def task_intakes(
    settings: Settings, pool: Pool, log: Broker, clock: Clock
) -> Mapping[str, Callable[[], Coroutine[Any, Any, None]]]:
    """The loops that put tasks into queues, by the name of the role; one each at a time. They copy topics, and put
    changes of jobs and runs into the queues of webhooks.

    Raises:
        ConfigurationError: a topic is one of the installation.
    """
    own = {spec.name for spec in topic_specs(settings.shards, settings.keep.log)}
    for topic in settings.tasks.topics:
        if topic in own and not settings.tasks.log_url:
            raise ConfigurationError(f"STREAMSCHED_TASK_TOPICS: '{topic}' is a topic of the installation itself")

    async def copy(topic: str, queue: str) -> None:
        async with AsyncExitStack() as stack:
            source, name = log, topic
            if settings.tasks.log_url:
                source = await wait_until_available("task log", lambda: open_broker(settings.tasks.log_url))
                stack.push_async_callback(source.close)
                name = f"task-log:{topic}"
            intake = TaskIntake(
                topic,
                queue,
                broker=source,
                letters=log,
                store=PostgresTaskIntake(pool, queue, name),
                queues=QueueStore(pool),
                clock=clock,
                partitions=settings.shards,
                retention=settings.keep.log,
            )
            await intake.run()

    history, pages = PostgresWorkHistory(pool), settings.api.pages_url.rstrip("/")
    feeding = WebhookFeeding(history, PostgresWebhookFeed(pool), clock, pages=pages)
    copying = {f"tasks-of-{topic}": partial(copy, topic, queue) for topic, queue in settings.tasks.topics.items()}
    return {"webhooks": feeding.run, **copying}


async def serve_task_streams(
    settings: Settings, pool: Pool, owner: str, workers: WorkerStreams, authentication: Authentication
) -> None:
    """Gives tasks to workers over HTTP until cancelled, and shows them the address.

    Raises:
        ConfigurationError: the address cannot be used.
    """
    host, variable = settings.tasks.streams_host, "STREAMSCHED_TASK_STREAMS"
    bound = bind(host, settings.tasks.streams_port, host_by=f"{variable}_HOST", port_by=f"{variable}_PORT")
    url = settings.tasks.streams_url or _advertised(bound, host)
    hosts = AllowedHosts.of(settings.api.allowed_hosts, api_host=host, urls=[url])
    server = HttpServer(make_stream_api(workers, hosts, authentication, body_limit=settings.api.body_limit), bound)
    addresses = StreamAddresses(pool)

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


def watching_loops(pool: Pool, notifier: Notifier, clock: Clock) -> Mapping[str, Loop]:
    """What every launcher does, by the database's clock: it judges deadlines and expectations when they are due, and
    pauses and resumes schedules.
    """
    catalog, pauses = CatalogStore(pool), PauseStore(pool)
    return {
        "resumption": lambda: Resumption(store=catalog, pauses=pauses, notifier=notifier, clock=clock).run(),
        "deadlines": lambda: DeadlineWatch(DeadlineStore(pool), notifier, clock).run(),
        "expectations": lambda: ExpectationWatch(ExpectationStore(pool), notifier, clock).run(),
    }


def watching_roles(settings: Settings, pool: Pool, broker: Broker, clock: Clock) -> _Roles:
    """What one launcher does at a time, by the name of the role."""
    notices = PostgresNoticeStore(pool, pages=settings.api.pages_url.rstrip("/"))
    return {
        "evidence": lambda: EvidenceIntake(broker, EvidenceStore(pool), clock).run(),
        "completions": lambda: CompletionIntake(CompletionStore(pool), clock).run(),
        "notices": lambda: NoticeFeeding(PostgresWorkHistory(pool), notices, clock).run(),
    }


def make_mail(pool: Pool, settings: Settings, environ: Mapping[str, str], clock: Clock) -> MailDelivery:
    """The delivery of mail. Only the reference of the settings can be read by it."""
    mail = settings.mail
    rules = [] if mail is None or mail.secret is None else [SecretRule.parse(f"*={mail.secret.reference}")]
    return MailDelivery(PostgresNoticeStore(pool), mail, Secrets(rules, environ, installed()), clock)


def host_loops(
    pool: Pool,
    broker: Broker,
    layout: Layout,
    settings: Settings,
    *,
    me: LeaseHolder,
    clock: Clock,
    metrics: Metrics,
    dev: bool,
) -> Mapping[str, Loop]:
    """What each launcher does for its host: sends spooled events of its runs, deletes files of old ones, and empties
    logs of namespaces that have too many. Also frees names of groups and pools that nothing uses. `dev`: what is
    spooled outside of runs is the person's who started `dev`.
    """
    quotas = QuotaWatch(PostgresQuotaStore(pool), clock, f"{me.id}-spools", metrics)
    intake = EventIntake(broker, layout.unkeyed_partitions, quotas, clock, metrics, RunCommitStore(pool))
    data, person = settings.data_dir.absolute(), PERSON_OF_DEV if dev else None
    store = PostgresSpoolStore(pool)
    spools = RunSpools(data / SPOOLS, store, intake, host=me.host, person=person, owner_of=_owners(settings))
    archive, limits = Archive(pool), PostgresQuotaStore(pool).limits
    cleanup = LogCleanup(RunFileStore(data), archive, clock, keep=settings.keep.jobs, limits=limits)
    return {
        "spools": lambda: run_forever(spools.run_once, called="spools"),
        "log-cleanup": cleanup.run,
        "unused-names": UnusedNames(PostgresNamespaceGrantStore(pool), clock).run,
    }


def _owners(settings: Settings) -> Callable[[SpoolingRun], int]:
    """The user id as which a run's program runs here.

    Raises:
        ConfigurationError: this machine does not have one of the users.
    """
    users = settings.programs.run_as
    ids = {name: OsUser.find(name).uid for name in users.users.values()}
    return lambda run: ids.get(users.user_of(run.program), os.geteuid())


def node_retention(pool: Pool, clock: Clock, settings: Settings) -> NodeRetention:
    """Deletes nodes that ended longer ago than the settings say."""
    return NodeRetention(NodeStore(pool), clock, keep=settings.keep.nodes)
