"""Delivers tasks to HTTP targets: a POST of the data as it is. A 2xx response acknowledges it; others fail."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import httpx

from streamsched.domain.tasks.attempt import Acknowledged, AttemptEnd, AttemptFailed, StartedTask
from streamsched.domain.tasks.queue import HttpTarget, Target
from streamsched.ports.clock import Clock
from streamsched.process.http_client import HttpClient

#: A target takes any number; the cap of its queue and the owner limit it.
_ROOM: Final = 1_000_000


class HttpReceiver:
    """See `ports.tasks.delivery.Receiver`. Names of lanes and keys are percent-encoded in headers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._client = HttpClient()

    def room(self, queue: str) -> int:
        del queue
        return _ROOM

    async def deliver(self, task: StartedTask, target: Target) -> AttemptEnd:
        assert isinstance(target, HttpTarget)
        try:
            prepared = request(task, target)
        except (httpx.InvalidURL, ValueError) as exc:
            return AttemptFailed(self._clock.now(), f"no request can be made of it: {exc}")
        answer = await self._client.send(prepared, target.timeout)
        now = self._clock.now()
        return Acknowledged(now, answer.text) if answer.accepted else AttemptFailed(now, answer.text)

    async def close(self) -> None:
        await self._client.close()


def request(task: StartedTask, target: HttpTarget) -> httpx.Request:
    """The request of this attempt; `Idempotency-Key` is the same for all attempts of a delivery."""
    headers = {
        **target.headers,
        "Idempotency-Key": task.token,
        "Streamsched-Task": task.id,
        "Streamsched-Queue": task.queue,
        "Streamsched-Lane": quote(task.lane, safe=""),
        "Streamsched-Key": quote(task.key, safe=""),
        "Streamsched-Attempt": str(task.attempt),
        "Streamsched-Due": task.planned_at.isoformat(),
    }
    if task.content_type:
        headers["Content-Type"] = task.content_type
    return httpx.Request("POST", target.url, headers=headers, content=task.data)
