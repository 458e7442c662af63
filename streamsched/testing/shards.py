"""The shards of an installation in one process, without workers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Self

from streamsched.codec import event as event_codec
from streamsched.codec.records import launch as launch_codec
from streamsched.domain.events.event import Event
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.signals.home import home
from streamsched.log.records import records
from streamsched.log.topics import LAUNCH, public_topic, topic_specs
from streamsched.ports.broker import Broker, Outgoing, Record, TopicPartition
from streamsched.stream.shards.shard import Shard, ShardSettings


class Shards:
    """`count` shards on a log. A shard whose turn fails is not started over: `settle` raises."""

    def __init__(self, broker: Broker, count: int = 3) -> None:
        self.broker = broker
        self.count = count
        self.shards: list[Shard] = []

    @classmethod
    async def create(cls, broker: Broker, count: int = 3) -> Self:
        """Shards on a log whose topics exist now."""
        await broker.create_topics(topic_specs(count, timedelta(days=7)))
        return cls(broker, count)

    async def start(self, settings: ShardSettings | None = None) -> None:
        """Starts every shard anew; former ones are fenced, not stopped."""
        self.shards = [Shard(self.broker, number, settings) for number in range(self.count)]
        await asyncio.gather(*(shard.start() for shard in self.shards))

    async def stop(self) -> None:
        """Stops every shard."""
        shards, self.shards = self.shards, []
        await asyncio.gather(*(shard.stop() for shard in shards))

    async def emit(self, *events: Event, partition: int | None = None) -> None:
        """Appends events to their public topics, by our own partitioner unless `partition` says another."""
        await self.broker.append(
            [
                Outgoing(
                    public_topic(event.fact),
                    home(event.key, self.count) if partition is None else partition,
                    event.key.encode(),
                    event_codec.encode(event),
                )
                for event in events
            ]
        )

    async def settle(self, within_s: float = 20.0) -> None:
        """Until the shards have started and taken every record of every source, and what came of it too.

        Raises:
            TimeoutError: they did not get there.
        """
        async with asyncio.timeout(within_s):
            while True:
                started = all(shard.positions for shard in self.shards)  # asked first: one may start while we wait
                positions = {source: at for shard in self.shards for source, at in shard.positions.items()}
                ends = await self.broker.ends(list(positions))
                if started and all(positions[at] >= ends[at] for at in ends):
                    return
                await asyncio.sleep(0.002)

    async def ends(self) -> Mapping[TopicPartition, int]:
        """How far every topic has grown."""
        topics = [spec.name for spec in topic_specs(self.count, timedelta(days=7))]
        parts = [
            TopicPartition(name, number) for name in topics for number in range(await self.broker.partitions(name))
        ]
        return await self.broker.ends(parts)

    async def records(self, topic: str) -> Sequence[Record]:
        """Everything in a topic, partition by partition."""
        places = [TopicPartition(topic, number) for number in range(await self.broker.partitions(topic))]
        return [record for place in places async for record in records(self.broker, place)]

    async def jobs(self) -> list[ReadyJob]:
        """What was launched, by schedule and sequence."""
        jobs = [launch_codec.decode(record.value) for record in await self.records(LAUNCH) if record.value is not None]
        return sorted(jobs, key=lambda job: (job.schedule, job.generation, job.sequence))
