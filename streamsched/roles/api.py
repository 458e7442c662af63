"""The API with the pages: what its routes use, and the application that serves them."""

from __future__ import annotations

from functools import partial

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from streamsched.access.auditing import NoAudit, StoredAudit
from streamsched.access.authentication import ANYBODY, OpenAuthentication
from streamsched.access.quota_watch import QuotaWatch
from streamsched.access.references import ReferenceChecks
from streamsched.admin.installation import assemble
from streamsched.admin.installation_metrics import measure_installation
from streamsched.api.allowed_hosts import allowed_hosts
from streamsched.api.app import make_api
from streamsched.api.deps import (
    AccessServices,
    ApiServices,
    DatasetServices,
    EventServices,
    LimitServices,
    ProgramServices,
    ScheduleServices,
    TaskServices,
    WebhookServices,
    WorkServices,
)
from streamsched.api.health import health_of
from streamsched.api.reads.catalog_map import CatalogMap
from streamsched.api.reads.log_tail import LogSearch
from streamsched.api.routing.table import RouteTable
from streamsched.api.streams.decision_feed import DecisionFeed
from streamsched.catalog.catalog import Catalog
from streamsched.catalog.listeners import Listeners
from streamsched.catalog.replaying import ScheduleReplay
from streamsched.graph.submission import GraphDesk
from streamsched.launcher import plugins
from streamsched.log.topics import topic_specs
from streamsched.parts import additions
from streamsched.ports.clock import SystemClock
from streamsched.roles.access import open_authentication
from streamsched.roles.services import Services
from streamsched.store.access.quotas import QuotaStore
from streamsched.store.access.tokens import TokenStore
from streamsched.store.audit import AuditStore
from streamsched.store.catalog.app_expectations import ExpectationGrants
from streamsched.store.catalog.catalog import CatalogStore
from streamsched.store.catalog.catalog_reader import CatalogReader
from streamsched.store.catalog.namespace_grants import NamespaceGrantStore
from streamsched.store.catalog.outbox import PostgresOutbox
from streamsched.store.catalog.preferences import PreferenceStore
from streamsched.store.catalog.progress import OpenKeyReader
from streamsched.store.connections import Pool
from streamsched.store.datasets.bookmarks import BookmarkStore
from streamsched.store.datasets.file_set_commits import FileSetCommitStore
from streamsched.store.events.event_traces import EventTraces
from streamsched.store.expectations.records import ExpectationReader
from streamsched.store.graph.nodes import NodeStore
from streamsched.store.jobs.backfills import BackfillStore
from streamsched.store.jobs.descendants import DescendantReader
from streamsched.store.jobs.jobs import JobStore
from streamsched.store.jobs.submissions import SubmissionStore
from streamsched.store.limits.clusters import ClusterStore
from streamsched.store.limits.groups import GroupStore
from streamsched.store.limits.pools import PoolStore
from streamsched.store.programs.bundles import BundleStore
from streamsched.store.programs.profiles import ProfileStore
from streamsched.store.runs.run_commits import RunCommitStore
from streamsched.store.runs.run_queries import RunQueries
from streamsched.store.server.gauges import Gauges
from streamsched.store.server.probe import OutboxRepair
from streamsched.store.tasks.partitions import TaskPartitions
from streamsched.store.tasks.queues import QueueStore
from streamsched.store.tasks.registry import TaskRegistry
from streamsched.store.tasks.streams import StreamAddresses
from streamsched.store.web.activity_reads import ActivityReads
from streamsched.store.web.link_reads import LinkReads
from streamsched.store.web.page_reads import PageReads
from streamsched.store.webhooks.webhooks import WebhookStore
from streamsched.store.webhooks.work_history import PostgresWorkHistory
from streamsched.web.app import PREFIX, make_web
from streamsched.web.live import LiveFeed
from streamsched.web.session import Sessions
from streamsched.web.visit import PageServices


