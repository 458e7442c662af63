"""The broker port on PostgreSQL. Tables and functions are in `schema.sql`, statements in `queries.sql`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import asyncpg

from streamsched.domain.errors import NotFoundError
from streamsched.ports.broker import NOTHING_UNREAD, Capabilities, Outgoing, TopicPartition, TopicSpec
from streamsched.ports.clock import Clock
from streamsched_brokers.postgres.appender import PostgresAppender
from streamsched_brokers.postgres.batches import locate
from streamsched_brokers.postgres.catalog import PostgresTopicCatalog
from streamsched_brokers.postgres.compaction import Housekeeping, compact, expire
from streamsched_brokers.postgres.connection import open_pool, prepare, translate_errors
from streamsched_brokers.postgres.log_time import LogTime
from streamsched_brokers.postgres.reader import PostgresReader
from streamsched_brokers.postgres.sql import queries
from streamsched_brokers.postgres.wakeup import Wakeups
from streamsched_brokers.postgres.writer import PostgresWriter

CAPABILITIES = Capabilities(fenced=True, transactional=True, durable=True, compaction=True, shared=True)


async def open_broker(url: str, *, connections: int = 8, housekeeping: Housekeeping | None = None) -> PostgresBroker:
    """Opens the log in the database at `url` (`postgres://` or `postgresql://`, over TCP or a unix socket with
    `?host=/folder`), and creates its schema if it is missing.

    It uses up to `connections` connections, and another one to listen for notifications.

    Raises:
        UnavailableError: PostgreSQL cannot be reached.
        ConfigurationError: PostgreSQL refuses this client, or the URL is invalid.
    """
    with translate_errors():
        pool = await open_pool(url, size=connections)
        try:
            await prepare(pool)
        except BaseException:
            pool.terminate()
            raise
    return PostgresBroker(pool, Wakeups(url), housekeeping or Housekeeping())


class PostgresBroker:
    """One process's connections to the log."""

    def __init__(self, pool: asyncpg.Pool, wakeups: Wakeups, housekeeping: Housekeeping) -> None:
        self._pool = pool
        self._wakeups = wakeups
        self._housekeeping = housekeeping
        self._catalog = PostgresTopicCatalog(pool)
        self._time = LogTime()
        self._appender = PostgresAppender(pool, self._catalog, self._time)

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    def keep_time(self, clock: Clock) -> None:
        self._time.keep(clock)

    async def create_topics(self, specs: Sequence[TopicSpec]) -> None:
        with translate_errors():
            await self._catalog.create(specs)

    async def append(self, records: Sequence[Outgoing]) -> None:
        if records:
            await self._appender.append(records)

    async def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        with translate_errors():
            ids = await self._ids(partitions)
            rows = await self._pool.fetch(queries()["ends"], [i for i, _ in ids.values()], [p for _, p in ids.values()])
        return {at: row["end"] for at, row in zip(ids, rows, strict=True)}

    async def partitions(self, topic: str) -> int:
        with translate_errors():
            known = (await self._catalog.topics_with([topic])).get(topic)
        if known is None:
            raise NotFoundError("topic", topic)
        return known.partitions

    async def reader(self, positions: Mapping[TopicPartition, int]) -> PostgresReader:
        with translate_errors():
            return PostgresReader(self._pool, self._wakeups, await self._ids(positions), positions)

    async def writer(self, name: str) -> PostgresWriter:
        with translate_errors():
            epoch = await self._pool.fetchval(queries()["fence"], name)
        return PostgresWriter(self._pool, self._catalog, self._time, name, epoch)

    async def report(self, name: str, positions: Mapping[TopicPartition, int]) -> None:
        """Does nothing: PostgreSQL has no tools that show positions."""

    async def maintain(self, unread: Mapping[TopicPartition, int] = NOTHING_UNREAD) -> None:
        with translate_errors():
            await expire(self._pool, self._time, unread)
            await compact(self._pool, self._housekeeping, self._time)

    async def close(self) -> None:
        try:
            await self._appender.close()
            await self._wakeups.close()
            await self._pool.close()
        finally:
            self._pool.terminate()  # also when this call is cancelled while appends are in progress

    async def _ids(self, partitions: Sequence[TopicPartition] | Mapping[TopicPartition, int]):
        topics = await self._catalog.topics_with(at.topic for at in partitions)
        return {at: locate(*at, topics) for at in partitions}
