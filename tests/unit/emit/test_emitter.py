"""Emitters against a far end on a real socket, and against a real log."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.codec import event as codec
from streamsched.domain.errors import ConfigurationError, InvalidError, RefusedError, UnavailableError
from streamsched.domain.events.event import Event, Outcome, Partition, ProgramReached
from streamsched.domain.names import ProgramRef
from streamsched.domain.signals.home import home
from streamsched.emit import (
    AsyncEmitter,
    Emitter,
    RetryLimits,
    custom,
    drain,
    partitions_added,
    program_status,
    stream_size,
)
from streamsched.emit.delivery import EncodedEvent
from streamsched.emit.draft import complete_event
from streamsched.emit.log import LogTransport
from streamsched.emit.spool import Spool
from streamsched.log.topics import PARTITIONS, topic_specs
from streamsched.ports.broker import Broker, TopicPartition
from streamsched.ports.clock import SystemClock
from tests.support.spools import oldest

NOW = datetime(2013, 1, 1, tzinfo=UTC)
HASTY = RetryLimits(deadline=timedelta(milliseconds=30), first=timedelta(milliseconds=5))


class FarEnd:
    """A server that takes CloudEvents batches; `script` holds (status, body) to answer first, then all is taken."""

    def __init__(self) -> None:
        self.batches: list[list[dict[str, Any]]] = []
        self.types: list[str | None] = []
        self.script: list[tuple[int, dict[str, Any] | bytes]] = []
        far = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, answer = far.script.pop(0) if far.script else (202, {"accepted": len(body), "errors": []})
                far.types.append(self.headers["Content-Type"])
                if status < 300:
                    far.batches.append(body)
                said = answer if isinstance(answer, bytes) else orjson.dumps(answer)
                self.send_response(status)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class names it
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def ids(self) -> list[str]:
        return [event["id"] for batch in self.batches for event in batch]


@pytest.fixture
def far() -> Iterator[FarEnd]:
    far = FarEnd()
    yield far
    far.close()


@pytest.fixture
def nowhere() -> str:
    far = FarEnd()
    far.close()
    return far.url


def test_a_commit_goes_out_as_one_cloudevent_with_all_its_keys(far: FarEnd) -> None:
    with Emitter(far.url, source="test") as emitter:
        emitter.emit(partitions_added("flights", ["day=1", "day=2"], event_id="commit-1"))

    assert far.types == ["application/cloudevents-batch+json"]
    ((event,),) = far.batches
    assert (event["specversion"], event["id"], event["source"]) == ("1.0", "commit-1", "test")
    decoded = codec.decode(orjson.dumps(event), fallback_id="", fallback_time=NOW)
    assert decoded.key == "partition:default.flights"
    assert [p.values for p in decoded.fact.partitions] == [{"day": "1"}, {"day": "2"}]  # type: ignore[union-attr]


def test_a_run_that_happened_anywhere_goes_out_with_all_that_is_said_of_it(far: FarEnd) -> None:
    ended = NOW + timedelta(minutes=5)
    with Emitter(far.url, source="airflow") as emitter:
        emitter.emit(
            program_status(
                "default.etl.load", "r-1", "failed", arguments={"day": "1"}, ended_at=ended, error="no disk"
            ),
            program_status(ProgramRef("default", "etl", "load"), "r-2", Outcome.SUCCEEDED, event_id="r-2", time=NOW),
        )

    ((failed, succeeded),) = far.batches
    first = codec.decode(orjson.dumps(failed), fallback_id="", fallback_time=NOW)
    assert first.fact == ProgramReached(
        ProgramRef("default", "etl", "load"), "r-1", Outcome.FAILED, {"day": "1"}, ended, "no disk"
    )
    second = codec.decode(orjson.dumps(succeeded), fallback_id="", fallback_time=NOW)
    assert second == Event(
        "r-2", "airflow", NOW, ProgramReached(ProgramRef("default", "etl", "load"), "r-2", Outcome.SUCCEEDED)
    )


@pytest.mark.parametrize(
    ("program", "outcome", "path"),
    [("default.etl.load", "done", r"\$\.outcome"), ("load", "succeeded", "load")],
)
def test_a_run_of_no_program_or_without_an_outcome_is_no_event(program: str, outcome: str, path: str) -> None:
    with pytest.raises(InvalidError, match=path):
        program_status(program, "r-1", outcome)


@pytest.mark.parametrize("number", [-1, 2**63, 2**64])
def test_numbers_that_no_event_can_have_are_refused_where_it_is_made(number: int) -> None:
    with pytest.raises(InvalidError, match=r"\$\.bytes: must be at (least 0|most 9223372036854775807) but is"):
        stream_size("clicks", number)
    for name in ("bytes", "rows"):
        with pytest.raises(InvalidError, match=rf"\$\.partitions\[1\]\.{name}: must be at"):
            partitions_added("flights", ["day=1", Partition("day=2", {}, **{name: number})])


def test_a_far_end_that_stumbles_is_tried_again_with_the_same_ids(far: FarEnd) -> None:
    far.script = [(503, {}), (429, {})]

    with Emitter(far.url, source="test") as emitter:
        emitted = emitter.emit(custom("e"), custom("e"))

    assert emitted.accepted == 2
    assert len(set(far.ids)) == 2


@pytest.mark.parametrize("unheard", [[], ["event:default.e"], None])
def test_what_without_listeners_is_said(far: FarEnd, unheard: list[str] | None) -> None:
    far.script = [(202, {"accepted": 1, "errors": [], "unheard": unheard})]

    with Emitter(far.url, source="test") as emitter:
        assert emitter.emit(custom("e")).unheard == tuple(unheard or ())
        assert emitter.emit(custom("e")).unheard == ()  # an older server does not say


def test_a_refused_event_raises_with_its_path_and_the_others_are_taken(far: FarEnd, tmp_path: Path) -> None:
    far.script = [
        (202, {"accepted": 1, "errors": [{"index": 1, "path": "$[1].data.count", "reason": "must be positive"}]})
    ]

    with (
        Emitter(far.url, source="test", spool=tmp_path) as emitter,
        pytest.raises(RefusedError, match=r"\$\[1\]\.data\.count: must be positive") as caught,
    ):
        emitter.emit(custom("e"), custom("e"))

    assert caught.value.accepted == 1
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_without_details_is_reported_as_it_came(far: FarEnd) -> None:
    far.script = [(400, {"type": "urn:streamsched:problem:bad-request", "detail": "what is this?"})]

    with Emitter(far.url, source="test") as emitter, pytest.raises(RefusedError, match=r"^\$\[0\]: what is this\?$"):
        emitter.emit(custom("e"))


@pytest.mark.parametrize(
    "answer",
    [
        (400, b"<html>The plain HTTP request was sent to HTTPS port</html>"),
        (422, {"detail": "some other service"}),
        (400, {"errors": ["invalid"]}),
        (400, {"accepted": 0, "errors": [{"index": 7, "path": "$", "reason": "of another request"}]}),
        (400, b"[]"),
        (200, b"<html>Please log in</html>"),
        (200, {}),
    ],
)
def test_an_answer_that_is_not_ours_says_nothing_of_the_events_and_costs_none(
    nowhere: str, far: FarEnd, tmp_path: Path, answer: tuple[int, dict[str, Any] | bytes]
) -> None:
    """A proxy stands in between, or the URL has the wrong scheme."""
    with Emitter(nowhere, source="test", spool=tmp_path, patience=HASTY) as emitter:
        emitter.emit(custom("e", event_id="1"), custom("e", event_id="2"))
    far.script = [answer]
    with pytest.raises(ConfigurationError, match=f"answered {answer[0]}"):
        drain(tmp_path, far.url)
    far.batches.clear()

    assert drain(tmp_path, far.url).sent == 2
    assert far.ids == ["1", "2"]


def test_a_server_that_is_something_else_is_an_installation_gone_wrong(far: FarEnd, tmp_path: Path) -> None:
    far.script = [(404, {"detail": "Not Found"})]

    with Emitter(far.url, source="test", spool=tmp_path) as emitter, pytest.raises(ConfigurationError, match="404"):
        emitter.emit(custom("e"))


def test_without_a_spool_a_far_end_that_is_away_raises(nowhere: str) -> None:
    with Emitter(nowhere, source="test", patience=HASTY) as emitter, pytest.raises(UnavailableError, match="1 of 1"):
        emitter.emit(custom("e"))


def test_what_was_kept_goes_out_first_on_the_next_use(nowhere: str, far: FarEnd, tmp_path: Path) -> None:
    with Emitter(nowhere, source="test", spool=tmp_path, patience=HASTY) as emitter:
        assert emitter.emit(custom("e", event_id="1"), custom("e", event_id="2")).spooled == 2
        assert emitter.emit(custom("e", event_id="3")).spooled == 1

    with Emitter(far.url, source="test", spool=tmp_path) as emitter:
        assert emitter.emit(custom("e", event_id="4")).accepted == 1

    assert far.ids == ["1", "2", "3", "4"]
    assert list(tmp_path.iterdir()) == []


def test_an_event_does_not_overtake_one_of_its_key_that_another_process_is_sending(
    nowhere: str, far: FarEnd, tmp_path: Path
) -> None:
    """A stream's sizes in the wrong order would be taken for growth."""
    with Emitter(nowhere, source="test", spool=tmp_path, patience=HASTY) as emitter:
        emitter.emit(custom("size", event_id="1"))

    with Emitter(far.url, source="test", spool=tmp_path) as emitter:
        with oldest(Spool(tmp_path, SystemClock())) as sending:
            assert sending is not None
            assert emitter.emit(custom("size", event_id="2")).spooled == 1
            assert emitter.emit(custom("size", event_id="3"), custom("other", event_id="4")).spooled == 2
            assert emitter.emit(custom("unconcerned", event_id="5")).accepted == 1
            assert emitter.drain().sent == 0
            assert far.ids == ["5"]
        emitter.drain()

    assert far.ids == ["5", "1", "2", "3", "4"]
    assert list(tmp_path.iterdir()) == []


