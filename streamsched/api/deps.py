"""Dependencies and query parameters that routes share. They read the `ApiServices` of the application."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any

from starlette.requests import Request

from streamsched.access.auditing import Audit
from streamsched.access.authentication import Authentication
from streamsched.access.emit_spans import EmitSpans
from streamsched.access.event_intake import EventIntake
from streamsched.access.namespace_grants import GrantDesk
from streamsched.access.quota_watch import QuotaWatch
from streamsched.access.references import ReferenceChecks
from streamsched.admin.installation import Installation
from streamsched.api.allowed_hosts import AllowedHosts
from streamsched.api.health import Health
from streamsched.api.reads.catalog_map import CatalogMap
from streamsched.api.reads.log_tail import LogSearch
from streamsched.api.routing.calls import Depends
from streamsched.api.routing.parameters import Query
from streamsched.api.streams.decision_feed import DecisionFeed
from streamsched.catalog.catalog import Catalog
from streamsched.catalog.listeners import Listeners
from streamsched.catalog.replaying import ScheduleReplay
from streamsched.config import Settings
from streamsched.domain.names import check_namespace
from streamsched.graph.submission import GraphDesk
from streamsched.ports.broker import Broker
from streamsched.ports.clock import Clock
from streamsched.store.access.quotas import QuotaStore
from streamsched.store.access.tokens import TokenStore
from streamsched.store.audit import AuditStore
from streamsched.store.catalog.app_expectations import ExpectationGrants
from streamsched.store.catalog.namespace_grants import NamespaceGrantStore
from streamsched.store.catalog.preferences import PreferenceStore
from streamsched.store.catalog.progress import OpenKeyReader
from streamsched.store.datasets.bookmarks import BookmarkStore
from streamsched.store.datasets.file_set_commits import FileSetCommitStore
from streamsched.store.events.event_traces import EventTraces
from streamsched.store.expectations.records import ExpectationReader
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
from streamsched.store.tasks.partitions import TaskPartitions
from streamsched.store.tasks.queues import QueueStore
from streamsched.store.tasks.registry import TaskRegistry
from streamsched.store.tasks.streams import StreamAddresses
from streamsched.store.web.activity_reads import ActivityReads
from streamsched.store.webhooks.webhooks import WebhookStore
from streamsched.telemetry.metrics import Metrics

if TYPE_CHECKING:  # cryptography, only when it is used
    from streamsched.access.code_flow import CodeFlow


@dataclass(frozen=True, slots=True, kw_only=True)
class EventServices:
    """Events in the log.

    Attributes:
        partitions: number of partitions of each public topic.
        search: of the newest records.
        traces: verdicts of events.
        listeners: which event keys have a listening schedule.
        emit_spans: makes spans of accepted events; None when no spans are made.
    """

    broker: Broker
    partitions: int
    search: LogSearch
    traces: EventTraces
    listeners: Listeners
    emit_spans: EmitSpans | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleServices:
    """What schedules wait for, beside the catalog."""

    replaying: ScheduleReplay
    keys: OpenKeyReader
    descendants: DescendantReader
    expectations: ExpectationReader
    expectation_grants: ExpectationGrants


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkServices:
    """Jobs and runs."""

    jobs: JobStore
    runs: RunQueries
    submissions: SubmissionStore
    backfills: BackfillStore
    graphs: GraphDesk
    activity: ActivityReads
    run_commits: RunCommitStore


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetServices:
    """Datasets and their readers.

    Attributes:
        links: which schedules wait for which datasets, streams, events and programs.
    """

    bookmarks: BookmarkStore
    commits: FileSetCommitStore
    links: CatalogMap


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramServices:
    """What runs of programs are given."""

    profiles: ProfileStore
    bundles: BundleStore
    preferences: PreferenceStore


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskServices:
    """Tasks and their queues."""

    queues: QueueStore
    registry: TaskRegistry
    streams: StreamAddresses
    partitions: TaskPartitions


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookServices:
    """Who is sent the changes of jobs and runs."""

    store: WebhookStore
    decisions: DecisionFeed


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitServices:
    """What runs and requests share.

    Attributes:
        quota_watch: checks requests against the quotas of their namespaces.
    """

    groups: GroupStore
    pools: PoolStore
    clusters: ClusterStore
    quotas: QuotaStore
    quota_watch: QuotaWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessServices:
    """Who may do what.

    Attributes:
        allowed_hosts: accepted values of the Host header.
        authentication: finds out who sends a request.
        login: how people log in to the pages at the OpenID provider; None: not at all.
        audit: records who requests which change.
        references: checks what definitions refer to in other namespaces.
        grants: what owners of namespaces decide about that.
    """

    allowed_hosts: AllowedHosts
    authentication: Authentication
    login: CodeFlow | None
    tokens: TokenStore
    audit: Audit
    audit_entries: AuditStore
    references: ReferenceChecks
    grants: NamespaceGrantStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServices:
    """The services that the routes use.

    Attributes:
        installation: parts of the installation for administration. The API never reshards, so its log stays in one
            generation.
        health: health checks and metrics of the process.
        dialects: what routes of dialects use, by their names (`dialect_service`).
    """

    settings: Settings
    clock: Clock
    health: Health
    installation: Installation
    catalog: Catalog
    events: EventServices
    schedules: ScheduleServices
    work: WorkServices
    datasets: DatasetServices
    programs: ProgramServices
    tasks: TaskServices
    webhooks: WebhookServices
    limits: LimitServices
    access: AccessServices
    dialects: Mapping[str, Any]

    @property
    def intake(self) -> EventIntake:
        """The way in for events."""
        events, commits = self.events, self.work.run_commits
        watch = self.limits.quota_watch
        return EventIntake(
            events.broker, events.partitions, watch, self.clock, self.metrics, commits, events.emit_spans
        )

    @property
    def grant_desk(self) -> GrantDesk:
        return GrantDesk(self.access.grants, self.catalog, self.schedules.expectation_grants, self.clock)

    @property
    def metrics(self) -> Metrics:
        return self.health.metrics


async def _services(request: Request) -> ApiServices:
    services: ApiServices = request.app.state.services
    return services


def _service(path: str) -> Any:
    of_services = attrgetter(path)

    async def service(request: Request) -> Any:
        return of_services(request.app.state.services)

    return Depends(service)


def dialect_service(name: str) -> Any:
    """What a dialect has made for its routes."""

    async def service(request: Request) -> Any:
        return request.app.state.services.dialects[name]

    return Depends(service)


async def _catalog(request: Request) -> Catalog:
    """The catalog in the name of the caller."""
    catalog: Catalog = request.app.state.services.catalog
    return catalog.with_caller(request.state.caller.name)


ServicesDep = Annotated[ApiServices, Depends(_services)]
CatalogDep = Annotated[Catalog, Depends(_catalog)]
JobsDep = Annotated[JobStore, _service("work.jobs")]
InstallationDep = Annotated[Installation, _service("installation")]
RunsDep = Annotated[RunQueries, _service("work.runs")]
SubmissionsDep = Annotated[SubmissionStore, _service("work.submissions")]
PreferencesDep = Annotated[PreferenceStore, _service("programs.preferences")]
ProfilesDep = Annotated[ProfileStore, _service("programs.profiles")]
BundlesDep = Annotated[BundleStore, _service("programs.bundles")]
BookmarksDep = Annotated[BookmarkStore, _service("datasets.bookmarks")]
FileSetCommitsDep = Annotated[FileSetCommitStore, _service("datasets.commits")]
BackfillsDep = Annotated[BackfillStore, _service("work.backfills")]
GraphsDep = Annotated[GraphDesk, _service("work.graphs")]
QueuesDep = Annotated[QueueStore, _service("tasks.queues")]
TasksDep = Annotated[TaskRegistry, _service("tasks.registry")]
TaskStreamsDep = Annotated[StreamAddresses, _service("tasks.streams")]
TaskPartitionsDep = Annotated[TaskPartitions, _service("tasks.partitions")]
WebhooksDep = Annotated[WebhookStore, _service("webhooks.store")]
GroupsDep = Annotated[GroupStore, _service("limits.groups")]
PoolsDep = Annotated[PoolStore, _service("limits.pools")]
GrantDeskDep = Annotated[GrantDesk, _service("grant_desk")]
TokensDep = Annotated[TokenStore, _service("access.tokens")]
QuotasDep = Annotated[QuotaStore, _service("limits.quotas")]
AuditDep = Annotated[AuditStore, _service("access.audit_entries")]
ExpectationsDep = Annotated[ExpectationReader, _service("schedules.expectations")]
ClockDep = Annotated[Clock, _service("clock")]


async def _named_namespace(namespace: str) -> str:
    """The namespace of the path.

    Raises:
        InvalidError: it is no name of a namespace.
    """
    check_namespace(namespace)
    return namespace


NamespaceDep = Annotated[str, Depends(_named_namespace)]

DryRunQuery = Annotated[bool, Query(description="Return the plan of the change and change nothing.")]
PlanQuery = Annotated[
    str | None,
    Query(
        max_length=100,
        description="`plan` of a dry run. 409 with `kind` `plan` when the change would now differ from that plan.",
    ),
]
KeepQuery = Annotated[
    bool | None,
    Query(
        description="Whether changed schedules keep the accumulated events and waiting jobs that still fit. Default: "
        "`onChange` of each schedule; a change that does not touch what counts keeps."
    ),
]


async def _listed_namespace(
    request: Request,
    namespace: Annotated[
        str | None,
        Query(description="Only items of this namespace. Default: all, or the only one in which the caller may view."),
    ] = None,
) -> str | None:
    """The namespace to which a list is restricted: the one of the request, or of `authorise`; None: all."""
    return namespace if namespace is not None else getattr(request.state, "only_namespace", None)


NamespaceQuery = Annotated[str | None, Depends(_listed_namespace)]
AppQuery = Annotated[str | None, Query(description="Only items of this app, `namespace.app`.")]
