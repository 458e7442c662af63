"""Prometheus metrics: one table with every name, kind, label and help text.

Each `Metrics` object has its own registry and is passed to its users; there is none at module level, so two
installations in one process (in tests) are independent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PREFIX: Final = "streamsched_"


class MetricKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """A row of the table. The unit is the last word of the name, `seconds` or `bytes`; otherwise it is a count."""

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()


_LATE: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3600.0, 86_400.0)
_FAST: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

TABLE: Final = (
    Metric("events_accepted_total", MetricKind.COUNTER, ("topic", "dialect"), "Events acknowledged by the HTTP intake"),
    Metric("events_rejected_total", MetricKind.COUNTER, ("dialect",), "Events refused by the HTTP intake"),
    Metric("http_requests_total", MetricKind.COUNTER, ("method", "route", "status"), "Requests answered"),
    Metric(
        "http_requests_refused_total",
        MetricKind.COUNTER,
        ("status",),
        "Requests refused for their host, origin or type",
    ),
    Metric(
        "http_request_seconds", MetricKind.HISTOGRAM, ("method", "route"), "Duration of a request in seconds", _FAST
    ),
    Metric("task_restarts_total", MetricKind.COUNTER, ("task",), "Restarts of a loop after a failure"),
    Metric("jobs_waiting", MetricKind.GAUGE, ("state",), "Jobs that wait on constraints or for their launch"),
    Metric("runs_active", MetricKind.GAUGE, ("state",), "Runs that have not ended"),
    Metric("schedules", MetricKind.GAUGE, ("enabled",), "Schedules that exist"),
    Metric("outbox_records", MetricKind.GAUGE, (), "Control records waiting for the relay"),
    Metric("timers_overdue", MetricKind.GAUGE, ("kind",), "Ticks and wake-ups that are due and not yet sent"),
    Metric("timers_late_seconds", MetricKind.GAUGE, (), "Seconds since the oldest unsent tick or wake-up was due"),
    Metric("verdicts", MetricKind.GAUGE, ("verdict", "late"), "Events by verdict; late: the lateness policy applied"),
    Metric("shards_leased", MetricKind.GAUGE, (), "Shards whose lease is held by a live worker"),
    Metric(
        "shard_consuming", MetricKind.GAUGE, ("shard",), "1: the shard processes records, 0: it is starting or pausing"
    ),
    Metric("shard_turns", MetricKind.GAUGE, ("shard",), "Turns committed since this worker took the shard"),
    Metric("shard_records", MetricKind.GAUGE, ("shard",), "Records processed since this worker took the shard"),
    Metric("shard_rows", MetricKind.GAUGE, ("shard",), "Rows in the shard's tables"),
    Metric("shard_schedules_in_error", MetricKind.GAUGE, ("shard",), "Schedules in error"),
    Metric(
        "shard_keys_lost",
        MetricKind.GAUGE,
        ("shard",),
        "Correlation keys that ended incomplete since the shard started",
    ),
    Metric(
        "shard_events_refused", MetricKind.GAUGE, ("shard",), "Events refused for too many keys since the shard started"
    ),
    Metric("shard_recovery_seconds", MetricKind.GAUGE, ("shard",), "Duration of the shard's last start in seconds"),
    Metric(
        "intake_lag_records",
        MetricKind.GAUGE,
        ("topic", "partition"),
        "Records of the log not yet stored in PostgreSQL",
    ),
    Metric("queue_lanes_in_flight", MetricKind.GAUGE, ("queue",), "Lanes whose head is being delivered, up to 10,000"),
    Metric("queue_lanes_due", MetricKind.GAUGE, ("queue",), "Lanes that are ready and not started, up to 10,000"),
    Metric("queue_lanes_staged", MetricKind.GAUGE, ("queue",), "Those of them that wait for a worker"),
    Metric("queue_lanes_stuck", MetricKind.GAUGE, ("queue",), "Lanes whose head has failed and waits for its retry"),
    Metric("queue_late_seconds", MetricKind.GAUGE, ("queue",), "Seconds since the first lane that is due was ready"),
    Metric(
        "queue_attempts_total",
        MetricKind.COUNTER,
        ("queue", "result"),
        "Attempts that ended: acknowledged, failed, or interrupted, which uses up none",
    ),
    Metric("queue_exhausted_total", MetricKind.COUNTER, ("queue",), "Tasks that failed for the last time"),
    Metric(
        "queue_start_late_seconds",
        MetricKind.HISTOGRAM,
        (),
        "Seconds from the due time of a task to the start of its first attempt",
        _LATE,
    ),
)


class Metrics:
    """The metrics of the table. A gauge is rendered only after its first `replace`, since 0 would be a measurement.

    >>> metrics = Metrics()
    >>> metrics.add("events_accepted_total", 2, topic="partitions", dialect="native")
    >>> b'streamsched_events_accepted_total{dialect="native",topic="partitions"} 2.0' in metrics.render()
    True
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        self._unmeasured = {metric.name: metric for metric in TABLE if metric.kind is MetricKind.GAUGE}
        for metric in TABLE:
            if metric.kind is not MetricKind.GAUGE:
                self._register(metric)

    def _register(self, metric: Metric) -> None:
        name = PREFIX + metric.name
        match metric.kind:
            case MetricKind.COUNTER:
                self._counters[metric.name] = Counter(name, metric.help, metric.labels, registry=self._registry)
            case MetricKind.GAUGE:
                self._gauges[metric.name] = Gauge(name, metric.help, metric.labels, registry=self._registry)
            case MetricKind.HISTOGRAM:
                self._histograms[metric.name] = Histogram(
                    name, metric.help, metric.labels, buckets=metric.buckets, registry=self._registry
                )

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        """Adds to a counter."""
        counter = self._counters[name]
        (counter.labels(**labels) if labels else counter).inc(amount)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Adds one value to a histogram, in the unit of its name."""
        histogram = self._histograms[name]
        (histogram.labels(**labels) if labels else histogram).observe(value)

    def replace(self, name: str, values: Iterable[tuple[Mapping[str, str], float]]) -> None:
        """Replaces all values of a gauge; label combinations that are not given are removed."""
        if name in self._unmeasured:
            self._register(self._unmeasured.pop(name))
        gauge = self._gauges[name]
        if gauge._labelnames:
            gauge.clear()
        for labels, value in values:
            (gauge.labels(**labels) if labels else gauge).set(value)

    def render(self) -> bytes:
        """The metrics in Prometheus' text format (`CONTENT_TYPE`)."""
        return generate_latest(self._registry)
