"""The bodies and the answers of every route, by the name it has in `api.access.rules`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from streamsched.api.body import LINES
from streamsched.telemetry.metrics import CONTENT_TYPE as METRICS_TYPE

JSON: Final = "application/json"
#: A bundle.
ARCHIVE: Final = "application/x-tar"
EVENTS: Final = "text/event-stream; charset=utf-8"
_PLAIN: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What a route reads and answers.

    Attributes:
        body: the schema of the body by content type; empty: it reads none. Without `required` it may be absent.
        answers: the schema of the answer by status; empty text: it has no body.
        media: content types of the answers, when not JSON.
        conflict: 409 is possible.
        missing: 404 is possible although nothing in the path names a thing: a thing of the query or body, or a topic
            of an installation whose log was not prepared.
    """

    body: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[int, str]
    media: tuple[str, ...] = (JSON,)
    required: bool = True
    conflict: bool = False
    missing: bool = False


def _read(
    schema: str, media: tuple[str, ...] = (JSON,), *, also: int | None = None, missing: bool = False
) -> Operation:
    answers = {200: schema} if also is None else {200: schema, also: schema}
    return Operation(answers=answers, media=media, missing=missing)


def _write(
    body: str, answers: Mapping[int, str], *, required: bool = True, conflict: bool = False, missing: bool = False
) -> Operation:
    return Operation(body={JSON: body}, answers=answers, required=required, conflict=conflict, missing=missing)


def _order(schema: str, status: int = 200, *, body: str = "Reason") -> Operation:
    """A change whose body is optional."""
    return _write(body, {status: schema}, required=False, conflict=True)


_APP, _GRAPH, _DAPR = "/v1/apps/{namespace}/{app}", "/v1/graphs/{namespace}/{app}", "/v1/dapr/{namespace}/{app}"
_SCHEDULE, _PREFERENCES = "/v1/schedules/{schedule}", "/v1/namespaces/{namespace}/preferences"
_PROFILES, _BUNDLES = "/v1/namespaces/{namespace}/spark-profiles", "/v1/namespaces/{namespace}/bundles"
_QUOTAS = "/v1/namespaces/{namespace}/quotas"
_GRANTS = "/v1/namespaces/{namespace}/grants"
_WEBHOOKS = "/v1/namespaces/{namespace}/webhooks"
_COMMITS = "/v1/datasets/{namespace}/{dataset}/commits"
_CDAP = "/v3/namespaces/{namespace}"
_CDAP_APP = f"{_CDAP}/apps/{{app}}"
_CDAP_SCHEDULE, _CDAP_PROGRAM = f"{_CDAP_APP}/schedules/{{schedule}}", f"{_CDAP_APP}/{{category}}/{{program}}"

