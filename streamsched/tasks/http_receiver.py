"""Delivers tasks to HTTP targets: a POST of the data as it is. A 2xx response acknowledges it; others fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import quote

import httpx

from streamsched.domain.tasks.attempt import (
    LEASE_OVER,
    Acknowledged,
    AttemptEnd,
    AttemptFailed,
    Interrupted,
    StartedTask,
)
from streamsched.domain.tasks.queue import HttpTarget, Target
from streamsched.ports.clock import Clock
from streamsched.process.http_client import HttpClient, PreparedRequest

#: A target takes any number; the cap of its queue and the owner limit it.
_ROOM: Final = 1_000_000
#: Headers of a task; a target's own headers of these names are left out.
_OF_TASK: Final = (
    "Idempotency-Key",
    "Streamsched-Task",
    "Streamsched-Queue",
    "Streamsched-Lane",
    "Streamsched-Key",
    "Streamsched-Attempt",
    "Streamsched-Due",
    "Content-Length",
)
_NAMES: Final = frozenset(name.lower() for name in _OF_TASK)


class HttpReceiver:
    """A `tasks.attempt.Receiver`: HTTP servers. Names of lanes and keys are percent-encoded in headers.

    `leased`: whether no other process can be the owner of the tasks yet. It is asked again when there is a connection:
    a process that is paused while it opens one sends nothing afterwards.
    """

    def __init__(self, client: HttpClient, clock: Clock, *, leased: Callable[[], bool]) -> None:
        self._clock = clock
        self._leased = leased
        self._client = client
        self._made: dict[str, tuple[HttpTarget, PreparedRequest]] = {}

    def room(self, queue: str) -> int:
        """How many more requests it sends now."""
        del queue
        return _ROOM

    async def deliver(self, task: StartedTask, target: Target) -> AttemptEnd:
        """Sends the task to its URL; the answer, or that there was none, is the end of the attempt."""
        assert isinstance(target, HttpTarget)
        try:
            prepared = request(task, self._request_to(task.queue, target))
        except (httpx.InvalidURL, ValueError) as exc:
            return AttemptFailed(self._clock.now(), f"no request can be made of it: {exc}")
        answer = await self._client.send(prepared, target.timeout, allowed=self._leased)
        now = self._clock.now()
        if answer.withheld:
            return Interrupted(now, LEASE_OVER)
        return Acknowledged(now, answer.text) if answer.is_accepted else AttemptFailed(now, answer.text)

    async def close(self) -> None:
        await self._client.close()

    def _request_to(self, queue: str, target: HttpTarget) -> PreparedRequest:
        """The request to the target of a queue, made once for each definition of the queue."""
        known = self._made.get(queue)
        if known is None or known[0] is not target:
            known = self._made[queue] = (target, request_to(target))
        return known[1]


def request_to(target: HttpTarget) -> PreparedRequest:
    """What all requests to a target have in common.

    Raises:
        httpx.InvalidURL, ValueError: it is no address.
    """
    made = PreparedRequest.from_request(httpx.Request("POST", target.url, headers=dict(target.headers)))
    headers = [(name, value) for name, value in made.headers if name.lower() not in _NAMES]
    return PreparedRequest(made.method, made.url, headers, b"")


def request(task: StartedTask, to: PreparedRequest) -> PreparedRequest:
    """The request of this attempt; `Idempotency-Key` is the same for all attempts of a delivery."""
    values = (
        task.token,
        task.id,
        task.queue,
        quote(task.lane, safe=""),
        quote(task.key, safe=""),
        str(task.attempt),
        task.planned_at.isoformat(),
        str(len(task.data)),
    )
    headers = [*to.headers, *zip(_OF_TASK, values, strict=True)]
    if task.content_type:
        headers.append(("Content-Type", task.content_type))
    return PreparedRequest(to.method, to.url, headers, task.data)
