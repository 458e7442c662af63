"""The trace of one event, from its emitter to a Spark program, as a receiver of OpenTelemetry gets it."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from tests.support.dev_process import DevProcess
from tests.support.services import need_java
from tests.support.trace_receiver import ReceivedSpan, TraceReceiver, trace_receiver

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(600)]

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
EMITTER = "00f067aa0ba902b7"
OTHER = "a3ce929d0e0e4736"
APP = """
from streamsched import App, partitions, program

app = App("shop")
load = app.python("load", "load:main")
sums = app.spark("sums", main="sums.py", master="local[1]", arguments=["seen"])
waits = app.bash("waits", "echo $$ > pid; while [ ! -e go ]; do sleep 0.1; done; echo $TRACEPARENT")
app.schedule("on-sales", load, when=partitions("sales", 2))
app.schedule("on-sums", sums, when=partitions("loaded"))
app.schedule("on-slow", waits, when=partitions("slow"))
"""
LOAD = """
import os
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from streamsched.emit import Emitter, partitions_added

def main():
    provider = TracerProvider(resource=Resource.create({"service.name": "load"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
    parent = TraceContextTextMapPropagator().extract({"traceparent": os.environ["TRACEPARENT"]})
    with provider.get_tracer("load").start_as_current_span("read-files", parent):
        with Emitter(source="load") as emitter:
            emitter.emit(partitions_added("loaded", ["day=2013-01-01"]))
    provider.shutdown()
"""
SUMS = """
import os, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
executors = spark.sparkContext.parallelize([0], 1).map(lambda _: os.environ["TRACEPARENT"]).collect()
with open(sys.argv[1], "w") as file:
    file.write(" ".join([spark.conf.get("spark.streamsched.traceparent"), os.environ["TRACEPARENT"], *executors]))
spark.stop()
"""


TREE = [
    "emit",
    "emit",
    "  job",
    "    complete",
    "    decide",
    "    launch",
    "      run",
    "        read-files",
    "          emit",
    "            job",
    "              complete",
    "              decide",
    "              launch",
    "                run",
]


@pytest.fixture
def receiver() -> Iterator[TraceReceiver]:
    with trace_receiver() as receiver:
        yield receiver


@pytest.fixture
def traced(tmp_path: Path, receiver: TraceReceiver) -> Iterator[DevProcess]:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "load.py").write_text(LOAD)
    (tmp_path / "sums.py").write_text(SUMS)
    dev = DevProcess(tmp_path)
    start(dev, receiver)
    try:
        assert dev.run("deploy", "app.py").code == 0
        yield dev
    finally:
        (tmp_path / "go").touch()
        dev.close()


def start(dev: DevProcess, receiver: TraceReceiver) -> None:
    dev.start(
        STREAMSCHED_TRACES="true",
        OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url,
        OTEL_BSP_SCHEDULE_DELAY="200",
        OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test",
    )


def emit(dev: DevProcess, dataset: str, key: str, parent: str = EMITTER) -> None:
    """Over HTTP, with the header that an instrumented client sends."""
    import json

    url = json.loads((dev.state / "dev.json").read_text())["url"]
    event = {"type": "partitions.added", "data": {"dataset": f"default.{dataset}", "partitions": [key]}}
    headers = {**dev.authorization, "traceparent": f"00-{TRACE}-{parent}-01"}
    assert httpx.post(f"{url}/v1/events", json=event, headers=headers).status_code == 202


@pytest.mark.nightly
def test_an_event_is_followed_to_its_program_and_to_spark(traced: DevProcess, receiver: TraceReceiver) -> None:
    need_java()
    emit(traced, "sales", "day=2013-01-01", OTHER)
    emit(traced, "sales", "day=2013-01-02")

    for name, count in Counter(map(str.strip, TREE)).items():
        receiver.wait_for(name, count, within_s=180)
    tree = receiver.tree(TRACE)
    assert tree.splitlines() == TREE, tree
    first, second = sorted(receiver.named("job"), key=lambda each: each.began)
    emits = sorted(receiver.named("emit"), key=lambda each: each.began)[:2]
    assert [each.parent for each in emits] == [OTHER, EMITTER]
    assert first.links == ((TRACE, emits[0].span),)
    assert second.links == ()
    assert {each.service for each in receiver.spans} == {"streamsched", "load"}
    run = next(each for each in receiver.named("run") if "sums" in each.attributes["streamsched.program"])
    context = f"00-{TRACE}-{run.span}-01"
    assert (traced.folder / "seen").read_text().split() == [context] * 3
    assert run.attributes["streamsched.state"] == "COMPLETED"
    shown = traced.run("run", "show", run.attributes["streamsched.run"])
    assert TRACE in shown.out
    assert TRACE in traced.run("job", "show", second.attributes["streamsched.job"]).out


def test_a_killed_scheduler_and_a_killed_run_leave_one_span_for_each_run(
    traced: DevProcess, receiver: TraceReceiver
) -> None:
    emit(traced, "slow", "day=2013-01-01")
    traced.until((traced.folder / "pid").exists)
    one = traced.until(lambda: running(traced))

    traced.stop(signal.SIGKILL)
    os.kill(int((traced.folder / "pid").read_text()), signal.SIGKILL)  # its program ends as well, with a failure
    start(traced, receiver)
    ended = traced.until(lambda: shown(traced, one) if shown(traced, one)["endedAt"] else None)
    emit(traced, "slow", "day=2013-01-02")
    (traced.folder / "go").touch()
    runs = receiver.wait_for("run", 2)
    assert len({each.span for each in runs}) == len(runs) == 2
    failed, other = sorted(runs, key=lambda each: each.began)
    assert (failed.attributes["streamsched.run"], failed.failed) == (one, True)
    assert (other.failed, other.trace, failed.trace) == (False, TRACE, TRACE)
    assert times(failed) == (ended["startedAt"], ended["endedAt"])
    launches = [each for each in receiver.named("launch") if each.span in {failed.parent, other.parent}]
    assert len(launches) == 2


def running(dev: DevProcess) -> str | None:
    found = dev.run("run", "list", "--state", "RUNNING", "-o", "json").json
    return found[0]["id"] if found else None


def shown(dev: DevProcess, run: str) -> dict[str, str]:
    return dev.run("run", "show", run, "-o", "json").json


def times(span: ReceivedSpan) -> tuple[str, str]:
    began, ended = (
        datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=each // 1000) for each in (span.began, span.ended)
    )
    return tuple(each.isoformat().replace("+00:00", "Z") for each in (began, ended))  # type: ignore[return-value]
