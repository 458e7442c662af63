"""Prometheus metrics of a process, as `metric_table` declares them.

Each `Metrics` object has its own registry and is passed to its users; there is none at module level, so two
installations in one process (in tests) are independent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from streamsched.telemetry.metric_table import PREFIX, TABLE, Metric, MetricKind

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


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
        self._labelled: dict[tuple[str, ...], Counter] = {}
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
        key = (name, *labels, *labels.values())
        counter = self._labelled.get(key)
        if counter is None:
            counter = self._counters[name]
            counter = self._labelled[key] = counter.labels(**labels) if labels else counter
        counter.inc(amount)

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
