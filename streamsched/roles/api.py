"""The API with the pages: what its routes use, and the application that serves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from streamsched.access.auditing import NoAudit, StoredAudit
from streamsched.access.authentication import ANYBODY, OpenAuthentication
from streamsched.access.quota_watch import QuotaWatch
from streamsched.access.references import ReferenceChecks
from streamsched.admin.installation import assembled
from streamsched.api.access.rules import RouteTable
from streamsched.api.allowed_hosts import allowed_hosts
from streamsched.api.app import make_api
from streamsched.api.deps import ApiServices
from streamsched.api.health import health_of
from streamsched.api.reads.catalog_map import CatalogMap
from streamsched.api.streams.decision_feed import DecisionFeed
from streamsched.catalog.catalog import Catalog
from streamsched.catalog.listeners import Listeners
from streamsched.catalog.replaying import ScheduleReplay
from streamsched.config import Settings
from streamsched.domain.programs.program_users import ProgramUsers
from streamsched.graph.submission import GraphDesk
from streamsched.launcher import plugins
from streamsched.log.topics import topic_specs
from streamsched.ports.clock import Clock, SystemClock
from streamsched.process.health import measure_installation
from streamsched.roles.access import open_authentication
from streamsched.roles.services import Services, make_desk
from streamsched.store.access.audit import PostgresAuditStore
from streamsched.store.access.quotas import PostgresQuotaStore
from streamsched.store.access.tokens import PostgresTokenStore
from streamsched.store.catalog.app_expectations import PostgresExpectationGrants
from streamsched.store.catalog.catalog import PostgresCatalogStore
from streamsched.store.catalog.catalog_reader import PostgresCatalogReader
from streamsched.store.catalog.lineage_ends import PostgresLineageEnds
from streamsched.store.catalog.namespace_grants import PostgresNamespaceGrantStore
from streamsched.store.catalog.outbox import PostgresOutbox
from streamsched.store.catalog.preferences import PostgresPreferenceStore
from streamsched.store.catalog.progress import PostgresOpenKeyReader
from streamsched.store.connections import Pool
from streamsched.store.datasets.bookmarks import PostgresBookmarkStore
from streamsched.store.datasets.file_set_commits import PostgresFileSetCommitStore
from streamsched.store.events.event_traces import EventTraces
from streamsched.store.expectations.records import PostgresExpectationReader
from streamsched.store.graph.nodes import PostgresNodeStore
from streamsched.store.jobs.backfills import BackfillStore
from streamsched.store.jobs.descendants import PostgresDescendants
from streamsched.store.jobs.jobs import JobStore
from streamsched.store.jobs.submissions import SubmissionStore
from streamsched.store.limits.clusters import ClusterStore
from streamsched.store.limits.groups import GroupStore
from streamsched.store.limits.pools import PoolStore
from streamsched.store.programs.bundles import PostgresBundleStore
from streamsched.store.programs.profiles import PostgresProfileStore
from streamsched.store.runs.run_commits import PostgresRunCommitStore
from streamsched.store.runs.run_queries import PostgresRunQueries
from streamsched.store.server.gauges import PostgresGauges
from streamsched.store.server.probe import PostgresOutboxRepair
from streamsched.store.tasks.partitions import PostgresTaskPartitions
from streamsched.store.tasks.queues import PostgresQueueStore
from streamsched.store.tasks.registry import PostgresTaskRegistry
from streamsched.store.tasks.streams import PostgresStreamAddresses
from streamsched.store.web.activity_reads import PostgresActivityReads
from streamsched.store.web.link_reads import PostgresLinkReads
from streamsched.store.web.page_reads import PostgresPageReads
from streamsched.store.webhooks.webhooks import PostgresWebhookStore
from streamsched.store.webhooks.work_history import PostgresWorkHistory
from streamsched.telemetry.metrics import Metrics
from streamsched.web.app import PREFIX, make_web
from streamsched.web.live import LiveFeed
from streamsched.web.session import Sessions
from streamsched.web.visit import PageServices


def api_services(services: Services) -> ApiServices:
    """The services of the HTTP application."""
    pool, broker, notifier, layout = services.pool, services.broker, services.notifier, services.layout
    gauges, trails = PostgresGauges(pool), EventTraces(pool, broker)
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
        jobs=JobStore(pool),
        runs=PostgresRunQueries(pool),
        submissions=SubmissionStore(pool),
        **program_services(pool, services.settings),
        backfills=BackfillStore(pool),
        graphs=GraphDesk(PostgresNodeStore(pool), services.clock),
        **task_services(pool),
        **watching_services(pool, services.settings),
        dapr=make_desk(pool, services.clock),
        groups=GroupStore(pool),
        pools=PoolStore(pool),
        clusters=ClusterStore(pool),
        cluster_urls=services.settings.cluster_urls(),
        traces=trails,
        listeners=Listeners(trails, services.clock),
        keys=PostgresOpenKeyReader(pool),
        activity=PostgresActivityReads(pool),
        links=CatalogMap(PostgresLinkReads(pool)),
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


def program_services(pool: Pool, settings: Settings) -> Mapping[str, Any]:
    """These services of the HTTP application (`ApiServices`)."""
    users = ProgramUsers.parse(settings.run_as)
    return {
        "runs_apart": lambda program: bool(users.user_of(program)),
        "preferences": PostgresPreferenceStore(pool),
        "bookmarks": PostgresBookmarkStore(pool),
        "profiles": PostgresProfileStore(pool),
        "bundles": PostgresBundleStore(pool),
        "bundle_limit": settings.bundle_limit,
        "outgoing_networks": settings.networks(),
        "lineage_datasets": settings.datasets_by_location(),
        "end_lineage_run": PostgresLineageEnds(pool).end,
        "file_set_commits": PostgresFileSetCommitStore(pool),
        "descendants": PostgresDescendants(pool),
    }


def task_services(pool: Pool) -> Mapping[str, Any]:
    """The services of the HTTP application that tasks, webhooks and streams have (`ApiServices`)."""
    return {
        "queues": PostgresQueueStore(pool),
        "tasks": PostgresTaskRegistry(pool),
        "task_streams": PostgresStreamAddresses(pool),
        "task_partitions": PostgresTaskPartitions(pool),
        "webhooks": PostgresWebhookStore(pool),
        "decisions": DecisionFeed(PostgresWorkHistory(pool)),
    }


def watching_services(pool: Pool, settings: Settings) -> Mapping[str, Any]:
    """The services of the HTTP application that expectations and recipients have (`ApiServices`)."""
    return {
        "expectations": PostgresExpectationReader(pool),
        "expectation_grants": PostgresExpectationGrants(pool),
        "mail": settings.mail(),
    }


def access_services(pool: Pool, clock: Clock, settings: Settings, process: str, metrics: Metrics) -> dict[str, Any]:
    """The members of `ApiServices` that check requests and record changes. `process`: a name that no other has."""
    tokens, entries, quotas = PostgresTokenStore(pool), PostgresAuditStore(pool), PostgresQuotaStore(pool)
    grants = PostgresNamespaceGrantStore(pool)
    callers, login = open_authentication(pool, clock, settings)
    return {
        "allowed_hosts": allowed_hosts(settings),
        "tokens": tokens,
        "authentication": callers,
        "login": login,
        "audit": NoAudit() if settings.api_access == "open" else StoredAudit(entries, clock),
        "audit_entries": entries,
        "quotas": quotas,
        "quota_watch": QuotaWatch(quotas, clock, process, metrics),
        "references": ReferenceChecks(grants, clock),
        "grants": grants,
        "run_commits": PostgresRunCommitStore(pool),
    }


def make_http(services: ApiServices, pool: Pool, routes: Sequence[BaseRoute] | None = None) -> FastAPI:
    """The API, with the pages at `/ui`. `routes`: those of the API, when they are made already."""
    api = make_api(services, routes)
    reads = PostgresPageReads(pool)
    feed = LiveFeed(reads.version)
    everybody = ANYBODY if isinstance(services.authentication, OpenAuthentication) else None
    rules = services.login.rules if services.login else None
    sessions = Sessions(services.tokens, services.clock, everybody=everybody, rules=rules)
    web = make_web(
        PageServices(
            api=services,
            reads=reads,
            sessions=sessions,
            feed=feed,
        )
    )
    names: RouteTable = api.state.routes
    for route in web.routes:
        if isinstance(route, Route):
            names.add_name(route.endpoint, f"GET {PREFIX}{route.path}")
    api.router.routes.append(Route("/", _to_pages))
    api.mount(PREFIX, web)
    api.state.closing.append(feed.close)
    return api


async def _to_pages(request: Request) -> Response:
    del request
    return RedirectResponse(f"{PREFIX}/")
