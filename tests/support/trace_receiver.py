"""A receiver of traces by OTLP over HTTP, which keeps the spans and draws them as trees."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """A span as it arrived; ids in hexadecimal, `parent` empty where the trace begins; times in nanoseconds."""

    service: str
    name: str
    trace: str
    span: str
    parent: str
    began: int
    ended: int
    attributes: dict[str, str]
    links: tuple[tuple[str, str], ...]
    failed: bool


class TraceReceiver:
    """Keeps every span as often as it arrives. `away`: it answers 503."""

    def __init__(self) -> None:
        self.url = ""
        self.away = False
        self.requests = 0
        self._spans: list[ReceivedSpan] = []
        self._arrived = threading.Condition()

    @property
    def spans(self) -> list[ReceivedSpan]:
        with self._arrived:
            return list(self._spans)

    def named(self, name: str) -> list[ReceivedSpan]:
        return [each for each in self.spans if each.name == name]

    def wait_for(self, name: str, count: int = 1, *, within_s: float = 90.0) -> list[ReceivedSpan]:
        """The spans of a name, as soon as there are so many."""
        with self._arrived:
            done = self._arrived.wait_for(lambda: len([s for s in self._spans if s.name == name]) >= count, within_s)
        assert done, f"{count} spans '{name}' within {within_s} s; there are: {[each.name for each in self.spans]}"
        return self.named(name)

    def take(self, request: ExportTraceServiceRequest) -> None:
        found = [
            _received(span, _attributes(resource.resource.attributes).get("service.name", ""))
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        with self._arrived:
            self._spans += found
            self._arrived.notify_all()

    def tree(self, trace: str) -> str:
        """The spans of a trace, by parents and times; one that came twice, as of an event that was sent twice, once."""
        found = {each.span: each for each in self.spans if each.trace == trace}
        spans = sorted(found.values(), key=lambda each: (each.began, each.ended))
        known = {each.span for each in spans}
        lines: list[str] = []

        def draw(parent: str, depth: int) -> None:
            for each in spans:
                if each.parent == parent:
                    lines.append("  " * depth + each.name)
                    draw(each.span, depth + 1)

        for root in dict.fromkeys(each.parent for each in spans if each.parent not in known):
            draw(root, 0)
        return "\n".join(lines)


@contextmanager
def trace_receiver() -> Iterator[TraceReceiver]:
    """A receiver at a free port of the loopback."""
    receiver = TraceReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.requests += 1
            if receiver.away or self.path != "/v1/traces":
                self.send_response(503 if receiver.away else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            receiver.take(ExportTraceServiceRequest.FromString(body))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *_args: object) -> None:  # noqa: A002 - the name in the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()


def _received(span: ProtoSpan, service: str) -> ReceivedSpan:
    return ReceivedSpan(
        service,
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        _attributes(span.attributes),
        tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        span.status.code == Status.STATUS_CODE_ERROR,
    )


def _attributes(pairs: object) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:  # type: ignore[attr-defined]
        kind = pair.value.WhichOneof("value")
        found[pair.key] = str(getattr(pair.value, kind))
    return found
