"""Clients that behave while brokers are away: their connections notice a dead network, and they do not ask who leads
what faster than anybody could know.
"""

from __future__ import annotations

import asyncio
import socket
from math import inf
from typing import Any, Final

from aiokafka.client import AIOKafkaClient

#: How long what was sent may stay unacknowledged by the other machine's TCP, in seconds. The broker behind it may be as
#: slow as `REQUEST_SECONDS` allow.
UNREACHABLE_SECONDS: Final = 5
#: On an idle connection: seconds until the first probe, and between probes.
_IDLE_SECONDS: Final = 3
_PROBE_SECONDS: Final = 2
_KEEPALIVE: Final = (
    ("TCP_KEEPIDLE", _IDLE_SECONDS),
    ("TCP_KEEPINTVL", _PROBE_SECONDS),
    ("TCP_KEEPCNT", 2),
    ("TCP_USER_TIMEOUT", UNREACHABLE_SECONDS * 1000),
)


#: Seconds between two questions of one client about who leads what.
_LOOK_SECONDS: Final = 0.05


def watchful(client: AIOKafkaClient) -> AIOKafkaClient:
    """The client, whose connections from now on end when the network does. Without it, what was sent into a cut is
    repeated at ever longer intervals, and long after the cut is healed nothing has come through. And one that has
    something for a partition without a leader asks for it now and then: aiokafka's producer would as often as brokers
    can answer, hundreds of times a second, just when they have other things to do.
    """
    client.force_metadata_update = _Looks(client).ask  # type: ignore[method-assign]
    connect = client._get_conn

    async def connected(node_id: Any, **how: Any) -> Any:
        connection = await connect(node_id, **how)
        if connection is not None and connection._writer is not None and not getattr(connection, "_watched", False):
            _watch(connection._writer.get_extra_info("socket"))
            connection._watched = True
        return connection

    client._get_conn = connected
    return client


class _Looks:
    """Looks around, at most so often; those who ask in between share the next look."""

    def __init__(self, client: AIOKafkaClient) -> None:
        self._client = client
        self._look = client.force_metadata_update
        self._loop = asyncio.get_running_loop()
        self._looked = -inf
        self._next: asyncio.Future[bool] | None = None

    def ask(self) -> asyncio.Future[bool]:
        """Whether it succeeded, once it has."""
        wait = self._looked + _LOOK_SECONDS - self._loop.time()
        if wait <= 0 or self._client._md_update_fut is not None:  # one that is under way is shared
            self._looked = self._loop.time()
            return self._look()
        if self._next is None or self._next.done():
            self._next = self._loop.create_future()
            self._loop.call_later(wait, self._answer, self._next)
        return asyncio.shield(self._next)

    def _answer(self, waiting: asyncio.Future[bool]) -> None:
        if self._client._sync_task is None:  # closed meanwhile: nobody would answer
            waiting.set_result(False)
            return
        self._looked = self._loop.time()
        self._look().add_done_callback(lambda look: waiting.done() or waiting.set_result(_succeeded(look)))


def _succeeded(look: asyncio.Future[bool]) -> bool:
    return not look.cancelled() and look.exception() is None and look.result()


def _watch(wire: socket.socket) -> None:
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):  # Linux has all of them
            wire.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
