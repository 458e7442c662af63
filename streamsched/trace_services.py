"""Composition of traces: whether spans are made, of what, and where they are sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streamsched.access.emit_spans import EmitSpans
from streamsched.config import Settings
from streamsched.launcher.traces.span_export import SpanExport
from streamsched.ports.clock import Clock
from streamsched.ports.spans import SpanSender
from streamsched.process.extras import not_installed
from streamsched.store.connections import Pool
from streamsched.store.jobs.spans import SpanStore
from streamsched.telemetry.metrics import Metrics
from streamsched.telemetry.traces.queue import SpanQueue
from streamsched.telemetry.traces.settings import TraceSettings, trace_settings


@dataclass(frozen=True, slots=True)
class Traces:
    """What a process that makes spans has for it."""

    settings: TraceSettings
    sender: SpanSender
    queue: SpanQueue
    metrics: Metrics

    @property
    def emit_spans(self) -> EmitSpans:
        """For the API."""
        return EmitSpans(self.settings.sampler, self.queue.put)

    def export(self, pool: Pool, clock: Clock) -> SpanExport:
        """For a launcher."""
        return SpanExport(SpanStore(pool), self.sender, self.settings, clock, self.metrics)


def open_traces(settings: Settings, environ: Mapping[str, str], metrics: Metrics) -> Traces | None:
    """None when no spans are made; then nothing of OpenTelemetry is imported.

    Raises:
        ConfigurationError: a variable is malformed, or the extra is not installed.
    """
    read = trace_settings(environ) if settings.traces else None
    if read is None:
        return None
    try:
        from streamsched.telemetry.traces.otlp import OtlpSender  # noqa: PLC0415 - only who makes spans needs it
    except ModuleNotFoundError as exc:
        raise (not_installed(exc) or exc) from exc
    sender = OtlpSender()
    return Traces(read, sender, SpanQueue(sender, read, metrics), metrics)
