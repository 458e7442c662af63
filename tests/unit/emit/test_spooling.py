"""An emitter with a spool returns promptly and loses nothing, whatever its server does."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import orjson
import pytest

from streamsched.domain.errors import ConfigurationError, RefusedError, UnavailableError
from streamsched.emit import AsyncEmitter, Emitter, RetryLimits, custom, drain
from streamsched.emit.spool import KEPT

#: Long enough that nothing but `hold` can end an emit within the bound of these tests.
PROMPT = RetryLimits(deadline=timedelta(minutes=5), hold=timedelta(milliseconds=300), first=timedelta(milliseconds=10))
#: Seconds; one request that is not answered takes ten.
BOUND = 5.0

Answer = tuple[int, bytes]


class Server:
    """Takes CloudEvents batches; `answer` may be changed at any time, and blocks while `open` is cleared."""

    def __init__(self) -> None:
        self.answer: Callable[[int], Answer] = taken
        self.open = threading.Event()
        self.open.set()
        self.asked = threading.Event()
        self.ids: list[str] = []
        self.all_there = threading.Event()
        self.wanted = 1
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.asked.set()
                server.open.wait(60)
                status, said = server.answer(len(body))
                if status < 300:
                    server.ids += [event["id"] for event in body]
                self.send_response(status)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)
                if len(set(server.ids)) >= server.wanted:
                    server.all_there.set()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class names it
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self.open.set()
        self._server.shutdown()
        self._server.server_close()


def taken(count: int) -> Answer:
    return 202, orjson.dumps({"accepted": count, "errors": [], "unheard": []})


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def away() -> str:
    server = Server()
    server.close()
    return server.url


@pytest.fixture
def mute() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def kept(folder: Path) -> list[str]:
    """Ids of the spooled events, oldest file first. A file that is being sent gets no more events: a new one begins."""
    lines = [line for file in sorted(folder.glob(f"*{KEPT}")) for line in file.read_bytes().splitlines()]
    return [orjson.loads(line)["id"] for line in lines]


def test_a_server_that_is_away_costs_an_emit_nothing(away: str, tmp_path: Path) -> None:
    started = time.monotonic()
    with Emitter(away, source="test", spool=tmp_path) as emitter:
        emitted = [emitter.emit(custom("e", event_id=str(n))) for n in range(5)]

    assert time.monotonic() - started < BOUND
    assert [each.spooled for each in emitted] == [1] * 5
    assert kept(tmp_path) == ["0", "1", "2", "3", "4"]


def test_a_server_that_never_answers_costs_an_emit_no_more_than_the_hold(mute: str, tmp_path: Path) -> None:
    """The first emit waits for the hold, those after it not at all while that request is unanswered."""
    started = time.monotonic()
    with Emitter(mute, source="test", spool=tmp_path, patience=PROMPT) as emitter:
        emitted = [emitter.emit(custom("e", event_id=str(n))) for n in range(50)]

    assert time.monotonic() - started < BOUND
    assert sum(each.spooled for each in emitted) == 50
    assert kept(tmp_path) == [str(n) for n in range(50)]


async def test_the_asynchronous_emitter_is_as_prompt(mute: str, tmp_path: Path) -> None:
    started = time.monotonic()
    async with AsyncEmitter(mute, source="test", spool=tmp_path, patience=PROMPT) as emitter:
        assert (await emitter.emit(custom("e"))).spooled == 1

    assert time.monotonic() - started < BOUND


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_a_server_that_fails_gets_the_event_in_the_background(server: Server, tmp_path: Path, status: int) -> None:
    failures = iter([(status, b"{}")] * 3)
    server.answer = lambda count: next(failures, taken(count))

    with Emitter(server.url, source="test", spool=tmp_path, patience=PROMPT) as emitter:
        assert emitter.emit(custom("e", event_id="1")).spooled == 1
        assert server.all_there.wait(20)

    assert server.ids == ["1"]
    assert kept(tmp_path) == []


def test_a_slow_server_gets_each_event_in_order_and_the_repeat_has_the_same_id(server: Server, tmp_path: Path) -> None:
    server.open.clear()
    server.wanted = 2
    with Emitter(server.url, source="test", spool=tmp_path, patience=PROMPT) as emitter:
        assert emitter.emit(custom("size", event_id="1")).spooled == 1  # under way, and given up
        assert emitter.emit(custom("size", event_id="2")).spooled == 1
        server.open.set()
        assert server.all_there.wait(20)
        emitter.emit(custom("size", event_id="3"))
        emitter.drain()

    assert list(dict.fromkeys(server.ids)) == ["1", "2", "3"]
    assert kept(tmp_path) == []


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_server_that_admits_no_job_raises_at_once_and_keeps_what_was_kept(
    away: str, server: Server, tmp_path: Path, status: int
) -> None:
    with Emitter(away, source="test", spool=tmp_path, patience=PROMPT) as emitter:
        emitter.emit(custom("e", event_id="1"))
    server.answer = lambda _: (status, b"{}")

    with Emitter(server.url, source="test", spool=tmp_path, patience=PROMPT) as emitter:
        with pytest.raises(ConfigurationError, match=str(status)):
            emitter.emit(custom("e", event_id="2"))
        with pytest.raises(ConfigurationError, match=str(status)):
            emitter.drain()

    assert kept(tmp_path) == ["1"]


def test_a_refused_event_raises_and_is_not_kept(server: Server, tmp_path: Path) -> None:
    errors = [{"index": 0, "path": "$[0].data", "reason": "no"}]
    server.answer = lambda _: (400, orjson.dumps({"accepted": 0, "errors": errors}))

    with Emitter(server.url, source="test", spool=tmp_path) as emitter, pytest.raises(RefusedError, match="no"):
        emitter.emit(custom("e"))

    assert list(tmp_path.iterdir()) == []


def test_an_event_refused_after_it_was_spooled_is_set_aside_with_its_reason(server: Server, tmp_path: Path) -> None:
    errors = [{"index": 0, "path": "$[0].data", "reason": "no such thing"}]
    server.answer = lambda _: (400, orjson.dumps({"accepted": 0, "errors": errors}))
    server.open.clear()

    with Emitter(server.url, source="test", spool=tmp_path, patience=PROMPT) as emitter:
        assert emitter.emit(custom("e", event_id="1")).spooled == 1
        server.open.set()
        emitter.drain()

    (aside,) = tmp_path.glob("*.refused")
    assert b"no such thing" in aside.read_bytes()
    assert kept(tmp_path) == []


def test_closing_does_not_wait_for_a_server_that_never_answers(mute: str, tmp_path: Path) -> None:
    emitter = Emitter(mute, source="test", spool=tmp_path, patience=PROMPT)
    emitter.emit(custom("e", event_id="1"))

    started = time.monotonic()
    emitter.close()

    assert time.monotonic() - started < BOUND
    assert kept(tmp_path) == ["1"]


def test_closing_tries_once_more(server: Server, tmp_path: Path) -> None:
    failures = iter([(503, b"{}")])
    server.answer = lambda count: next(failures, taken(count))
    patient = RetryLimits(first=timedelta(hours=1), cap=timedelta(hours=1))  # nothing is sent in the background

    with Emitter(server.url, source="test", spool=tmp_path, patience=patient) as emitter:
        assert emitter.emit(custom("e", event_id="1")).spooled == 1

    assert server.ids == ["1"]
    assert kept(tmp_path) == []


def test_threads_of_a_process_that_emit_together_lose_nothing(server: Server, tmp_path: Path) -> None:
    """While the server answers, fails and answers again."""
    answers = iter(range(10**6))
    server.answer = lambda count: (500, b"{}") if next(answers) % 3 == 0 else taken(count)
    server.wanted = 80

    with Emitter(server.url, source="test", spool=tmp_path, patience=PROMPT) as emitter:

        def emit(name: int) -> None:
            for n in range(20):
                emitter.emit(custom(f"e{name}", event_id=f"{name}-{n}"))

        threads = [threading.Thread(target=emit, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert server.all_there.wait(30)

    for name in range(4):
        mine = [each for each in dict.fromkeys(server.ids) if each.startswith(f"{name}-")]
        assert mine == [f"{name}-{n}" for n in range(20)]


def test_an_idle_emitter_has_no_thread(server: Server, tmp_path: Path) -> None:
    emitter = Emitter(server.url, source="test", spool=tmp_path)
    emitter.emit(custom("e"))

    for thread in threading.enumerate():
        if thread.name == "streamsched-emit":
            thread.join(10)
            assert not thread.is_alive()


def test_a_disk_that_takes_nothing_raises(away: str, tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("a file, no folder")

    with (
        Emitter(away, source="test", spool=tmp_path / "spool") as emitter,
        pytest.raises(UnavailableError, match=r"neither sent .* nor spooled"),
    ):
        emitter.emit(custom("e"))


def test_a_process_killed_after_an_emit_loses_nothing(mute: str, server: Server, tmp_path: Path) -> None:
    code = (
        "import sys; from streamsched.emit import Emitter, custom\n"
        f"emitter = Emitter({mute!r}, source='test', spool={str(tmp_path)!r})\n"
        "for n in range(3): emitter.emit(custom('e', event_id=str(n)))\n"
        "print('done', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == b"done\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    process.stdin.close()
    process.stdout.close()

    assert drain(tmp_path, server.url).sent == 3
    assert server.ids == ["0", "1", "2"]


def test_a_process_that_ends_does_not_wait_for_the_server(mute: str, tmp_path: Path) -> None:
    """Nor for a thread of its emitter, though it was not closed."""
    code = (
        "from streamsched.emit import Emitter, custom\n"
        f"Emitter({mute!r}, source='test', spool={str(tmp_path)!r}).emit(custom('e', event_id='1'))"
    )
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

    assert time.monotonic() - started < 2 * BOUND
    assert kept(tmp_path) == ["1"]


def test_while_the_server_is_away_an_emit_does_not_ask_it(server: Server, tmp_path: Path) -> None:
    """However much is kept: only the background thread tries, after its pauses."""
    server.answer = lambda _: (503, b"{}")
    patient = RetryLimits(first=timedelta(hours=2), cap=timedelta(hours=2))
    with Emitter(server.url, source="test", spool=tmp_path, patience=patient) as emitter:
        emitter.emit(custom("e", event_id="0"))
        server.asked.clear()
        for n in range(1, 300):
            assert emitter.emit(custom("e", event_id=str(n))).spooled == 1
        assert not server.asked.is_set()

        server.answer = taken
        assert emitter.drain().sent == 300
        assert emitter.emit(custom("e", event_id="300")).accepted == 1

    assert server.ids == [str(n) for n in range(301)]


def test_a_file_of_the_spool_has_a_limit(away: str, tmp_path: Path) -> None:
    large = {"a": "x" * (1 << 20)}
    with Emitter(away, source="test", spool=tmp_path) as emitter:
        for n in range(10):
            emitter.emit(custom("e", large, event_id=str(n)))

    sizes = [path.stat().st_size for path in tmp_path.glob("*.events")]
    assert len(sizes) == 3
    assert max(sizes) < 6 << 20