_EVENTS: Final = {
    "POST /v1/events": Operation(
        body={
            JSON: "AnyEvents",
            "application/cloudevents+json": "CloudEvent",
            "application/cloudevents-batch+json": "CloudEvents",
        },
        answers={202: "AcceptedEvents"},
        missing=True,
    ),
    "GET /v1/events": _read("EventList"),
    "GET /v1/events/{event}/verdicts": _read("EventReport"),
}
_DEFINITIONS: Final = {
    "GET /v1/apps": _read("AppPage"),
    f"GET {_APP}": _read("AppSummary"),
    f"PUT {_APP}": _write("App", {200: "Changes", 202: "PendingChanges"}, conflict=True),
    f"DELETE {_APP}": Operation(answers={200: "Changes"}, conflict=True),
    f"POST {_APP}/pause": _order("Changes", body="PauseRequest"),
    f"POST {_APP}/disable": _order("Changes"),
    f"POST {_APP}/enable": _order("Changes"),
    "GET /v1/bookmarks": _read("BookmarkPage"),
    "GET /v1/bookmarks/{name}": _read("Bookmark"),
    "GET /v1/bookmarks/{name}/cue": _read("Cues"),
    "PUT /v1/bookmarks/{name}": _write("NewBookmark", {200: "Bookmark"}, conflict=True),
    "DELETE /v1/bookmarks/{name}": _read("DeletedBookmark"),
    "GET /v1/changes/{change}": _read("Change"),
    "GET /v1/expectations": _read("ExpectationPage"),
    "GET /v1/expectations/{expectation}": _read("ExplainedExpectation"),
    "GET /v1/programs": _read("ProgramPage"),
    "GET /v1/programs/{program}": _read("StoredProgram"),
    "DELETE /v1/programs/{program}": Operation(answers={200: "ProgramChanges"}, conflict=True),
    f"GET {_PREFERENCES}": _read("Preferences"),
    f"PUT {_PREFERENCES}": _write("NewPreferences", {200: "Preferences"}),
    f"PATCH {_PREFERENCES}": _write("ChangedPreferences", {200: "Preferences"}),
    f"DELETE {_PREFERENCES}": _read("Preferences"),
    "GET /v1/schedules": _read("SchedulePage"),
    "POST /v1/schedules": _write("NewSchedule", {201: "StoredSchedule"}, conflict=True, missing=True),
    f"GET {_SCHEDULE}": _read("StoredSchedule"),
    f"PUT {_SCHEDULE}": _write("ChangedSchedule", {200: "StoredSchedule"}, conflict=True),
    f"DELETE {_SCHEDULE}": Operation(answers={204: "", 200: "Plan"}, conflict=True),
    f"GET {_SCHEDULE}/keys": _read("KeyPage"),
    f"GET {_SCHEDULE}/history": _read("History"),
    f"GET {_SCHEDULE}/versions": _read("ScheduleVersions"),
    f"GET {_SCHEDULE}/why-not": _read("WhyNot"),
    f"POST {_SCHEDULE}/enable": _order("StoredSchedule"),
    f"POST {_SCHEDULE}/disable": _order("SuspendedSchedule"),
    f"POST {_SCHEDULE}/pause": _order("SuspendedSchedule", body="PauseRequest"),
    f"POST {_SCHEDULE}/replay": Operation(answers={202: "StoredSchedule"}, conflict=True),
    f"GET {_SCHEDULE}/next": _read("ScheduleForecast"),
    f"GET {_PROFILES}": _read("SparkProfileList"),
    f"GET {_PROFILES}/{{profile}}": _read("SparkProfile"),
    f"PUT {_PROFILES}/{{profile}}": _write("NewSparkProfile", {200: "SparkProfile"}),
    f"DELETE {_PROFILES}/{{profile}}": Operation(answers={200: "SparkProfile"}, conflict=True),
    f"GET {_BUNDLES}": _read("BundleList"),
    f"PUT {_BUNDLES}/{{digest}}": Operation(body={ARCHIVE: "Archive"}, answers={200: "StoredBundle"}),
    f"POST {_BUNDLES}/{{digest}}/use": Operation(answers={200: "BundleUse"}),
    f"GET {_GRANTS}": _read("NamespaceGrantPage"),
    f"PUT {_GRANTS}": _write("NewNamespaceGrant", {200: "DecidedNamespaceGrant"}, conflict=True),
    f"DELETE {_GRANTS}": _read("DecidedNamespaceGrant", missing=True),
    "GET /v1/datasets": _read("DatasetPage"),
    "GET /v1/datasets/{namespace}/{dataset}": _read("Dataset", missing=True),
    f"GET {_COMMITS}": _read("FileSetCommitPage"),
    f"POST {_COMMITS}": _write("NewFileSetCommit", {200: "FileSetCommit"}, conflict=True),
    "POST /v1/datasets/{namespace}/{dataset}/fences": _write("Fence", {200: "FencedAttempts"}, conflict=True),
    f"DELETE {_COMMITS}": _read("ForgottenCommits"),
    "GET /v1/ticks": _read("TickList"),
    "POST /v1/triggers/next": _write("Trigger", {200: "Forecast"}),
}
_EXECUTIONS: Final = {
    "POST /v1/programs/{program}/runs": _order("SubmittedOrStarted", 202, body="ProgramSubmission"),
    f"POST {_SCHEDULE}/runs": _order("Submitted", 202, body="ScheduleSubmission"),
    f"POST {_SCHEDULE}/reruns": _write(
        "BulkRerun", {200: "FailedJobs", 202: "SubmittedJobs"}, required=False, conflict=True
    ),
    "POST /v1/jobs/{job}/rerun": _order("Submitted", 202, body="Rerun"),
    "POST /v1/runs/{run}/rerun": _order("Submitted", 202, body="Rerun"),
    f"POST {_SCHEDULE}/backfills": _write("NewBackfill", {200: "BackfillPlan", 202: "StartedBackfill"}, conflict=True),
    f"GET {_SCHEDULE}/backfills": _read("BackfillPage"),
    "GET /v1/backfills": _read("BackfillPage"),
    "GET /v1/backfills/{backfill}": _read("Backfill"),
    "GET /v1/backfills/{backfill}/jobs": _read("BackfillJobPage"),
    "POST /v1/backfills/{backfill}/pause": _order("Backfill", 202),
    "POST /v1/backfills/{backfill}/resume": _order("Backfill", 202),
    "POST /v1/backfills/{backfill}/cancel": _order("Backfill", 202),
    "GET /v1/jobs": _read("JobPage"),
    "GET /v1/jobs/{job}": _read("Job"),
    "GET /v1/jobs/{job}/why": _read("Why"),
    "POST /v1/jobs/{job}/release": _order("Job", 202),
    "POST /v1/jobs/{job}/force": _order("Job", 202),
    "POST /v1/jobs/{job}/cancel": _order("Job", 202),
    "POST /v1/jobs/{job}/hold": _order("Job", 202),
    "GET /v1/runs": _read("RunPage"),
    "GET /v1/runs/{run}": _read("ExplainedRun"),
    "GET /v1/runs/{run}/logs": _read("AnyText", (_PLAIN,)),
    "POST /v1/runs/{run}/kill": _order("Run", 202, body="Kill"),
    f"GET {_GRAPH}": _read("Graph"),
    f"GET {_GRAPH}/nodes": _read("NodeList"),
    f"GET {_GRAPH}/nodes/{{task}}/{{job_id}}": _read("Node"),
    f"GET {_GRAPH}/picture": _read("Picture", (JSON, "image/svg+xml", "text/vnd.graphviz; charset=utf-8", _PLAIN)),
    f"POST {_GRAPH}/submit": _write("NodeSubmission", {202: "NodePlan", 200: "NodePlan"}, conflict=True),
    f"POST {_GRAPH}/rerun": _write("NodeRerun", {202: "NodePlan", 200: "NodePlan"}, conflict=True),
    f"POST {_GRAPH}/cancel": _write("NodeCancellation", {202: "CancelledNodes"}, conflict=True),
}
_LIMITS: Final = {
    "GET /v1/groups": _read("GroupPage"),
    "PUT /v1/groups/{name}": _write("GroupLimit", {200: "Group"}),
    "PUT /v1/groups/{name}/owner": _write("NewOwner", {200: "SharedName"}),
    "GET /v1/pools": _read("PoolPage"),
    "GET /v1/pools/{name}": _read("Pool"),
    "PUT /v1/pools/{name}": _write("PoolSize", {200: "Pool"}),
    "PUT /v1/pools/{name}/owner": _write("NewOwner", {200: "SharedName"}),
    "GET /v1/quotas": _read("QuotaPage"),
    f"GET {_QUOTAS}": _read("NamespaceQuotas"),
    f"PUT {_QUOTAS}/{{quota}}": _write("NewQuota", {200: "Quota"}),
    f"DELETE {_QUOTAS}/{{quota}}": _read("Quota"),
    "PUT /v1/schedules/{name}/priority": _write("NewPriority", {200: "Priority"}, conflict=True),
    "GET /v1/clusters": _read("ClusterPage"),
}
_TASKS: Final = {
    "GET /v1/decisions": Operation(answers={200: "DecisionStream"}, media=(EVENTS,), conflict=True),
    f"GET {_WEBHOOKS}": _read("WebhookPage"),
    f"POST {_WEBHOOKS}": _write("NewWebhook", {201: "CreatedWebhook"}, conflict=True),
    f"GET {_WEBHOOKS}/{{webhook}}": _read("Webhook"),
    f"PATCH {_WEBHOOKS}/{{webhook}}": _write("ChangedWebhook", {200: "CreatedWebhook"}, conflict=True),
    f"DELETE {_WEBHOOKS}/{{webhook}}": _read("Webhook"),
    f"POST {_WEBHOOKS}/{{webhook}}/enable": _order("Webhook"),
    f"POST {_WEBHOOKS}/{{webhook}}/disable": _order("Webhook"),
    f"POST {_WEBHOOKS}/{{webhook}}/test": _order("WebhookTest"),
    "GET /v1/queues": _read("QueuePage"),
    "GET /v1/queues/{queue}": _read("Queue"),
    "PUT /v1/queues/{queue}": _write("QueuePolicy", {200: "Queue"}, conflict=True),
    "GET /v1/queues/{queue}/lane": _read("Lane"),
    "POST /v1/queues/{queue}/tasks": _write("NewTasks", {202: "RegisteredTasks"}, conflict=True),
    "GET /v1/queues/{queue}/tasks": _read("QueuedTaskPage"),
    "POST /v1/queues/{queue}/pause": _order("Queue"),
    "POST /v1/queues/{queue}/resume": _order("Queue"),
    "GET /v1/tasks/owners": _read("TaskOwners"),
    "GET /v1/tasks/partitions": _read("LanePartitions"),
    "PUT /v1/tasks/partitions": _write("NewLanePartitions", {202: "LanePartitions"}, conflict=True),
    "GET /v1/tasks/{task}": _read("TaskWithEnds"),
    "GET /v1/tasks/{task}/why": _read("ExplainedTask"),
    "POST /v1/tasks/{task}/cancel": _order("QueuedTask"),
    "POST /v1/tasks/{task}/drop": _order("QueuedTask"),
    "POST /v1/tasks/{task}/run": _order("QueuedTask"),
    "POST /v1/tasks/{task}/move": _write("NewDue", {200: "QueuedTask"}, conflict=True),
}
_DIALECTS: Final = {
    "GET /api/v1/status": _read("PagerdutyStatus"),
    "GET /api/v1/task": _read("PagerdutyTask", missing=True),
    "PUT /api/v1/task": _write("PagerdutyDrop", {204: ""}, conflict=True, missing=True),
    "GET /api/v1/tasks": _read("PagerdutyTasks", missing=True),
    "POST /api/v1/tasks": _write("PagerdutyNewTasks", {202: "PagerdutyRegistered"}, conflict=True, missing=True),
    "POST /api/v1/lineage": _write("LineageEvent", {201: "AcceptedLineage"}),
    f"GET {_DAPR}/jobs": _read("DaprJobs"),
    f"DELETE {_DAPR}/jobs": _read("DaprDeleted"),
    f"GET {_DAPR}/export": _read("AnyText", (LINES,)),
    f"POST {_DAPR}/import": Operation(body={LINES: "AnyText"}, answers={200: "DaprImported"}, conflict=True),
    f"GET {_DAPR}/jobs/{{name}}/next": _read("DaprFires"),
    f"GET {_DAPR}/jobs/{{name}}": _read("DaprJob"),
    f"POST {_DAPR}/jobs/{{name}}": _write("DaprJob", {201: "DaprJob"}, conflict=True),
    f"DELETE {_DAPR}/jobs/{{name}}": Operation(answers={204: ""}),
    f"GET {_CDAP}/apps": _read("CdapApps"),
    f"GET {_CDAP_APP}": _read("CdapApp"),
    f"DELETE {_CDAP_APP}": Operation(answers={200: ""}),
    f"GET {_CDAP_APP}/schedules": _read("CdapSchedules"),
    f"PUT {_CDAP_SCHEDULE}": _write("CdapSchedule", {200: ""}, conflict=True),
    f"GET {_CDAP_SCHEDULE}": _read("CdapSchedule"),
    f"DELETE {_CDAP_SCHEDULE}": Operation(answers={200: ""}),
    f"GET {_CDAP_SCHEDULE}/status": _read("CdapStatus"),
    f"POST {_CDAP_SCHEDULE}/update": _write("CdapSchedule", {200: ""}, conflict=True),
    f"POST {_CDAP_SCHEDULE}/{{action}}": Operation(answers={200: "CdapDone"}, conflict=True),
    f"GET {_CDAP_PROGRAM}/nextruntime": _read("CdapTicks"),
    f"GET {_CDAP_PROGRAM}/previousruntime": _read("CdapTicks"),
    f"GET {_CDAP_PROGRAM}/schedules": _read("CdapSchedules"),
    f"POST {_CDAP}/nextruntime": _write("CdapPrograms", {200: "CdapTicksOfPrograms"}),
    f"POST {_CDAP}/previousruntime": _write("CdapPrograms", {200: "CdapTicksOfPrograms"}),
    f"GET {_CDAP}/preferences": _read("CdapPreferences"),
    f"PUT {_CDAP}/preferences": _write("CdapPreferences", {200: ""}),
    f"DELETE {_CDAP}/preferences": Operation(answers={200: ""}),
    f"GET {_CDAP}/schedules/trigger-type/program-status": _read("CdapSchedules"),
}
_INSTALLATION: Final = {
    "GET /v1/admin/overview": _read("Overview", missing=True),
    "GET /v1/admin/checks": _read("Checks"),
    "GET /v1/admin/clock": _read("Clock"),
    "POST /v1/admin/clock/confirm": _write("SeenJudgement", {200: "Clock"}, conflict=True),
    "GET /v1/admin/dead-letters": _read("DeadLetterPage", missing=True),
    "POST /v1/admin/dead-letters/purge": _read("Purged", missing=True),
    "GET /v1/admin/dead-letters/{partition}/{offset}": _read("DeadLetter"),
    "POST /v1/admin/dead-letters/{partition}/{offset}/replay": Operation(answers={202: "Replayed"}, conflict=True),
    "GET /v1/admin/schedules/{schedule}/state": _read("ShardState"),
    "GET /v1/caller": _read("Caller"),
    "GET /v1/tokens": _read("TokenPage"),
    "POST /v1/tokens": _write("NewToken", {201: "CreatedToken"}, conflict=True),
    "POST /v1/tokens/{token}/revoke": _order("Token"),
    "GET /v1/audit": _read("AuditPage"),
    "GET /v1/audit/verify": _read("AuditVerdict"),
    "GET /metrics": _read("AnyText", (METRICS_TYPE,), missing=True),
    "GET /health/live": _read("Health", also=503),
    "GET /health/ready": _read("Health", also=503),
}

OPERATIONS: Final[Mapping[str, Operation]] = {
    **_EVENTS,
    **_DEFINITIONS,
    **_EXECUTIONS,
    **_LIMITS,
    **_TASKS,
    **_DIALECTS,
    **_INSTALLATION,
}
#: Single things with an entity tag: GET may answer 304, PUT and DELETE 412.
TAGGED: Final = frozenset({_APP, _SCHEDULE, f"{_PROFILES}/{{profile}}", "/v1/pools/{name}", f"{_QUOTAS}/{{quota}}"})
#: Routes that answer 429 when a namespace has sent as many events as its quota allows.
RATED: Final = frozenset({"POST /v1/events", "POST /api/v1/lineage"})
#: Routes whose `dry_run` answers with a plan.
PLANNED: Final = frozenset(
    {
        f"PUT {_APP}",
        f"DELETE {_APP}",
        f"POST {_APP}/pause",
        f"POST {_APP}/disable",
        "DELETE /v1/programs/{program}",
        f"PUT {_SCHEDULE}",
        f"POST {_SCHEDULE}/disable",
        f"POST {_SCHEDULE}/pause",
    }
)
