"""Metrics: every name, unit and label in one table, in Prometheus' words.

A `Metrics` is an object with a registry of its own, passed to whoever counts; there is none at module level, so two
installations in one process (tests) never mix.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PREFIX: Final = "streamsched_"


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """A row of the table. The unit is the name's last word: `seconds`, `bytes`, else a count."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()


_FAST: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

TABLE: Final = (
    Metric("events_accepted_total", Kind.COUNTER, ("topic", "dialect"), "Events acknowledged by the HTTP intake"),
    Metric("events_rejected_total", Kind.COUNTER, ("dialect",), "Events the HTTP intake refused"),
    Metric("http_requests_total", Kind.COUNTER, ("method", "route", "status"), "Requests answered"),
    Metric("http_request_seconds", Kind.HISTOGRAM, ("method", "route"), "From request to answer", _FAST),
    Metric("task_restarts_total", Kind.COUNTER, ("task",), "Loops that died and were started again"),
    Metric("jobs_waiting", Kind.GAUGE, ("state",), "Jobs that wait on constraints or for their launch"),
    Metric("runs_active", Kind.GAUGE, ("state",), "Runs that have not ended"),
    Metric("schedules", Kind.GAUGE, ("enabled",), "Schedules that exist"),
    Metric("outbox_records", Kind.GAUGE, (), "Control records waiting for the relay"),
    Metric("timers_overdue", Kind.GAUGE, ("kind",), "Ticks and wake-ups that are due and not yet sent"),
    Metric("timers_late_seconds", Kind.GAUGE, (), "For how long the first of them is due"),
    Metric("verdicts", Kind.GAUGE, ("verdict", "late"), "What became of events so far; late: by which policy"),
    Metric("shards_leased", Kind.GAUGE, (), "Shards that have a live owner"),
    Metric("shard_consuming", Kind.GAUGE, ("shard",), "Shards this worker holds; 1: takes records, 0: starts or waits"),
    Metric("shard_turns", Kind.GAUGE, ("shard",), "Turns since this worker took the shard"),
    Metric("shard_records", Kind.GAUGE, ("shard",), "Records taken since this worker took the shard"),
    Metric("shard_rows", Kind.GAUGE, ("shard",), "Rows in the shard's tables"),
    Metric("shard_schedules_in_error", Kind.GAUGE, ("shard",), "Schedules that stand in error"),
    Metric("shard_recovery_seconds", Kind.GAUGE, ("shard",), "How long the shard's last start took"),
    Metric("intake_lag_records", Kind.GAUGE, ("topic", "partition"), "Records of the log not yet in their tables"),
)


class Metrics:
    """Counts, sets and observes what the table names. A gauge is shown once it was measured: 0 is a measure.

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
        self._unmeasured = {metric.name: metric for metric in TABLE if metric.kind is Kind.GAUGE}
        for metric in TABLE:
            if metric.kind is not Kind.GAUGE:
                self._register(metric)

    def _register(self, metric: Metric) -> None:
        name = PREFIX + metric.name
        match metric.kind:
            case Kind.COUNTER:
                self._counters[metric.name] = Counter(name, metric.help, metric.labels, registry=self._registry)
            case Kind.GAUGE:
                self._gauges[metric.name] = Gauge(name, metric.help, metric.labels, registry=self._registry)
            case Kind.HISTOGRAM:
                self._histograms[metric.name] = Histogram(
                    name, metric.help, metric.labels, buckets=metric.buckets, registry=self._registry
                )

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        """Adds to a counter."""
        counter = self._counters[name]
        (counter.labels(**labels) if labels else counter).inc(amount)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """One value of a histogram, in the unit of its name."""
        histogram = self._histograms[name]
        (histogram.labels(**labels) if labels else histogram).observe(value)

    def replace(self, name: str, values: Iterable[tuple[Mapping[str, str], float]]) -> None:
        """A gauge's whole new picture: labels and value; combinations that are not named are gone."""
        if name in self._unmeasured:
            self._register(self._unmeasured.pop(name))
        gauge = self._gauges[name]
        if gauge._labelnames:
            gauge.clear()
        for labels, value in values:
            (gauge.labels(**labels) if labels else gauge).set(value)

    def render(self) -> bytes:
        """The exposition in Prometheus' text form (`CONTENT_TYPE`)."""
        return generate_latest(self._registry)
