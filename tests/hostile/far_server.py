"""An HTTP server that `http` programs ask: well-behaved at `/well`, hostile at other addresses."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

#: How long a hostile answer may go on, in seconds, and how many bytes it may have.
_LONGEST_S: Final = 30.0
_LARGEST: Final = 200 * 1024 * 1024
_PIECE: Final = b"x" * 65536

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


async def _well(out: asyncio.StreamWriter) -> None:
    out.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")


async def _hang(out: asyncio.StreamWriter) -> None:
    del out
    await asyncio.sleep(_LONGEST_S)


async def _flood(out: asyncio.StreamWriter) -> None:
    out.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    for _ in range(_LARGEST // len(_PIECE)):
        out.write(_PIECE)
        await out.drain()


async def _bomb(out: asyncio.StreamWriter) -> None:
    packed = gzip.compress(bytes(100 * 1024 * 1024))
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
    out.write(head.encode() + packed)


async def _refuse(out: asyncio.StreamWriter) -> None:
    out.write(b"HTTP/1.1 500 No\r\nConnection: close\r\n\r\n" + b"\0\xff\xfe <b>no</b> " * 100_000)


async def _drip(out: asyncio.StreamWriter) -> None:
    out.write(b"HTTP/1.1 200 OK\r\n")
    for n in range(int(_LONGEST_S)):
        out.write(f"X-{n}: {n}\r\n".encode())
        await out.drain()
        await asyncio.sleep(1)


async def _turn(out: asyncio.StreamWriter) -> None:
    out.write(b"HTTP/1.1 302 Found\r\nLocation: /turn\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


async def _elsewhere(out: asyncio.StreamWriter) -> None:
    out.write(b"HTTP/1.1 307 Moved\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


async def _headers(out: asyncio.StreamWriter) -> None:
    out.write(b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(200_000)) + b"\r\n")


async def _nonsense(out: asyncio.StreamWriter) -> None:
    out.write(b"\x16\x03\x01 this is no HTTP \0\0\0" * 1000)


async def _close(out: asyncio.StreamWriter) -> None:
    del out


async def _odd(out: asyncio.StreamWriter) -> None:
    out.write(b"HTTP/1.1 799 \xff\xfe\r\nContent-Length: -5\r\n\r\n")


async def _short(out: asyncio.StreamWriter) -> None:
    out.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\nno more")


ANSWERS: Final[Mapping[str, Answer]] = {
    answer.__name__.removeprefix("_"): answer
    for answer in (
        _well,
        _hang,
        _flood,
        _bomb,
        _refuse,
        _drip,
        _turn,
        _elsewhere,
        _headers,
        _nonsense,
        _close,
        _odd,
        _short,
    )
}


@asynccontextmanager
async def far_server() -> AsyncIterator[str]:
    """Its URL."""
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        server.close()


async def _serve(incoming: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
        head = await incoming.readuntil(b"\r\n\r\n")
        kind = head.split(b" ")[1].decode(errors="replace").strip("/").partition("/")[0]
        async with asyncio.timeout(_LONGEST_S):
            await ANSWERS.get(kind, _well)(out)
            await out.drain()
    with suppress(OSError):
        out.close()
