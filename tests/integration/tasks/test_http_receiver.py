"""The bytes of a request to an HTTP target, and what its answers mean."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from streamsched.domain.addresses import EVERYWHERE
from streamsched.domain.tasks.attempt import Acknowledged, AttemptFailed, Interrupted, StartedTask
from streamsched.domain.tasks.queue import HttpTarget
from streamsched.ports.clock import SystemClock
from streamsched.process.http_client import HttpClient
from streamsched.tasks.http_receiver import HttpReceiver

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Server:
    """Answers each request with `status` and keeps what it read."""

    def __init__(self) -> None:
        self.status = "200 OK"
        self.got: list[tuple[str, dict[str, list[str]], bytes]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers: dict[str, list[str]] = {}
                for line in head[1:-2]:
                    name, _, value = line.partition(": ")
                    headers.setdefault(name.lower(), []).append(value)
                (length,) = headers["content-length"]
                self.got.append((head[0], headers, await reader.readexactly(int(length))))
                writer.write(f"HTTP/1.1 {self.status}\r\nContent-Length: 4\r\n\r\nbody".encode())
        except (asyncio.IncompleteReadError, ConnectionResetError):
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[tuple[Server, str]]:
    made = Server()
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    async with listening:
        yield made, f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


def task(lane: str = "l", key: str = "k", data: bytes = b"", kind: str = "", failures: int = 0) -> StartedTask:
    return StartedTask(
        id="t",
        queue="q",
        lane=lane,
        lane_id="0" * 32,
        partition=0,
        key=key,
        generation=7,
        due_at=NOON,
        planned_at=NOON,
        fired=2,
        failures=failures,
        started_at=NOON,
        data=data,
        content_type=kind,
    )


async def test_each_request_has_the_headers_of_its_target_and_of_its_task(server: tuple[Server, str]) -> None:
    far, url = server
    given = {"Authorization": "Bearer x y", "streamsched-lane": "not this"}
    target, receiver = (
        HttpTarget(f"{url}/a%2Fb?c=d", headers=given),
        HttpReceiver(HttpClient(EVERYWHERE), SystemClock(), leased=lambda: True),
    )
    hostile = "ü/✓\r\nX-Injected: 1\0"
    for each in (
        task(),
        task("a b", "c,d", b"\0\r\n\r\n\xff", "text/plain"),
        task(hostile, hostile, b"x" * 262_144, failures=3),
    ):
        end = await receiver.deliver(each, target)
        assert isinstance(end, Acknowledged)
        assert end.detail == "HTTP 200: body"
    other = await receiver.deliver(task(), HttpTarget(f"{url}/other"))
    assert isinstance(other, Acknowledged), "the target of the queue was changed"
    await receiver.close()

    assert [line for line, _, _ in far.got] == [*["POST /a%2Fb?c=d HTTP/1.1"] * 3, "POST /other HTTP/1.1"]
    assert [body for _, _, body in far.got] == [b"", b"\0\r\n\r\n\xff", b"x" * 262_144, b""]
    first, second, third, _ = (headers for _, headers, _ in far.got)
    assert first == {
        "host": [url.removeprefix("http://")],
        "authorization": ["Bearer x y"],
        "idempotency-key": ["t.7.2"],
        "streamsched-task": ["t"],
        "streamsched-queue": ["q"],
        "streamsched-lane": ["l"],
        "streamsched-key": ["k"],
        "streamsched-attempt": ["1"],
        "streamsched-due": ["2026-03-01T12:00:00+00:00"],
        "content-length": ["0"],
    }
    assert (second["streamsched-lane"], second["content-type"]) == (["a%20b"], ["text/plain"])
    assert third["streamsched-key"] == ["%C3%BC%2F%E2%9C%93%0D%0AX-Injected%3A%201%00"]
    assert third["streamsched-attempt"] == ["4"]


async def test_what_is_no_2xx_has_failed_with_a_reason(server: tuple[Server, str]) -> None:
    far, url = server
    receiver = HttpReceiver(HttpClient(EVERYWHERE), SystemClock(), leased=lambda: True)
    reasons: list[str] = []
    for status in ("500 Oops", "302 Found", "404 Not Found"):
        far.status = status
        end = await receiver.deliver(task(), HttpTarget(url))
        assert isinstance(end, AttemptFailed)
        reasons.append(end.reason)
    nowhere = await receiver.deliver(task(), HttpTarget("http://127.0.0.1:9/", timeout=timedelta(seconds=5)))
    await receiver.close()

    assert reasons == ["HTTP 500: body", "HTTP 302: body", "HTTP 404: body"]
    assert isinstance(nowhere, AttemptFailed)
    assert nowhere.reason.startswith("no answer: ")


async def test_nothing_is_sent_when_the_lease_ended_while_the_connection_was_opened(server: tuple[Server, str]) -> None:
    far, url = server
    leased = True
    receiver = HttpReceiver(HttpClient(EVERYWHERE), SystemClock(), leased=lambda: leased)
    await receiver.deliver(task(data=b"first"), HttpTarget(url))

    leased = False
    reused = await receiver.deliver(task(data=b"second"), HttpTarget(url))
    opened = await receiver.deliver(task(data=b"third"), HttpTarget(url))
    leased = True
    after = await receiver.deliver(task(data=b"fourth"), HttpTarget(url))
    await receiver.close()

    assert isinstance(reused, Interrupted)
    assert isinstance(opened, Interrupted)
    assert isinstance(after, Acknowledged)
    assert [body for _, _, body in far.got] == [b"first", b"fourth"]
