"""The far side of a queue: an HTTP server that records each delivery and answers as the trial has it."""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from dataclasses import dataclass
from typing import Final

#: Lanes with this prefix are not acknowledged until they are released: one half fails, the other half has no answer.
STUCK: Final = "stuck-"
#: Seconds that a request without an answer is held; longer than the time limit of the queue, shorter than a lease.
_HELD_S: Final = 2.5
_LONGEST_S: Final = 0.03
_HEADER: Final = re.compile(rb"(?im)^(content-length|idempotency-key|streamsched-attempt): *([^\r\n]*)")


@dataclass(slots=True)
class Delivery:
    """One request. Times are seconds since the epoch.

    Attributes:
        due: of the registration that was delivered, from its data.
        token, attempt: what the request gives as its delivery and attempt.
        ended: when it was answered or broken off; infinite: it is on its way.
    """

    lane: str
    key: str
    version: int
    due: float
    token: str
    attempt: int
    arrived: float
    ended: float = float("inf")
    acknowledged: bool = False


class TaskReceiver:
    """Attributes:
    deliveries: in the order of their arrival.
    released: whether lanes that were stuck are acknowledged now.
    """

    def __init__(self, rng: random.Random, *, failing: float = 0.02) -> None:
        self.deliveries: list[Delivery] = []
        self.released = False
        self._rng = rng
        self._failing = failing

    async def listen(self) -> asyncio.Server:
        """On a free port of this host."""
        loop = asyncio.get_running_loop()
        return await loop.create_server(self.connection, "127.0.0.1", 0, backlog=4096)

    def connection(self) -> asyncio.Protocol:
        """One connection of a client."""
        return _Connection(self)

    def answer_to(self, delivery: Delivery) -> tuple[float, int]:
        """After how many seconds it is answered, and by which status."""
        if delivery.lane.startswith(STUCK) and not self.released:
            return (0.0, 500) if int(delivery.lane.split("-")[1]) % 2 else (_HELD_S, 503)
        return self._rng.uniform(0, _LONGEST_S), 503 if self._rng.random() < self._failing else 200


class _Connection(asyncio.Protocol):
    """One request after another. A request whose connection is lost before the answer is not acknowledged."""

    def __init__(self, receiver: TaskReceiver) -> None:
        self._receiver = receiver
        self._transport: asyncio.Transport | None = None
        self._unread = b""
        self._open: Delivery | None = None
        self._answer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._unread += data
        head, end, body = self._unread.partition(b"\r\n\r\n")
        if not end or self._open is not None:
            return
        fields = {name.lower(): value.decode() for name, value in _HEADER.findall(head)}
        length = int(fields.get(b"content-length", 0))
        if len(body) < length:
            return
        self._unread = body[length:]
        content = json.loads(body[:length])
        delivery = Delivery(
            content["lane"],
            content["key"],
            int(content["version"]),
            float(content["due"]),
            fields[b"idempotency-key"],
            int(fields[b"streamsched-attempt"]),
            time.time(),
        )
        self._receiver.deliveries.append(delivery)
        after_s, status = self._receiver.answer_to(delivery)
        self._open = delivery
        self._answer = asyncio.get_running_loop().call_later(after_s, self._end, delivery, status)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._open is not None and self._answer is not None:
            self._answer.cancel()
            self._open.ended = time.time()

    def _end(self, delivery: Delivery, status: int) -> None:
        assert self._transport is not None
        self._open = None
        delivery.ended = time.time()
        delivery.acknowledged = status == 200
        self._transport.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode())
        self.data_received(b"")
