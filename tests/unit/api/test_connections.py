"""Connections of a real server that send half a request, take no answer, or are too many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from streamsched.api.bounds.connections import Connections
from streamsched.api.serving import KEEP_ALIVE_S, HttpServer, bind

_HEAD = b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n"


@asynccontextmanager
async def server(**limits: float) -> AsyncIterator[int]:
    """The port of a server with these limits."""

    async def root(request: Request) -> Response:
        return Response("answered" if request.method == "GET" else await request.body())

    async def endless(request: Request) -> Response:
        del request

        async def chunks() -> AsyncIterator[bytes]:
            while True:
                await asyncio.sleep(0)
                yield bytes(1 << 16)

        return StreamingResponse(chunks())

    app = Starlette(routes=[Route("/", root, methods=["GET", "POST"]), Route("/endless", endless)])
    bound = bind("127.0.0.1", 0)
    started = asyncio.Event()
    connections = Connections(**limits)  # type: ignore[arg-type]
    serving = asyncio.create_task(HttpServer(app, bound, started=started.set, connections=connections).run())
    await started.wait()
    try:
        yield bound.getsockname()[1]
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        bound.close()


async def test_half_a_head_is_not_waited_for() -> None:
    async with server(head_s=0.2) as port, asyncio.timeout(10):
        for sent in (b"", _HEAD, _HEAD + b"x: "):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            assert await read_to_end(reader) == b""
            writer.close()


async def test_a_head_of_single_bytes_is_not_waited_for() -> None:
    async with server(head_s=0.2) as port, asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        ended = asyncio.create_task(read_to_end(reader))
        writer.write(_HEAD)
        while not ended.done():
            writer.write(b"x")
            await asyncio.wait((ended,), timeout=0.05)
        assert await ended == b""
        writer.close()


async def test_the_time_for_a_head_begins_again_with_the_next_request() -> None:
    async with server(head_s=1.5) as port, asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        began = monotonic()
        while monotonic() - began < 4:
            writer.write(_HEAD + b"\r\n")
            assert (await reader.readuntil(b"answered")).startswith(b"HTTP/1.1 200")
            await asyncio.sleep(0.2)
        writer.close()


async def test_a_slow_body_is_none_of_a_connections_business() -> None:
    async with server(head_s=0.2) as port, asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 2\r\n\r\na")
        await asyncio.sleep(2.5)
        writer.write(b"b")
        assert (await reader.readuntil(b"ab")).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_an_answer_that_nobody_takes_is_given_up() -> None:
    async with server(answer_s=0.5) as port, asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(b"GET /endless HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        await asyncio.sleep(4)  # its buffers are full long before
        taken = len(await read_to_end(reader))
        assert taken < 64 << 20
        writer.close()


async def test_one_address_leaves_connections_for_others() -> None:
    async with server(most=10) as port, asyncio.timeout(10):
        first = [await asyncio.open_connection("127.0.0.1", port) for _ in range(6)]
        for reader, writer in first[:5]:
            writer.write(_HEAD + b"\r\n")
            assert (await reader.readuntil(b"answered")).startswith(b"HTTP/1.1 200")
        refused = await read_to_end(first[5][0])
        assert refused.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 2" in refused

        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
        writer.write(_HEAD + b"\r\n")
        assert (await reader.readuntil(b"answered")).startswith(b"HTTP/1.1 200")
        for _, each in [*first, (reader, writer)]:
            each.close()


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """What comes until the connection ends; a reset is an end."""
    found = b""
    try:
        while chunk := await reader.read(1 << 16):
            found += chunk
    except ConnectionError:
        pass
    return found


def test_a_client_closes_an_idle_connection_before_the_server_does() -> None:
    """Else a request meets a connection that is being closed, and is reset."""
    assert (httpx.Limits().keepalive_expiry or 0) * 2 < KEEP_ALIVE_S
    with bind("127.0.0.1", 0) as bound:
        assert HttpServer(Starlette(), bound)._config.timeout_keep_alive == KEEP_ALIVE_S