def api_services(services: Services) -> ApiServices:
    """What the routes use."""
    settings, clock, pool, broker = services.settings, services.clock, services.pool, services.broker
    notifier, layout, metrics = services.notifier, services.layout, services.health.metrics
    specs = topic_specs(
        layout.shards,
        settings.keep.log,
        horizon=settings.worker.dedupe_horizon,
        unkeyed_partitions=layout.unkeyed_partitions,
    )
    gauges, traces, quotas = Gauges(pool), EventTraces(pool, broker), QuotaStore(pool)
    reader, outbox, grants = CatalogReader(pool), PostgresOutbox(pool), NamespaceGrantStore(pool)
    entries, (callers, login) = AuditStore(pool), open_authentication(pool, clock, settings)

    async def measure() -> None:
        services.health.measure()
        await measure_installation(metrics, gauges, broker, layout.shards, now=clock.now())

    return ApiServices(
        settings=settings,
        clock=clock,
        health=health_of(services.health, measure),
        installation=assemble(pool, notifier, SystemClock(), log=broker, broker=broker, specs=specs),
        catalog=Catalog(
            store=CatalogStore(pool),
            reader=reader,
            acks=outbox,
            notifier=notifier,
            clock=clock,
            check=partial(plugins.check, known=plugins.find_installed()),
            largest_record=broker.capabilities.largest_record,
        ),
        events=EventServices(
            broker=broker,
            partitions=layout.unkeyed_partitions,
            search=LogSearch(broker),
            traces=traces,
            listeners=Listeners(traces, clock),
            emit_spans=services.traces and services.traces.emit_spans,
        ),
        schedules=ScheduleServices(
            replaying=ScheduleReplay(reader=reader, mending=OutboxRepair(pool), acks=outbox, notifier=notifier),
            keys=OpenKeyReader(pool),
            descendants=DescendantReader(pool),
            expectations=ExpectationReader(pool),
            expectation_grants=ExpectationGrants(pool),
        ),
        work=WorkServices(
            jobs=JobStore(pool),
            runs=RunQueries(pool),
            submissions=SubmissionStore(pool),
            backfills=BackfillStore(pool),
            graphs=GraphDesk(NodeStore(pool), clock),
            activity=ActivityReads(pool),
            run_commits=RunCommitStore(pool),
        ),
        datasets=DatasetServices(
            bookmarks=BookmarkStore(pool),
            commits=FileSetCommitStore(pool),
            links=CatalogMap(LinkReads(pool)),
        ),
        programs=ProgramServices(
            profiles=ProfileStore(pool),
            bundles=BundleStore(pool),
            preferences=PreferenceStore(pool),
        ),
        tasks=TaskServices(
            queues=QueueStore(pool),
            registry=TaskRegistry(pool),
            streams=StreamAddresses(pool),
            partitions=TaskPartitions(pool),
        ),
        webhooks=WebhookServices(
            store=WebhookStore(pool),
            decisions=DecisionFeed(PostgresWorkHistory(pool)),
        ),
        limits=LimitServices(
            groups=GroupStore(pool),
            pools=PoolStore(pool),
            clusters=ClusterStore(pool),
            quotas=quotas,
            quota_watch=QuotaWatch(
                quotas, clock, services.identity.id, metrics, backlog_limit=settings.api.backlog_limit
            ),
        ),
        access=AccessServices(
            allowed_hosts=allowed_hosts(settings),
            authentication=callers,
            login=login,
            tokens=TokenStore(pool),
            audit=NoAudit() if settings.api.access == "open" else StoredAudit(entries, clock),
            audit_entries=entries,
            references=ReferenceChecks(grants, clock),
            grants=grants,
        ),
        dialects={part.name: make(pool, clock) for part, make in additions("service")},
    )


def make_http(services: ApiServices, pool: Pool, table: RouteTable | None = None) -> Starlette:
    """The API, with the pages at `/ui`. `table`: the routes of the API, when they are made already."""
    api = make_api(services, table)
    reads = PageReads(pool)
    feed = LiveFeed(reads.version)
    access = services.access
    everybody = ANYBODY if isinstance(access.authentication, OpenAuthentication) else None
    rules = access.login.rules if access.login else None
    sessions = Sessions(access.tokens, services.clock, everybody=everybody, rules=rules)
    web = make_web(PageServices(api=services, reads=reads, sessions=sessions, feed=feed))
    api.router.routes.append(Route("/", _to_pages))
    api.mount(PREFIX, web)
    api.state.closing.append(feed.close)
    return api


async def _to_pages(request: Request) -> Response:
    del request
    return RedirectResponse(f"{PREFIX}/")
