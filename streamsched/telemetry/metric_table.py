"""All metrics in one table: name, kind, labels, what is measured, and the question that it answers.

The page `docs/reference/metrics.md` is made from it; alerts and the board in `compose/` may use nothing else.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

PREFIX: Final = "streamsched_"


class MetricKind(StrEnum):
    """The types of Prometheus that are used. A counter only grows, from 0 at the start of the process."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """A row of the table. The unit is the last word of the name, `seconds` or `bytes`; otherwise it is a count.

    Attributes:
        help: what is measured.
        question: of an operator, which it answers.
    """

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    help: str
    question: str
    buckets: tuple[float, ...] = ()


_C: Final = MetricKind.COUNTER
_G: Final = MetricKind.GAUGE
_H: Final = MetricKind.HISTOGRAM
_LATE: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3600.0, 86_400.0)
_FAST: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_EVENTS: Final = (
    Metric(
        "events_accepted_total",
        _C,
        ("topic", "dialect"),
        "Events of emitters, of the pages and of spools that the log has acknowledged",
        "Do events come in, and from which clients?",
    ),
    Metric(
        "spool_lines_refused_total",
        _C,
        (),
        "Lines of spools of this host's runs that were refused, and left beside the spool",
        "Does a program write what it may not announce?",
    ),
    Metric(
        "events_rejected_total",
        _C,
        ("dialect",),
        "Events refused by the HTTP intake",
        "Does a client send what cannot be read?",
    ),
    Metric(
        "verdicts",
        _G,
        ("verdict", "late"),
        "Events by verdict; late: the lateness policy applied",
        "What became of events: counted, duplicate, late, refused?",
    ),
    Metric(
        "event_to_job_seconds",
        _H,
        (),
        "Seconds from the record that satisfied a schedule to its job in PostgreSQL",
        "How long after the last event is there a job?",
        _LATE,
    ),
)
_HTTP: Final = (
    Metric("http_requests_total", _C, ("method", "route", "status"), "Requests answered", "Does the API fail?"),
    Metric("decision_clients", _G, (), "Clients that follow decisions", "Do programs follow the decisions about jobs?"),
    Metric(
        "http_requests_refused_total",
        _C,
        ("status",),
        "Requests refused for their host, origin or type",
        "Is a proxy or a client set up wrongly, or is someone trying?",
    ),
    Metric(
        "http_request_seconds",
        _H,
        ("method", "route"),
        "Duration of a request in seconds",
        "Is the API slow, and where?",
        _FAST,
    ),
)
_JOBS: Final = (
    Metric(
        "jobs_waiting",
        _G,
        ("state",),
        "Jobs that wait on constraints or for their launch",
        "How much work waits?",
    ),
    Metric(
        "jobs_held",
        _G,
        ("by",),
        "Waiting jobs by the type of the constraint that did not let them start, up to 10,000 jobs; a job may count "
        "several times; other: of no constraint of its schedule",
        "Why do jobs wait?",
    ),
    Metric(
        "jobs_ended_lately",
        _G,
        ("state",),
        "Jobs that ended without a run in the last 5 minutes",
        "Are jobs aborted, timed out, or not launched at all?",
    ),
    Metric("runs_active", _G, ("state",), "Runs that have not ended", "What runs now?"),
    Metric(
        "runs_ended_lately",
        _G,
        ("program", "state"),
        "Runs that ended in the last 5 minutes, of the 200 programs with most of them",
        "Which programs fail?",
    ),
    Metric("schedules", _G, ("enabled",), "Schedules that exist", "How large is this installation?"),
)
_SHARDS: Final = (
    Metric("shards", _G, (), "Shards of the installation", "How many shards must have an owner?"),
    Metric("shards_leased", _G, (), "Shards whose lease is held by a live worker", "Has every shard an owner?"),
    Metric(
        "shard_lag_records",
        _G,
        ("shard",),
        "Records between the last reported position of a shard and the end of its partitions",
        "Do the workers keep up with the events?",
    ),
    Metric(
        "shard_consuming",
        _G,
        ("shard",),
        "1: the shard processes records, 0: it is starting or pausing",
        "Does each shard of this worker work?",
    ),
    Metric(
        "shard_turns",
        _G,
        ("shard",),
        "Turns committed since this worker took the shard",
        "Does it make progress?",
    ),
    Metric(
        "shard_records",
        _G,
        ("shard",),
        "Records processed since this worker took the shard",
        "How much does it do?",
    ),
    Metric("shard_rows", _G, ("shard",), "Rows in the shard's tables", "Does the state grow?"),
    Metric(
        "shard_schedules_in_error",
        _G,
        ("shard",),
        "Schedules in error",
        "Has a schedule stopped for a fault in its evaluation?",
    ),
    Metric(
        "shard_keys_lost",
        _G,
        ("shard",),
        "Correlation keys that ended incomplete since the shard started",
        "Do keys expire or fall out before they are complete?",
    ),
    Metric(
        "shard_events_refused",
        _G,
        ("shard",),
        "Events refused for too many keys since the shard started",
        "Does an event open too many keys?",
    ),
    Metric(
        "backlog_first_timestamp_seconds",
        _G,
        ("namespace",),
        "When the first record was appended that the shards of this process have yet to take of a namespace's backlog",
        "Does a namespace send more than is processed?",
    ),
    Metric(
        "shard_unread_deleted",
        _G,
        ("shard",),
        "Records that were deleted from the log before the shard read them, since its process started",
        "Is the log's retention shorter than workers were away?",
    ),
    Metric(
        "shard_recovery_seconds",
        _G,
        ("shard",),
        "Duration of the shard's last start in seconds",
        "How long is a shard away after a takeover?",
    ),
)
_PROCESSES: Final = (
    Metric(
        "task_restarts_total",
        _C,
        ("task",),
        "Restarts of a loop after a failure",
        "Does a part of this process fail again and again?",
    ),
    Metric(
        "outbox_records",
        _G,
        (),
        "Control records waiting for the relay",
        "Do changes of schedules and ends of runs reach the log?",
    ),
    Metric(
        "intake_lag_records",
        _G,
        ("topic", "partition"),
        "Records of the log not yet stored in PostgreSQL",
        "Do ready jobs, wake-ups and verdicts reach PostgreSQL?",
    ),
    Metric(
        "timers_overdue",
        _G,
        ("kind",),
        "Ticks and wake-ups that are due and not yet sent",
        "How many ticks are late?",
    ),
    Metric(
        "timers_late_seconds",
        _G,
        (),
        "Seconds since the oldest unsent tick or wake-up was due",
        "How late are ticks?",
    ),
    Metric(
        "clock_ahead_seconds",
        _G,
        (),
        "Seconds by which PostgreSQL's clock is ahead of the time that processes go by, after a jump; else 0",
        "Has PostgreSQL's clock jumped?",
    ),
    Metric(
        "machine_clock_ahead_seconds",
        _G,
        ("host",),
        "Seconds by which the clock of a machine is ahead of the time that its processes go by",
        "Has a machine another time than PostgreSQL?",
    ),
    Metric(
        "snapshot_held_seconds",
        _G,
        (),
        "Seconds for which the oldest transaction of the database has kept dead rows from being removed",
        "Does somebody's transaction make every table slower?",
    ),
    Metric(
        "expectations_missing",
        _G,
        ("namespace",),
        "Expectations whose dataset or run is missing and may still come, of the 200 namespaces with most of them",
        "Is data late?",
    ),
    Metric(
        "expectations_late_seconds",
        _G,
        (),
        "Seconds since the oldest due time of an expectation that is not judged yet",
        "Would anything say that data is late?",
    ),
    Metric("spans_sent_total", _C, (), "Spans that the receiver of traces accepted", "Do traces arrive?"),
    Metric(
        "spans_dropped_total",
        _C,
        ("why",),
        "Spans of events, and jobs and runs whose spans, were given up",
        "Are traces incomplete because the receiver was away?",
    ),
)
_QUEUES: Final = (
    Metric(
        "queue_lanes_in_flight",
        _G,
        ("queue",),
        "Lanes whose head is being delivered, up to 10,000",
        "How much is being delivered?",
    ),
    Metric(
        "queue_lanes_due",
        _G,
        ("queue",),
        "Lanes that are ready and not started, up to 10,000",
        "Is there more due than is delivered?",
    ),
    Metric("queue_lanes_staged", _G, ("queue",), "Those of them that wait for a worker", "Are there too few workers?"),
    Metric(
        "queue_lanes_stuck",
        _G,
        ("queue",),
        "Lanes whose head has failed and waits for its retry",
        "Does a receiver fail?",
    ),
    Metric(
        "queue_tasks_stale",
        _G,
        ("queue",),
        "Tasks that were due more than 5 minutes ago and have not ended, up to 10,000",
        "Is work left lying?",
    ),
    Metric(
        "queue_late_seconds",
        _G,
        ("queue",),
        "Seconds since the first lane that is due was ready",
        "How late are tasks?",
    ),
    Metric(
        "queue_attempts_total",
        _C,
        ("queue", "result"),
        "Attempts that ended: acknowledged, unhandled (a Dapr app has no handler), failed, lost with their worker, or "
        "interrupted",
        "How often do deliveries fail?",
    ),
    Metric(
        "queue_ticks_skipped_total",
        _C,
        ("queue",),
        "Missed ticks of recurring tasks that were skipped; of a cron up to 100 in one gap",
        "Are ticks left out?",
    ),
    Metric(
        "queue_exhausted_total",
        _C,
        ("queue",),
        "Tasks that failed for the last time",
        "Are tasks given up?",
    ),
    Metric(
        "webhook_queued",
        _G,
        ("webhook",),
        "Changes in the queue of a webhook, up to 1,000; accepted and failed deliveries: queue_attempts_total",
        "How far is a webhook's target behind?",
    ),
    Metric(
        "webhook_failing_seconds",
        _G,
        ("webhook",),
        "Seconds for which the target of a webhook has accepted nothing while changes waited for it",
        "Is the target of a webhook away?",
    ),
    Metric(
        "webhook_given_up",
        _G,
        ("webhook",),
        "1: the installation disabled the webhook",
        "Is a webhook disabled that should work?",
    ),
    Metric(
        "queue_start_late_seconds",
        _H,
        (),
        "Seconds from the due time of a task to the start of its first attempt",
        "How late do tasks start?",
        _LATE,
    ),
)

_NAMESPACES: Final = (
    Metric(
        "quota_use_ratio",
        _G,
        ("namespace", "quota"),
        "The part of a quota that is in use, of the 200 quotas that are used most",
        "Which namespace will be refused something soon?",
    ),
    Metric(
        "quota_refused_total",
        _C,
        ("quota",),
        "Requests refused by this process for events_per_second or body_bytes of a namespace",
        "Is a quota reached?",
    ),
    Metric(
        "backlog_refused_total",
        _C,
        (),
        "Requests refused by this process since events of their namespace wait for too long already",
        "Does a namespace send more than is processed?",
    ),
)

TABLE: Final = (*_EVENTS, *_JOBS, *_SHARDS, *_PROCESSES, *_QUEUES, *_HTTP, *_NAMESPACES)
