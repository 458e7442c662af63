"""The launcher, top to bottom: jobs to runs, timers, tasks to their targets, what watches and what notifies, the work
for its host, and what one launcher does at a time for the installation.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
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
from streamsched.domain.constraints.process_room import ProcessKind
from streamsched.domain.decisions.retention import Retention
from streamsched.domain.errors import UnavailableError
from streamsched.domain.jobs.spool import SpoolingRun
from streamsched.domain.programs.program_users import ProgramUsers
from streamsched.domain.programs.secret_rules import SecretRule
from streamsched.emit.destination import SPOOLS
from streamsched.graph.progression import Progression
from streamsched.graph.retention import NodeRetention
from streamsched.launcher import plugins
from streamsched.launcher.backfill_feeding import BackfillFeeding
from streamsched.launcher.cluster_probes import ClusterProbes
from streamsched.launcher.deadlines import DeadlineWatch
from streamsched.launcher.inline_executor import InlineExecutor
from streamsched.launcher.loop import Launcher
from streamsched.launcher.plugin_evaluator import PluginEvaluator
from streamsched.launcher.recovery import Recovery
from streamsched.launcher.retention import ArchiveLoop
from streamsched.launcher.run_monitor import RunMonitor, RunTimeouts
from streamsched.log.maintenance import LogMaintenance
from streamsched.membership.singleton_role import SingletonRole
from streamsched.parts import Part, additions
from streamsched.ports.broker import Broker
from streamsched.ports.clock import Clock
from streamsched.ports.leases import LeaseHolder
from streamsched.ports.notifier import Notifier
from streamsched.process.cancellation import CLOSING_S, STOPPING_S, cancel
from streamsched.process.os_user import OsUser
from streamsched.process.run_forever import run_forever
from streamsched.process.separation import check_users, find_unseparated
from streamsched.process.supervision import Loop, supervise, wait_until_available
from streamsched.roles.access import open_authentication
from streamsched.roles.services import Services, make_http_client
from streamsched.secrets.resolver import Secrets, find_installed
from streamsched.setting_values import url_here
from streamsched.spark.clusters import open_probe
from streamsched.spark.log_cleanup import LogCleanup, RunFileStore
from streamsched.spark.processes import LocalRunners, this_process
from streamsched.store.access.quotas import QuotaStore
from streamsched.store.access.spools import SpoolStore
from streamsched.store.catalog.catalog import CatalogStore
from streamsched.store.catalog.namespace_grants import NamespaceGrantStore
from streamsched.store.catalog.outbox import PostgresOutbox
from streamsched.store.catalog.pauses import PauseStore
from streamsched.store.catalog.progress import PostgresProgress
from streamsched.store.connections import Pool
from streamsched.store.events.timers import PostgresTimers
from streamsched.store.events.verdicts import VerdictStore
from streamsched.store.events.wakes import PostgresWakes
from streamsched.store.expectations.evidence import CompletionStore, EvidenceStore
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
from streamsched.store.server.reports import PostgresReportStore
from streamsched.store.tasks.delivery import DeliveryStore
from streamsched.store.tasks.partitions import READS, TaskPartitions
from streamsched.store.tasks.queues import QueueStore
from streamsched.store.tasks.streams import StreamAddresses
from streamsched.store.webhooks.notices import NoticeStore
from streamsched.store.webhooks.webhooks import WebhookStore
from streamsched.store.webhooks.work_history import PostgresWorkHistory
from streamsched.tasks.http_receiver import HttpReceiver
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

Work = Callable[[], Coroutine[Any, Any, None]]
#: Of a dialect: loops by the name of the role, one each at a time in the installation.
PartIntakes = Callable[[Services], Mapping[str, Work]]
#: Of a dialect: what goes on while a launcher delivers tasks. Called in the event loop that runs it; may raise
#: ConfigurationError.
PartConnections = Callable[[Settings, Pool, Clock, WorkerStreams], Sequence[Callable[[], Awaitable[None]]]]


def launcher_loops(services: Services, environ: Mapping[str, str], *, dev: bool = False) -> Mapping[str, Loop]:
    """The loops of a launcher. A new object at each start of a loop is for what must forget its former state.

    `environ`: environment of runner processes, in addition to the settings. `dev`: whether they are those of
    `streamsched dev`, on a machine of one person.
    """
    settings, pool, broker, notifier = services.settings, services.pool, services.broker, services.notifier
    clock, metrics, measured, keep = services.clock, services.health.metrics, services.measured, settings.keep
    due_by = measured and measured.database_time

    # Jobs to runs: what executes them, and what becomes of them without it
    runners, inline = make_runners(settings, environ), make_inline(services, environ)
    leases, attempts = LauncherLeases(pool, theirs=services.steady), settings.runs.attempts
    recovery = Recovery(leases, runners, inline.runner, clock, ttl=settings.lease, attempts=attempts)
    timeouts = RunTimeouts(silence=settings.runs.lost_after, attempts=attempts, pace=settings.runs.pace)
    monitor = RunMonitor(RunMonitorStore(pool), runners, clock, timeouts, inline=inline)
    decisions = DecisionStore(pool)
    evaluator = PluginEvaluator(plugins.find_installed(), decisions, clock)
    probes = {name: open_probe(url) for name, url in settings.runs.clusters.items()}

    # Tasks to their targets
    tasks = make_task_delivery(
        pool, notifier, services.identity, clock, settings, environ=environ, metrics=metrics, measured=measured
    )
    callers = open_authentication(pool, clock, settings)[0]

    wakes, verdicts = PostgresWakes(pool, theirs=due_by), VerdictStore(pool, keep=keep.verdicts)
    judgement = (lambda: 0) if measured is None else (lambda: measured.judgement)
    bundles = BundleStore(pool)

    def when_time_is_known(loops: Mapping[str, Callable[[], Awaitable[None]]]) -> Mapping[str, Loop]:
        """With the lease of this launcher."""

        async def begin(loop: Callable[[], Awaitable[None]]) -> None:
            if measured is not None:
                await wait_until_available("database", measured.begin)
            await wait_until_available("database", recovery.renew)
            await loop()

        return {name: partial(begin, loop) for name, loop in loops.items()}

    def one_at_a_time(loops: Mapping[str, Work]) -> Mapping[str, Loop]:
        """In one process of the installation, by lease."""

        def hold(name: str, loop: Work) -> Loop:
            me, health = services.identity.id, services.broker_health
            return partial(SingletonRole(services.leases, name, me, ttl=settings.lease, health=health).run, loop)

        return {name: hold(name, loop) for name, loop in loops.items()}

    return {
        **when_time_is_known(
            {
                "launcher": Launcher(decisions, monitor, notifier, clock, evaluator, inline=inline).run,
                "inline": inline.run,
                "recovery": recovery.run,
                "graph": Progression(NodeStore(pool), notifier, clock).run,
                "timers": lambda: Timers(
                    store=PostgresTimers(pool, theirs=due_by), wakes=wakes, notifier=notifier, clock=clock
                ).run(),
                "tasks": tasks.run,
                **watching_loops(pool, notifier, clock),
            }
        ),
        **one_at_a_time(
            {
                # between the log and PostgreSQL
                "relay": lambda: Relay(broker=broker, outbox=PostgresOutbox(pool), notifier=notifier).run(),
                "progress": lambda: ProgressCopy(broker=broker, store=PostgresProgress(pool)).run(),
                "verdicts": VerdictIntake(broker, verdicts, clock, keep=keep.verdicts).run,
                "intake": lambda: JobIntake(broker, PostgresIntake(pool), clock, metrics).run(),
                "wake-ups": lambda: WakeIntake(broker, wakes, clock).run(),
                **task_intakes(services),
                # to people and to others
                **watching_roles(settings, pool, broker, clock),
                **({"spans": services.traces.export(pool, clock).run} if services.traces else {}),
                # at their time, and when it is over
                "backfills": BackfillFeeding(BackfillFeed(pool), notifier, clock, keep=keep.jobs).run,
                "tick-review": TickReview(PostgresTimers(pool), clock, judgement=judgement).run,
                "node-retention": NodeRetention(NodeStore(pool), clock, keep=keep.nodes).run,
                "retention": lambda: ArchiveLoop(
                    Archive(pool), Retention(jobs=keep.jobs, audit=keep.audit, log=keep.log), clock
                ).run(),
                "log-cleaning": LogMaintenance(broker, clock, PostgresReportStore(pool).positions).run,
                "bundles": lambda: run_forever(
                    partial(_remove_bundles, bundles, clock), called="bundles", ending_by=clock
                ),
            }
        ),
        **_host_loops(services, dev=dev),
        "broker_health": services.broker_health.run,
        "probes": lambda: ClusterProbes(ClusterStore(pool), probes, notifier, clock).run(),
        "task-streams": lambda: _serve_task_streams(services, tasks.workers, callers),
    }


def make_inline(services: Services, environ: Mapping[str, str]) -> InlineExecutor:
    """What executes HTTP and publish programs. `environ`: the variables that secrets may be."""
    settings = services.settings
    ignored = sorted(name for name in environ if name.lower() in _PROXIES)
    if ignored and not settings.programs.outgoing_proxy:
        log.warning("outgoing.proxies_ignored", variables=ignored, instead="STREAMSCHED_OUTGOING_PROXY")
    return InlineExecutor(
        RunBatch(services.pool),
        this_process(),
        make_http_client(settings),
        services.clock,
        heartbeat=settings.runs.heartbeat,
        secrets=Secrets(settings.programs.secrets, environ, find_installed()),
        sampler=run_sampler(environ, traces=settings.traces),
    )


def make_runners(settings: Settings, environ: Mapping[str, str]) -> LocalRunners:
    """What starts runners on this machine. Logs what does not separate programs. `environ`: of the runners, in addition
    to the settings.

    Raises:
        ConfigurationError: programs cannot run as the users that the settings name.
    """
    users = settings.programs.run_as
    check_users(users)
    for each in find_unseparated(users):
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


async def _remove_bundles(store: BundleStore, clock: Clock) -> float:
    """Removes bundles to which nothing refers; returns the seconds until the next call."""
    removed = await store.remove_unused(before=clock.now() - _BUNDLE_KEPT)
    if removed:
        log.info("bundles.removed", bundles=len(removed), first=removed[0])
    return _BUNDLES_EVERY_S


@dataclass(frozen=True, slots=True)
class TaskDelivery:
    """The delivery of tasks in one process.

    Attributes:
        workers: where connected workers attach.
        beside: what goes on until deliveries have ended: the moving of lanes, and the connections of dialects.
    """

    loop: TaskLoop
    workers: WorkerStreams
    beside: Sequence[Callable[[], Awaitable[None]]]

    async def run(self) -> None:
        """Delivers until cancelled. Apps and sidecars are disconnected when deliveries have ended."""
        running = [asyncio.ensure_future(each()) for each in self.beside]
        try:
            await self.loop.run()
        finally:
            await cancel(*running, retry_s=CLOSING_S)


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
    PostgreSQL's clock, which judges leases. Call it in the event loop that runs it.

    Raises:
        ConfigurationError: a dialect cannot be connected.
    """
    store, workers = DeliveryStore(pool), WorkerStreams(clock)
    partitions, me = TaskPartitions(pool), replace(me, reads=READS)
    leases = PostgresTaskLeases(pool, theirs=measured and measured.steady)
    ownership = Ownership(leases, me, store, partitions, clock, ttl=settings.lease)
    loop = TaskLoop(
        store,
        QueueStore(pool),
        ownership,
        notifier,
        clock,
        http=HttpReceiver(make_http_client(settings), clock, leased=ownership.is_leased),
        workers=workers,
        webhooks=WebhookReceiver(
            WebhookStore(pool),
            make_http_client(settings),
            Secrets(settings.programs.secrets, environ, find_installed()),
            clock,
            leased=ownership.is_leased,
            mail=_make_mail(pool, settings, environ or {}, clock),
        ),
        metrics=metrics,
        capacity=settings.tasks.in_flight,
    )
    workers.on_room = loop.wake
    mover = LaneMover(partitions, leads=lambda: 0 in ownership.starting)
    moving = partial(supervise, {"task_partitions": mover.run}, metrics=metrics or Metrics())
    added_connections: Iterator[tuple[Part, PartConnections]] = additions("connections")
    connections = [each for _, make in added_connections for each in make(settings, pool, clock, workers)]
    return TaskDelivery(loop, workers, [*connections, moving])


