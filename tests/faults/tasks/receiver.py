"""The far side of a queue: an HTTP server that records each delivery and answers as the trial has it."""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass
from typing import Final

#: Lanes with this prefix are not acknowledged until they are released: one half fails, the other half has no answer.
STUCK: Final = "stuck-"
#: Seconds that a request without an answer is held; longer than the time limit of the queue, shorter than a lease.
_HELD_S: Final = 2.5
_LONGEST_S: Final = 0.03
_BROKEN_OFF = (asyncio.IncompleteReadError, ConnectionError)


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
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=4096)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                fields = dict(line.split(": ", 1) for line in head.splitlines()[1:] if line)
                named = {name.lower(): value for name, value in fields.items()}
                content = json.loads(await reader.readexactly(int(named.get("content-length", 0))))
                delivery = Delivery(
                    content["lane"],
                    content["key"],
                    content["version"],
                    content["due"],
                    named["idempotency-key"],
                    int(named["streamsched-attempt"]),
                    time.time(),
                )
                self.deliveries.append(delivery)
                try:
                    status = await self._status(delivery, reader)
                finally:
                    delivery.ended = time.time()
                if status is None:
                    return
                delivery.acknowledged = status == 200
                writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode())
        except _BROKEN_OFF:
            pass
        finally:
            writer.close()

    async def _status(self, delivery: Delivery, reader: asyncio.StreamReader) -> int | None:
        """The status of the answer; None: there is none."""
        if delivery.lane.startswith(STUCK) and not self.released:
            if int(delivery.lane.removeprefix(STUCK)) % 2:
                return 500
            try:
                await asyncio.wait_for(reader.read(1), _HELD_S)
            except TimeoutError:
                return 503
            return None
        await asyncio.sleep(self._rng.uniform(0, _LONGEST_S))
        return 503 if self._rng.random() < self._failing else 200
