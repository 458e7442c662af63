"""Sending spans by OTLP: their content, a receiver that is away, and the bounded queue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from streamsched.domain.errors import ConfigurationError
from streamsched.domain.events.sampler import Sampler
from streamsched.domain.events.trace_context import TraceContext
from streamsched.domain.jobs.spans import SpanKind, TraceSpan
from streamsched.telemetry.metrics import Metrics
from streamsched.telemetry.traces.otlp import OtlpSender
from streamsched.telemetry.traces.queue import SpanQueue
from streamsched.telemetry.traces.settings import TraceSettings, run_sampler, sampler, trace_settings
from tests.support.trace_receiver import trace_receiver

AT = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def span(number: int, **more: object) -> TraceSpan:
    fields: dict[str, object] = {
        "name": "run",
        "context": TraceContext(TRACE, f"{number:016x}"),
        "parent": None,
        "began_at": AT,
        "ended_at": AT + timedelta(microseconds=1),
        "attributes": {},
    }
    return TraceSpan(**{**fields, **more})  # type: ignore[arg-type]


async def test_a_span_arrives_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with trace_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "our-scheduler")
        parent, other = TraceContext(TRACE, "00f067aa0ba902b7"), TraceContext("1" * 32, "2" * 16)
        attributes = {"text": "a\ud800b", "whole": 2**62, "part": 0.5}
        child = span(2, parent=parent, links=(other,), kind=SpanKind.CONSUMER, failed=True, attributes=attributes)

        assert await OtlpSender().send([span(1), child])

    first, second = receiver.spans
    assert (first.trace, first.span, first.parent, first.failed) == (TRACE, f"{1:016x}", "", False)
    assert (second.trace, second.span, second.parent, second.failed) == (TRACE, f"{2:016x}", parent.span_id, True)
    assert second.links == ((other.trace_id, other.span_id),)
    assert second.attributes == {"text": "a?b", "whole": str(2**62), "part": "0.5"}
    assert (second.began, second.ended) == (1772366400123456000, 1772366400123457000)
    assert second.service == "our-scheduler"


async def test_a_receiver_that_is_not_there_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    assert not await OtlpSender().send([span(1)])


class Receiver:
    def __init__(self) -> None:
        self.away = False
        self.batches: list[int] = []

    async def send(self, spans: Sequence[TraceSpan]) -> bool:
        if not self.away:
            self.batches.append(len(spans))
        return not self.away


async def test_a_full_queue_drops_what_comes_and_counts_it() -> None:
    receiver, metrics = Receiver(), Metrics()
    queue = SpanQueue(receiver, TraceSettings(capacity=5, batch=3), metrics)
    receiver.away = True

    queue.put(span(number) for number in range(1, 9))
    pauses = [await queue.run_once() for _ in range(6)]
    receiver.away = False
    after = [await queue.run_once() for _ in range(3)]

    assert pauses == [10.0, 20.0, 40.0, 60.0, 60.0, 60.0]
    assert after == [5.0, 5.0, 5.0]
    assert receiver.batches == [3, 2]
    assert b'streamsched_spans_dropped_total{why="queue full"} 3.0' in metrics.render()
    assert b"streamsched_spans_sent_total 5.0" in metrics.render()


@pytest.mark.parametrize(
    ("name", "ratio", "found"),
    [
        ("", "", Sampler(1.0)),
        ("always_on", "", Sampler(1.0, by_parent=False)),
        ("always_off", "", Sampler(0.0, by_parent=False)),
        ("traceidratio", "0.25", Sampler(0.25, by_parent=False)),
        ("parentbased_traceidratio", "0.25", Sampler(0.25)),
        ("parentbased_always_off", "", Sampler(0.0)),
        ("xray", "", Sampler(1.0)),
    ],
)
def test_samplers(name: str, ratio: str, found: Sampler) -> None:
    assert sampler({"OTEL_TRACES_SAMPLER": name, "OTEL_TRACES_SAMPLER_ARG": ratio}) == found


@pytest.mark.parametrize(
    "environ",
    [
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
        {"OTEL_BSP_MAX_QUEUE_SIZE": "-1"},
        {"OTEL_BSP_SCHEDULE_DELAY": "soon"},
    ],
)
def test_wrong_settings_are_named(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=list(environ)[-1]):
        trace_settings(environ)
    assert run_sampler(environ, traces=False) is None