def task_intakes(services: Services) -> Mapping[str, Work]:
    """The loops that put tasks into queues, by the name of the role; one each at a time. They put changes of jobs and
    runs into the queues of webhooks, and copy what dialects copy.

    Raises:
        ConfigurationError: a setting of a dialect is invalid.
    """
    pool, pages = services.pool, services.settings.api.pages_url
    feeding = WebhookFeeding(PostgresWorkHistory(pool), WebhookStore(pool), services.clock, pages=pages)
    copying: Iterator[tuple[Part, PartIntakes]] = additions("intakes")
    return {"webhooks": feeding.run, **{name: loop for _, make in copying for name, loop in make(services).items()}}


async def _serve_task_streams(services: Services, workers: WorkerStreams, callers: Authentication) -> None:
    """Gives tasks to workers over HTTP until cancelled, and shows them the address.

    Raises:
        ConfigurationError: the address cannot be used.
    """
    settings = services.settings
    host, variable = settings.tasks.streams_host, "STREAMSCHED_TASK_STREAMS"
    bound = bind(host, settings.tasks.streams_port, host_by=f"{variable}_HOST", port_by=f"{variable}_PORT")
    url = settings.tasks.streams_url or _advertised_url(bound, host)
    hosts = AllowedHosts.of(settings.api.allowed_hosts, api_host=host, urls=[url])
    server = HttpServer(make_stream_api(workers, hosts, callers, body_limit=settings.api.body_limit), bound)
    addresses = StreamAddresses(services.pool)

    async def announce() -> float:
        await addresses.announce(services.identity.id, url)
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
            await addresses.withdraw(services.identity.id)


