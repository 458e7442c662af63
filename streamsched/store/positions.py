"""How far topics of the log are stored. The statement that stores rows also moves the position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from streamsched.ports.broker import TopicPartition
from streamsched.store.connections import Executor, Pool, translate_errors
from streamsched.store.sql import Select, queries

_SQL: Final = queries("positions")


class _PartitionPosition(NamedTuple):
    """The position of a partition."""

    partition: int
    position: int


class _TopicPosition(NamedTuple):
    """The position of a partition of a topic."""

    topic: str
    partition: int
    position: int


#: The next position to read of each partition of a topic.
POSITIONS: Final = Select(_SQL["positions"], _PartitionPosition)
_ALL_POSITIONS: Final = Select(_SQL["all_positions"], _TopicPosition)


async def read_positions(executor: Executor) -> Mapping[TopicPartition, int]:
    """How far each partition of the topics stored as rows is stored."""
    return {TopicPartition(row.topic, row.partition): row.position for row in await _ALL_POSITIONS.fetch(executor)}


class StoredPositions:
    """The part of `ports.intake.IntakeStore` that is the same for every table."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def positions(self, topic: str, partitions: int) -> Mapping[int, int]:
        """The next position to read of each partition of the topic; 0 for a new one."""
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["ensure"], topic, partitions)
                rows = await POSITIONS.fetch(connection, topic)
        return {row.partition: row.position for row in rows if row.partition < partitions}
