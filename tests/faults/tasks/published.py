"""Reads the events that a publishing queue made of its tasks, as deliveries."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg
import orjson

from streamsched.log.topics import EVENTS
from streamsched.ports.broker import Broker, TopicPartition
from tests.faults.tasks.receiver import Delivery


class PublishedTasks:
    """The events of one trial, from the ends of their topic at its beginning."""

    def __init__(self, broker: Broker, pool: asyncpg.Pool) -> None:
        self._broker = broker
        self._pool = pool
        self._from: dict[TopicPartition, int] = {}

    async def begin(self) -> None:
        self._from = dict(await self._ends())

    async def all_relayed(self) -> bool:
        """Whether all that was stored so far is in the log."""
        return not await self._pool.fetchval("SELECT count(*) FROM outbox")

    async def deliveries(self) -> Sequence[Delivery]:
        """All since the beginning of the trial, in the order of the log. Each is acknowledged when it is logged."""
        ends = await self._ends()
        at = dict(self._from)
        reader = await self._broker.reader(at)
        found: list[Delivery] = []
        try:
            while any(at[each] < ends[each] for each in ends):
                for chunk in await reader.read(max_records=5000, timeout=1):
                    at[TopicPartition(chunk.topic, chunk.partition)] = chunk.next_position
                    found += [_delivery(orjson.loads(each.value or b""), each.time_ms / 1000) for each in chunk.records]
        finally:
            await reader.close()
        return found

    async def _ends(self) -> dict[TopicPartition, int]:
        topic = [TopicPartition(EVENTS, number) for number in range(await self._broker.partitions(EVENTS))]
        return dict(await self._broker.ends(topic))


def _delivery(event: dict, at: float) -> Delivery:
    content = event["data"]["attributes"]
    return Delivery(
        content["lane"],
        content["key"],
        int(content["version"]),
        float(content["due"]),
        token=event["id"],
        attempt=1,
        arrived=at,
        ended=at,
        acknowledged=True,
    )
