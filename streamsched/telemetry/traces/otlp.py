"""A `SpanSender` by OTLP over HTTP, with OpenTelemetry's SDK. Imported only where spans are made."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags

from streamsched import __version__
from streamsched.domain.events.trace_context import TraceContext
from streamsched.domain.jobs.spans import Attribute, SpanKind, TraceSpan

_SERVICE: Final = "streamsched"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_KINDS: Final = {
    SpanKind.PRODUCER: trace.SpanKind.PRODUCER,
    SpanKind.CONSUMER: trace.SpanKind.CONSUMER,
    SpanKind.INTERNAL: trace.SpanKind.INTERNAL,
}


class OtlpSender:
    """Sends on a thread of its own, so that a receiver that does not answer delays nothing, also not the end of the
    process. One request at a time.
    """

    def __init__(self) -> None:
        self._ids = _GivenIds()
        self._made = _Made()
        provider = TracerProvider(
            sampler=ALWAYS_ON, resource=_resource(), id_generator=self._ids, shutdown_on_exit=False
        )
        provider.add_span_processor(self._made)
        self._tracer = provider.get_tracer(_SERVICE, __version__)
        self._exporter = OTLPSpanExporter()
        self._lock = threading.Lock()

    async def send(self, spans: Sequence[TraceSpan]) -> bool:
        """Sends the spans in one request, and again while the receiver is busy; False when they were given up."""
        loop = asyncio.get_running_loop()
        accepted: asyncio.Future[bool] = loop.create_future()

        def export() -> None:
            done = False
            try:
                with self._lock:
                    done = self._exporter.export(list(self._to_readable(spans))) is SpanExportResult.SUCCESS
            finally:  # also when the exporter raises: else `send` would never return
                if not loop.is_closed():
                    loop.call_soon_threadsafe(_resolve, accepted, done)

        threading.Thread(target=export, name="streamsched-spans", daemon=True).start()
        return await accepted

    def close(self) -> None:
        """Ends the retries of a request in progress."""
        self._exporter.shutdown()

    def _to_readable(self, spans: Sequence[TraceSpan]) -> Iterator[ReadableSpan]:
        for span in spans:
            self._ids.next = span.context
            parent = None if span.parent is None else _context(span.parent)
            started = self._tracer.start_span(
                span.name,
                trace.set_span_in_context(NonRecordingSpan(parent or trace.INVALID_SPAN_CONTEXT)),
                kind=_KINDS[span.kind],
                attributes={name: _clean_text(value) for name, value in span.attributes.items()},
                links=[Link(_context(each)) for each in span.links],
                start_time=_nanoseconds(span.began_at),
            )
            if span.failed:
                started.set_status(Status(StatusCode.ERROR))
            started.end(_nanoseconds(span.ended_at))
        yield from self._made.take()


class _GivenIds(IdGenerator):
    """The ids of the span that is made next."""

    next: TraceContext

    def generate_span_id(self) -> int:
        return int(self.next.span_id, 16)

    def generate_trace_id(self) -> int:
        return int(self.next.trace_id, 16)


class _Made(SpanProcessor):
    """Keeps the finished spans."""

    def __init__(self) -> None:
        self._spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self._spans.append(span)

    def take(self) -> list[ReadableSpan]:
        taken, self._spans = self._spans, []
        return taken


def _resource() -> Resource:
    """`OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` go before our name."""
    found = Resource.create()
    unnamed = str(found.attributes.get(SERVICE_NAME, "")).startswith("unknown_service")
    return found.merge(Resource({SERVICE_NAME: _SERVICE})) if unnamed else found


def _context(context: TraceContext) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if context.sampled else TraceFlags.DEFAULT)
    return SpanContext(int(context.trace_id, 16), int(context.span_id, 16), is_remote=True, trace_flags=flags)


def _clean_text(value: Attribute) -> Attribute:
    """Text that protobuf can hold."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _nanoseconds(at: datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND * 1000


def _resolve(future: asyncio.Future[bool], value: bool) -> None:
    if not future.done():
        future.set_result(value)
