"""The server that `http` programs call: it answers each request after a moment, and counts them by their key: that of
a run or a task (`Idempotency-Key`), or the id of a webhook's message.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from anyio.from_thread import start_blocking_portal

_BROKEN_OFF = (asyncio.IncompleteReadError, ConnectionError)


class CountingServer:
    """Attributes:
    seen: how many requests came with each key.
    """

    def __init__(self, takes_s: Callable[[], float] = lambda: 0.02) -> None:
        self.seen: Counter[str] = Counter()
        self._takes_s = takes_s

    async def listen(self) -> asyncio.Server:
        """On a free port of this host."""
        return await asyncio.start_server(self.serve, "127.0.0.1", 0)

    @contextmanager
    def on_thread(self) -> Iterator[str]:
        """Its URL. A thread of its own serves it, so a long computation in the caller's loop delays no answer."""
        with start_blocking_portal() as portal:
            server = portal.call(self.listen)
            try:
                yield url_of(server)
            finally:
                portal.call(server.close)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                fields = dict(line.split(": ", 1) for line in head.splitlines()[1:] if line)
                named = {name.lower(): value for name, value in fields.items()}
                await reader.readexactly(int(named.get("content-length", 0)))
                self.seen[named.get("idempotency-key") or named["webhook-id"]] += 1
                await asyncio.sleep(self._takes_s())
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        except _BROKEN_OFF:
            pass
        finally:
            writer.close()


def url_of(server: asyncio.Server) -> str:
    """Where it listens."""
    return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