def test_what_was_kept_behind_another_process_goes_out_though_that_was_done_just_before(
    nowhere: str, far: FarEnd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Emitter(nowhere, source="test", spool=tmp_path, patience=HASTY) as emitter:
        emitter.emit(custom("size", event_id="1"))
    keep = Spool.keep
    with ExitStack() as another, Emitter(far.url, source="test", spool=tmp_path) as emitter:
        another.enter_context(oldest(Spool(tmp_path, SystemClock())))

        def keep_late(spool: Spool, events: Sequence[Event]) -> None:
            another.close()
            keep(spool, events)

        monkeypatch.setattr(Spool, "keep", keep_late)
        emitter.emit(custom("size", event_id="2"))

    assert far.ids == ["1", "2"]


def test_a_folder_is_drained_by_the_process_that_finds_the_far_end_back(
    nowhere: str, far: FarEnd, tmp_path: Path
) -> None:
    with Emitter(nowhere, source="test", spool=tmp_path, patience=HASTY) as emitter:
        emitter.emit(custom("e", event_id="1"), custom("e", event_id="2"))
    far.script = [(202, {"accepted": 1, "errors": [{"index": 0, "path": "$", "reason": "bad"}]})]

    drained = drain(tmp_path, far.url)

    assert (drained.sent, drained.refused, drained.left) == (1, 1, 0)
    assert [path.suffix for path in tmp_path.iterdir()] == [".refused"]


def test_a_spool_that_cannot_be_drained_stays_whole(nowhere: str, tmp_path: Path) -> None:
    with Emitter(nowhere, source="test", spool=tmp_path, patience=HASTY) as emitter:
        emitter.emit(custom("e", event_id="1"))

    drained = drain(tmp_path, nowhere, patience=HASTY)

    assert (drained.sent, drained.left) == (0, 1)
    assert "refused" in drained.why


async def test_the_asynchronous_emitter_keeps_the_order_of_its_calls(far: FarEnd) -> None:
    async with AsyncEmitter(far.url, source="test") as emitter:
        await asyncio.gather(*(emitter.emit(custom("e", event_id=str(n))) for n in range(20)))

    assert far.ids == [str(n) for n in range(20)]


async def test_an_event_straight_to_the_log_lies_at_its_home() -> None:
    broker = MemoryBroker(MemoryLog())
    await broker.create_topics(topic_specs(4, timedelta(days=1)))

    async def opened() -> Broker:
        return broker

    link = LogTransport(opened)
    event = complete_event(partitions_added("flights", ["day=1"], event_id="commit-1"), source="test", now=NOW)
    await asyncio.to_thread(link.send, [EncodedEvent(event, link.encode(event))])
    await asyncio.to_thread(link.close)

    at = TopicPartition(PARTITIONS, home("partition:default.flights", 4))
    reader = await broker.reader({at: 0})
    ((record,),) = [chunk.records for chunk in await reader.read(max_records=10, timeout=1)]
    assert record.key == b"partition:default.flights"
    assert codec.decode(record.value or b"", fallback_id="", fallback_time=NOW) == event


def test_a_log_without_a_driver_is_an_installation_gone_wrong() -> None:
    with Emitter("nolog://x", source="test") as emitter, pytest.raises(ConfigurationError, match="nolog"):
        emitter.emit(custom("e"))


def test_a_commit_without_partitions_is_no_event() -> None:
    with pytest.raises(InvalidError, match=r"\$\.partitions"):
        partitions_added("flights", [])


def test_importing_the_emitter_brings_nothing_heavy() -> None:
    heavy = {"asyncpg", "faust", "starlette", "pyspark", "pandas", "pyarrow", "httpx", "structlog", "sqlalchemy"}
    code = "import sys, streamsched.emit; print(*sorted({name.partition('.')[0] for name in sys.modules}))"

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not heavy & set(found.stdout.split())
