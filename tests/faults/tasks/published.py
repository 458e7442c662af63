"""Reads the events that a publishing queue made of its tasks, as deliveries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import asyncpg
import orjson

from streamsched.log.topics import EVENTS
from streamsched.ports.broker import Broker, TopicPartition
from tests.faults.judges.log import ends_of, records_up_to
from tests.faults.tasks.receiver import Delivery


class PublishedTasks:
    """The events of one trial, from the ends of their topic at its beginning."""

    def __init__(self, broker: Broker, pool: asyncpg.Pool) -> None:
        self._broker = broker
        self._pool = pool
        self._from: Mapping[TopicPartition, int] = {}

    async def begin(self) -> None:
        self._from = await ends_of(self._broker, EVENTS)

    async def all_relayed(self) -> bool:
        """Whether all that was stored so far is in the log."""
        return not await self._pool.fetchval("SELECT count(*) FROM outbox")

    async def deliveries(self) -> Sequence[Delivery]:
        """All since the beginning of the trial, in the order of the log. Each is acknowledged when it is logged."""
        ends = await ends_of(self._broker, EVENTS)
        return [
            _delivery(orjson.loads(record.value or b""), record.time_ms / 1000)
            async for _, record in records_up_to(self._broker, ends, self._from)
        ]


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
