"""Dependencies and query parameters that routes share. They read the `ApiServices` of the application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import Depends, Query, Request

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
from streamsched.api.streams.decision_feed import DecisionFeed
from streamsched.catalog.catalog import Catalog
from streamsched.catalog.listeners import Listeners
from streamsched.catalog.replaying import ScheduleReplay
from streamsched.dapr.desk import DaprDesk
from streamsched.domain.addresses import Network
from streamsched.domain.events.event import Outcome
from streamsched.domain.names import DatasetRef, ProgramRef
from streamsched.domain.notices.mail_server import MailSettings
from streamsched.graph.submission import GraphDesk
from streamsched.ports.access.audit import AuditStore
from streamsched.ports.access.login import ProviderLogin
from streamsched.ports.access.namespace_grants import NamespaceGrantStore
from streamsched.ports.access.quotas import QuotaStore
from streamsched.ports.access.tokens import TokenStore
from streamsched.ports.broker import Broker
from streamsched.ports.clock import Clock
from streamsched.ports.datasets.bookmarks import BookmarkStore
from streamsched.ports.datasets.commits import FileSetCommitStore
from streamsched.ports.intake import OpenKeyReader
from streamsched.ports.programs.bundles import BundleStore
from streamsched.ports.programs.profiles import ProfileStore
from streamsched.ports.programs.run_commits import RunCommitStore
from streamsched.ports.runs import RunQueries
from streamsched.ports.schedules.descendants import DescendantReader
from streamsched.ports.schedules.expectations import ExpectationGrants, ExpectationReader
from streamsched.ports.submissions import PreferenceStore
from streamsched.ports.tasks.delivery import StreamAddresses
from streamsched.ports.tasks.partitions import TaskPartitions
from streamsched.ports.tasks.queues import QueueStore
from streamsched.ports.tasks.registry import TaskRegistry
from streamsched.ports.web.activity_reads import ActivityReads
from streamsched.ports.webhooks.webhooks import WebhookStore
from streamsched.store.events.event_traces import EventTraces
from streamsched.store.jobs.backfills import BackfillStore
from streamsched.store.jobs.jobs import JobStore
from streamsched.store.jobs.submissions import SubmissionStore
from streamsched.store.limits.clusters import ClusterStore
from streamsched.store.limits.groups import GroupStore
from streamsched.store.limits.pools import PoolStore
from streamsched.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServices:
    """The services that the routes use.

    Attributes:
        traces: verdicts of events.
        listeners: which event keys have a listening schedule.
        links: which schedules wait for which datasets, streams, events and programs.
        verdicts_keep: how long verdicts are stored; zero when they are not stored.
        shards: number of partitions of each public topic.
        body_limit: largest request body in bytes.
        installation: parts of the installation for administration. The API never reshards, so its log stays in one
            generation.
        health: health checks and metrics of the process.
        authentication: finds out who sends a request.
        login: how people log in to the pages at the OpenID provider; None: not at all.
        audit: records who requests which change.
        references: checks what definitions refer to in other namespaces.
        grants: what owners of namespaces decide about that.
        quota_watch: checks requests against the quotas of their namespaces.
        allowed_hosts: accepted values of the Host header.
        cluster_urls: probe URL of each cluster, by cluster name.
        update_schedules: whether a deployment that does not say so updates schedules that exist.
        bundle_limit: largest bundle in bytes.
        lineage_datasets: dataset of each location that OpenLineage names, by `codec.openlineage.run_event.LineageName`.
        end_lineage_run: stores how a run of OpenLineage ended, unless an end is known; returns the first one.
        emit_spans: makes spans of accepted events; None when no spans are made.
        outgoing_networks: beside public addresses, where definitions may send to.
        mail: how mail is sent; None: not at all.
        runs_apart: whether a program runs as an OS user that is not the launcher's.
        installation_name: location of the database without credentials; identifies the installation in plans.
    """

    broker: Broker
    catalog: Catalog
    replaying: ScheduleReplay
    jobs: JobStore
    runs: RunQueries
    submissions: SubmissionStore
    preferences: PreferenceStore
    bookmarks: BookmarkStore
    profiles: ProfileStore
    bundles: BundleStore
    file_set_commits: FileSetCommitStore
    backfills: BackfillStore
    graphs: GraphDesk
    queues: QueueStore
    tasks: TaskRegistry
    task_streams: StreamAddresses
    task_partitions: TaskPartitions
    webhooks: WebhookStore
    decisions: DecisionFeed
    dapr: DaprDesk
    groups: GroupStore
    pools: PoolStore
    clusters: ClusterStore
    cluster_urls: Mapping[str, str]
    traces: EventTraces
    listeners: Listeners
    keys: OpenKeyReader
    activity: ActivityReads
    links: CatalogMap
    descendants: DescendantReader
    clock: Clock
    verdicts_keep: timedelta
    shards: int
    body_limit: int
    health: Health
    installation: Installation
    allowed_hosts: AllowedHosts
    authentication: Authentication
    tokens: TokenStore
    audit: Audit
    audit_entries: AuditStore
    quotas: QuotaStore
    quota_watch: QuotaWatch
    references: ReferenceChecks
    grants: NamespaceGrantStore
    run_commits: RunCommitStore
    lineage_datasets: Mapping[str, DatasetRef]
    end_lineage_run: Callable[[ProgramRef, str, Outcome, datetime], Awaitable[Outcome]]
    expectations: ExpectationReader
    expectation_grants: ExpectationGrants
    mail: MailSettings | None = None
    outgoing_networks: Sequence[Network] = ()
    runs_apart: Callable[[ProgramRef], bool] = field(default=lambda _: False)
    installation_name: str = ""
    login: ProviderLogin | None = None
    emit_spans: EmitSpans | None = None
    bundle_limit: int = 64 * 1024 * 1024
    update_schedules: bool = True

    @property
    def intake(self) -> EventIntake:
        """The way in for events."""
        return EventIntake(
            self.broker, self.shards, self.quota_watch, self.clock, self.metrics, self.run_commits, self.emit_spans
        )

    @property
    def grant_desk(self) -> GrantDesk:
        return GrantDesk(self.grants, self.catalog, self.expectation_grants, self.clock)

    @property
    def metrics(self) -> Metrics:
        return self.health.metrics


# All of these are coroutines: FastAPI calls other dependencies in a thread, which costs more than they do.


async def _services(request: Request) -> ApiServices:
    services: ApiServices = request.app.state.services
    return services


def _service(name: str) -> Any:
    async def service(request: Request) -> Any:
        return getattr(request.app.state.services, name)

    return Depends(service)


async def _catalog(request: Request) -> Catalog:
    """The catalog in the name of the caller."""
    catalog: Catalog = request.app.state.services.catalog
    return catalog.requested_by(request.state.caller.name)


ServicesDep = Annotated[ApiServices, Depends(_services)]
CatalogDep = Annotated[Catalog, Depends(_catalog)]
JobsDep = Annotated[JobStore, _service("jobs")]
InstallationDep = Annotated[Installation, _service("installation")]
RunsDep = Annotated[RunQueries, _service("runs")]
SubmissionsDep = Annotated[SubmissionStore, _service("submissions")]
PreferencesDep = Annotated[PreferenceStore, _service("preferences")]
ProfilesDep = Annotated[ProfileStore, _service("profiles")]
BundlesDep = Annotated[BundleStore, _service("bundles")]
BookmarksDep = Annotated[BookmarkStore, _service("bookmarks")]
FileSetCommitsDep = Annotated[FileSetCommitStore, _service("file_set_commits")]
BackfillsDep = Annotated[BackfillStore, _service("backfills")]
GraphsDep = Annotated[GraphDesk, _service("graphs")]
QueuesDep = Annotated[QueueStore, _service("queues")]
TasksDep = Annotated[TaskRegistry, _service("tasks")]
TaskStreamsDep = Annotated[StreamAddresses, _service("task_streams")]
TaskPartitionsDep = Annotated[TaskPartitions, _service("task_partitions")]
WebhooksDep = Annotated[WebhookStore, _service("webhooks")]
DaprDep = Annotated[DaprDesk, _service("dapr")]
GroupsDep = Annotated[GroupStore, _service("groups")]
PoolsDep = Annotated[PoolStore, _service("pools")]
GrantDeskDep = Annotated[GrantDesk, _service("grant_desk")]
TokensDep = Annotated[TokenStore, _service("tokens")]
QuotasDep = Annotated[QuotaStore, _service("quotas")]
AuditDep = Annotated[AuditStore, _service("audit_entries")]
ExpectationsDep = Annotated[ExpectationReader, _service("expectations")]
ClockDep = Annotated[Clock, _service("clock")]

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
