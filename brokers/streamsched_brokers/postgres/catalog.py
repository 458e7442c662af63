"""Creates topics and looks them up by name. A topic's id and partitions never change, so they are cached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import asyncpg

from streamsched.domain.errors import ConfigurationError
from streamsched.ports.broker import TopicSpec
from streamsched_brokers.postgres.batches import Topic
from streamsched_brokers.postgres.sql import queries


class PostgresTopicCatalog:
    """The topics of a log, cached."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._topics: Mapping[str, Topic] = {}

    async def topics_with(self, names: Iterable[str]) -> Mapping[str, Topic]:
        """All known topics; reads them again when one of `names` is missing."""
        if not self._topics.keys() >= set(names):
            rows = await self._pool.fetch(queries()["topics"])
            self._topics = {row["name"]: Topic(row["topic_id"], row["partitions"]) for row in rows}
        return self._topics

    async def create(self, specs: Sequence[TopicSpec]) -> None:
        """Creates the missing topics in one transaction.

        Raises:
            ConfigurationError: a topic exists with other partitions or another cleanup.
        """
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(queries()["lock_schema"])
            there = {row["name"]: row for row in await connection.fetch(queries()["topics"])}
            for spec in specs:
                row = there.get(spec.name)
                if row and (row["partitions"], row["cleanup"]) != (spec.partitions, spec.cleanup):
                    raise ConfigurationError(
                        f"topic '{spec.name}' exists with {row['partitions']} partitions, cleanup '{row['cleanup']}';"
                        f" wanted {spec.partitions} partitions, cleanup '{spec.cleanup}'"
                    )
                await connection.execute(
                    queries()["create_topic"],
                    spec.name,
                    spec.partitions,
                    spec.cleanup,
                    spec.retention,
                    spec.tombstones,
                )
