"""Plain appends, grouped: what arrives while one append is under way goes out as the next one, in one transaction.

A hundred callers at once then cost two transactions instead of a hundred that wait for the same partitions' locks; one
caller alone notices nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import asyncpg

from streamsched.ports.broker import Outgoing
from streamsched_brokers.futures import heard
from streamsched_brokers.postgres.batches import append, locate
from streamsched_brokers.postgres.catalog import Catalog
from streamsched_brokers.postgres.connection import translated
from streamsched_brokers.postgres.sql import queries

#: A group that has so many records takes no more callers.
GROUP_RECORDS = 4000


class _Group:
    """Records of several callers, and the task that appends them once it is their turn."""

    def __init__(self, appender: Appender) -> None:
        self.records: list[Outgoing] = []
        self.closed = False
        self.sent = asyncio.create_task(appender._send(self), name="streamsched-log-append")
        self.sent.add_done_callback(heard)


class Appender:
    """All plain appends of a broker, one transaction at a time."""

    def __init__(self, pool: asyncpg.Pool, catalog: Catalog) -> None:
        self._pool = pool
        self._catalog = catalog
        self._turn = asyncio.Lock()
        self._group: _Group | None = None

    async def append(self, records: Sequence[Outgoing]) -> None:
        """Returns when the records are durable. Once begun it goes on though its caller be cancelled.

        Raises:
            NotFoundError: no such topic or partition; nothing of `records` is appended.
            UnavailableError: PostgreSQL did not answer; they may have been appended, all or none.
        """
        with translated():
            topics = await self._catalog.covering(record.topic for record in records)
        for topic, partition in {(record.topic, record.partition) for record in records}:
            locate(topic, partition, topics)
        group = self._group
        if group is None or group.closed or len(group.records) >= GROUP_RECORDS:
            group = self._group = _Group(self)
        group.records.extend(records)
        await asyncio.shield(group.sent)

    async def close(self) -> None:
        """Waits for the appends under way."""
        if self._group is not None:
            await asyncio.wait([self._group.sent])

    async def _send(self, group: _Group) -> None:
        async with self._turn:
            group.closed = True
            with translated():
                flat = append(group.records, await self._catalog.covering(()))
                await self._pool.execute(queries()["append"], *flat)
