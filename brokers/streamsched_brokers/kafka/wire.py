"""Changes to aiokafka's client for unavailable brokers: dead connections are detected, metadata requests are
limited.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from math import inf
from typing import Any, Final

from aiokafka.client import AIOKafkaClient, ConnectionGroup

from streamsched.process.tcp_keepalive import TcpKeepalive

#: Seconds for which sent data may be unacknowledged by TCP, and that a connection may take; the broker itself has
#: `REQUEST_SECONDS` to answer.
UNREACHABLE_SECONDS: Final = 5
_KEEPALIVE: Final = TcpKeepalive(idle_s=3, interval_s=2, probes=2, unacknowledged_s=UNREACHABLE_SECONDS)
#: A node that did not answer for so many seconds is not tried again for as many.
_SILENT_SECONDS: Final = 1.0
#: Seconds between two metadata requests of one client.
_INTERVAL_SECONDS: Final = 0.05


def detect_dead_connections(client: AIOKafkaClient) -> AIOKafkaClient:
    """Patches and returns the client. Its connections close when the network is interrupted: otherwise TCP retransmits
    at growing intervals, and stays silent long after the network is restored. And its metadata requests are limited in
    rate: aiokafka's producer repeats them hundreds of times per second while a partition has no leader. And callers
    that wait for a connection to the same node share its failure.
    """
    client.force_metadata_update = _MetadataUpdates(client).request  # type: ignore[method-assign]
    connect = _SharedFailures(client).connect

    async def connect_watched(node_id: Any, **how: Any) -> Any:
        connection = await connect(node_id, **how)
        if connection is not None and connection._writer is not None and not getattr(connection, "_watched", False):
            _KEEPALIVE.watch(connection._writer.get_extra_info("socket"))
            connection._watched = True
        return connection

    client._get_conn = connect_watched
    return client


class _SharedFailures:
    """One attempt to connect to a node at a time, for all who wait. aiokafka has one lock for all nodes and has each
    waiting caller try anew: with a node that is cut off, ten callers would wait a hundred seconds. A node that did not
    answer is left alone for a moment, in which another one is asked for the new leaders.
    """

    def __init__(self, client: AIOKafkaClient) -> None:
        self._client = client
        self._connect = client._get_conn
        self._loop = asyncio.get_running_loop()
        self._locks: defaultdict[Any, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._failed: dict[Any, float] = {}
        self._silent_until: dict[Any, float] = {}

    async def connect(self, node_id: Any, **how: Any) -> Any:
        """The connection; None when the node cannot be reached."""
        known = self._client._conns.get((node_id, how.get("group", ConnectionGroup.DEFAULT)))
        if known is not None and known.connected():  # of nearly every request: no lock, no timer
            return known
        came, node = self._loop.time(), (node_id, *how.values())
        async with self._locks[node]:
            began = self._loop.time()
            if self._failed.get(node, -inf) >= came or began < self._silent_until.get(node, -inf):
                return None
            try:
                async with asyncio.timeout(UNREACHABLE_SECONDS):
                    connection = await self._connect(node_id, **how)
            except TimeoutError:
                self._client.force_metadata_update()
                connection = None
            if connection is None:
                self._failed[node] = now = self._loop.time()
                if now - began >= _SILENT_SECONDS:
                    self._silent_until[node] = now + _SILENT_SECONDS
            return connection


class _MetadataUpdates:
    """Limits metadata requests to one per interval; callers in between share the next one."""

    def __init__(self, client: AIOKafkaClient) -> None:
        self._client = client
        self._update = client.force_metadata_update
        self._loop = asyncio.get_running_loop()
        self._updated = -inf
        self._next: asyncio.Future[bool] | None = None

    def request(self) -> asyncio.Future[bool]:
        """A future of whether the update succeeded."""
        wait = self._updated + _INTERVAL_SECONDS - self._loop.time()
        if wait <= 0 or self._client._md_update_fut is not None:  # an update in progress is shared
            self._updated = self._loop.time()
            return self._update()
        if self._next is None or self._next.done():
            self._next = self._loop.create_future()
            self._loop.call_later(wait, self._answer, self._next)
        return asyncio.shield(self._next)

    def _answer(self, waiting: asyncio.Future[bool]) -> None:
        if self._client._sync_task is None:  # the client was closed: there will be no response
            waiting.set_result(False)
            return
        self._updated = self._loop.time()
        self._update().add_done_callback(lambda update: waiting.done() or waiting.set_result(_has_succeeded(update)))


def _has_succeeded(update: asyncio.Future[bool]) -> bool:
    return not update.cancelled() and update.exception() is None and update.result()
