"""The connections of an HTTP server: how many there may be, and how long one may take (ADR 33).

| the connection | |
|---|---|
| has not sent the whole head of a request after 10 s | is closed |
| takes less than 16 KiB of an answer in 60 s | is closed |
| is one more than are free, for its address or for all | gets 503 and is closed |

Bodies have their own times (`api.body`), and idle connections those of uvicorn.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

#: Seconds for the head of a request, and in which an answer must get on by so many bytes.
HEAD_S: Final = 10.0
ANSWER_S: Final = 60.0
_LEAST_TAKEN: Final = 16 * 1024
#: Seconds between two looks at all connections.
_EVERY_S: Final = 1.0
#: The most connections of a server.
MOST: Final = 1000
_CROWDED: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 2\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: 20\r\nconnection: close\r\n\r\ntoo many connections"
)


@dataclass(slots=True)
class Connections:
    """Those of one server. An address may have as many as are free for the others: never all.

    Attributes:
        most: of all addresses.
        head_s, answer_s: the times of the table above.
    """

    most: int = MOST
    head_s: float = HEAD_S
    answer_s: float = ANSWER_S
    _open: set[WatchedConnection] = field(default_factory=set)
    _by_address: Counter[str] = field(default_factory=Counter)

    def admit(self, connection: WatchedConnection) -> bool:
        """Whether there is room for one more; it is counted then, until `leave`."""
        address = connection.address
        if self._by_address[address] >= self.most - len(self._open):
            return False
        self._by_address[address] += 1
        self._open.add(connection)
        return True

    def leave(self, connection: WatchedConnection) -> None:
        """Counts one less; nothing if it was not admitted."""
        if connection not in self._open:
            return
        self._open.discard(connection)
        self._by_address[connection.address] -= 1
        if not self._by_address[connection.address]:
            del self._by_address[connection.address]

    async def watch(self) -> None:
        """Closes connections that take too long, until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(_EVERY_S)
            for connection in list(self._open):
                connection.check(clock(), self)


class WatchedConnection(H11Protocol):
    """A connection of uvicorn that knows since when it waits for its client. `watched` is set by `connection_class`."""

    watched: Connections
    address: str = ""
    _head_since: float | None = None
    _answer_since: float | None = None
    _answer_left: int = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Answers a connection beyond the limits with 503 and closes it."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self._head_since = self.loop.time()
        if not self.watched.admit(self):
            transport.write(_CROWDED)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Frees its place."""
        self.watched.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Begins to measure the time of a head with its first byte, and ends when it is complete."""
        if self.transport.is_closing():
            return
        if self._head_since is None and not self._answering:
            self._head_since = self.loop.time()
        super().data_received(data)
        if self._answering:
            self._head_since = None

    def on_response_complete(self) -> None:
        """The time between requests is not measured."""
        self._head_since = None
        super().on_response_complete()
        if self._answering:  # the next request was there already
            self._head_since = None

    def check(self, now: float, limits: Connections) -> None:
        """Closes the connection when its client takes longer than it may."""
        if self._head_since is not None and now - self._head_since > limits.head_s:
            self.transport.abort()
            return
        if not self.flow.write_paused:
            self._answer_since = None
            return
        left = self.transport.get_write_buffer_size()
        if self._answer_since is None or left <= self._answer_left - _LEAST_TAKEN:
            self._answer_since, self._answer_left = now, left
        elif now - self._answer_since > limits.answer_s:
            self.transport.abort()

    @property
    def _answering(self) -> bool:
        """Whether a request has been received, at least its head, and is not answered completely."""
        return self.cycle is not None and not self.cycle.response_complete


def connection_class(watched: Connections) -> type[Any]:
    """The class of a server's connections."""
    return type("Connection", (WatchedConnection,), {"watched": watched})
