"""Plain appends in groups: calls made while an append is in progress are appended together in the next transaction.

A hundred concurrent callers then need two transactions instead of a hundred that wait for the same partitions' locks.
A single caller is not delayed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import asyncpg

from streamsched.ports.broker import Outgoing
from streamsched_brokers.futures import retrieve_exception
from streamsched_brokers.postgres.batches import append, locate
from streamsched_brokers.postgres.catalog import PostgresTopicCatalog
from streamsched_brokers.postgres.connection import translate_errors
from streamsched_brokers.postgres.log_time import LogTime
from streamsched_brokers.postgres.sql import queries

#: A group with so many records is closed to further callers.
GROUP_RECORDS = 4000


class _Group:
    """Records of several callers, and the task that appends them."""

    def __init__(self, appender: PostgresAppender) -> None:
        self.records: list[Outgoing] = []
        self.closed = False
        self.sent = asyncio.create_task(appender._send(self), name="streamsched-log-append")
        self.sent.add_done_callback(retrieve_exception)


class PostgresAppender:
    """All plain appends of a broker object, one transaction at a time."""

    def __init__(self, pool: asyncpg.Pool, catalog: PostgresTopicCatalog, time: LogTime) -> None:
        self._pool = pool
        self._catalog = catalog
        self._time = time
        self._sending = asyncio.Lock()
        self._group: _Group | None = None

    async def append(self, records: Sequence[Outgoing]) -> None:
        """Returns when the records are durable. The append completes even if its caller is cancelled.

        Raises:
            NotFoundError: no such topic or partition; none of `records` is appended.
            UnavailableError: PostgreSQL did not answer; either all or none of them have been appended.
        """
        with translate_errors():
            topics = await self._catalog.topics_with(record.topic for record in records)
        for topic, partition in {(record.topic, record.partition) for record in records}:
            locate(topic, partition, topics)
        group = self._group
        if group is None or group.closed or len(group.records) >= GROUP_RECORDS:
            group = self._group = _Group(self)
        group.records.extend(records)
        await asyncio.shield(group.sent)

    async def close(self) -> None:
        """Waits for appends in progress."""
        if self._group is not None:
            await asyncio.wait([self._group.sent])

    async def _send(self, group: _Group) -> None:
        async with self._sending:
            group.closed = True
            with translate_errors():
                flat = append(group.records, await self._catalog.topics_with(()))
                await self._pool.execute(queries()["append"], *flat, self._time.now_ms())