def _advertised_url(bound: socket.socket, host: str) -> str:
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


def watching_roles(settings: Settings, pool: Pool, broker: Broker, clock: Clock) -> Mapping[str, Work]:
    """What one launcher does at a time, by the name of the role."""
    notices = NoticeStore(pool, pages=settings.api.pages_url)
    return {
        "evidence": lambda: EvidenceIntake(broker, EvidenceStore(pool), clock).run(),
        "completions": lambda: CompletionIntake(CompletionStore(pool), clock).run(),
        "notices": lambda: NoticeFeeding(PostgresWorkHistory(pool), notices, clock).run(),
    }


def _make_mail(pool: Pool, settings: Settings, environ: Mapping[str, str], clock: Clock) -> MailDelivery:
    """The delivery of mail. Only the reference of the settings can be read by it."""
    mail = settings.mail
    rules = [] if mail is None or mail.secret is None else [SecretRule.parse(f"*={mail.secret.reference}")]
    return MailDelivery(NoticeStore(pool), mail, Secrets(rules, environ, find_installed()), clock)


def _host_loops(services: Services, *, dev: bool) -> Mapping[str, Loop]:
    """What each launcher does for its host: sends spooled events of its runs, deletes files of old ones, and empties
    logs of namespaces that have too many. Also frees names of groups and pools that nothing uses. `dev`: what is
    spooled outside of runs is the person's who started `dev`.
    """
    settings, pool, clock, me = services.settings, services.pool, services.clock, services.identity
    metrics, partitions, data = (
        services.health.metrics,
        services.layout.unkeyed_partitions,
        settings.data_dir.absolute(),
    )
    quotas, commits = QuotaStore(pool), RunCommitStore(pool)
    watch = QuotaWatch(quotas, clock, f"{me.id}-spools", metrics)
    spools = RunSpools(
        data / SPOOLS,
        SpoolStore(pool),
        EventIntake(services.broker, partitions, watch, clock, metrics, commits),
        host=me.host,
        person=PERSON_OF_DEV if dev else None,
        owner_of=_owners(settings.programs.run_as),
    )
    files, archive = RunFileStore(data), Archive(pool)
    return {
        "spools": lambda: run_forever(spools.run_once, called="spools"),
        "log-cleanup": LogCleanup(files, archive, clock, keep=settings.keep.jobs, limits=quotas.limits).run,
        "unused-names": UnusedNames(NamespaceGrantStore(pool), clock).run,
    }


def _owners(users: ProgramUsers) -> Callable[[SpoolingRun], int]:
    """The user id as which a run's program runs here.

    Raises:
        ConfigurationError: this machine does not have one of the users.
    """
    ids = {name: OsUser.find(name).uid for name in users.users.values()}
    return lambda run: ids.get(users.user_of(run.program), os.geteuid())
