"""The fenced writer: a commit is one statement, which checks the fence in the database."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from streamsched.domain.errors import FencedError
from streamsched.ports.broker import Outgoing
from streamsched_brokers.postgres.batches import append
from streamsched_brokers.postgres.catalog import PostgresTopicCatalog
from streamsched_brokers.postgres.connection import translate_errors
from streamsched_brokers.postgres.log_time import LogTime
from streamsched_brokers.postgres.sql import queries


class PostgresWriter:
    """The writer of a name at one epoch."""

    def __init__(self, pool: asyncpg.Pool, catalog: PostgresTopicCatalog, time: LogTime, name: str, epoch: int) -> None:
        self._pool = pool
        self._catalog = catalog
        self._time = time
        self._name = name
        self._epoch = epoch

    async def commit(self, records: Sequence[Outgoing]) -> None:
        with translate_errors():
            flat = append(records, await self._catalog.topics_with(record.topic for record in records))
            now_ms = self._time.now_ms()
            written = await self._pool.fetchval(queries()["commit"], self._name, self._epoch, *flat, now_ms)
        if not written:
            raise FencedError(self._name)

    async def close(self) -> None: ...
