"""Another broker, seen through: what the doubles of a log are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamsched.ports.broker import (
    NOTHING_UNREAD,
    Broker,
    Capabilities,
    Outgoing,
    Reader,
    TopicPartition,
    TopicSpec,
    Writer,
)
from streamsched.ports.clock import Clock


class BrokerThrough:
    """`Broker` that passes every call on to `inner`; subclasses change the calls they are about."""

    def __init__(self, inner: Broker) -> None:
        self.inner = inner

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    def keep_time(self, clock: Clock) -> None:
        self.inner.keep_time(clock)

    async def create_topics(self, specs: Sequence[TopicSpec]) -> None:
        await self.inner.create_topics(specs)

    async def append(self, records: Sequence[Outgoing]) -> None:
        await self.inner.append(records)

    async def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return await self.inner.ends(partitions)

    async def partitions(self, topic: str) -> int:
        return await self.inner.partitions(topic)

    async def reader(self, positions: Mapping[TopicPartition, int]) -> Reader:
        return await self.inner.reader(positions)

    async def writer(self, name: str) -> Writer:
        return await self.inner.writer(name)

    async def report(self, name: str, positions: Mapping[TopicPartition, int]) -> None:
        await self.inner.report(name, positions)

    async def maintain(self, unread: Mapping[TopicPartition, int] = NOTHING_UNREAD) -> None:
        await self.inner.maintain(unread)

    async def close(self) -> None:
        await self.inner.close()
