"""Topics of a real Kafka, measured and watched."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from streamsched_brokers.kafka.address import Address

from compose.kafka.cluster import Cluster, free_addresses
from compose.kafka.properties import Shape
from streamsched.domain.errors import ConfigurationError, NotFoundError, UnavailableError
from streamsched.domain.events.topic_growth import TopicSize, begin_count, measure_growth
from streamsched.spark.streaming.topic_measuring import measure_topic
from streamsched.spark.streaming.topic_position import StreamMeasure

pytestmark = pytest.mark.kafka


class Topic:
    """A topic of a prefix of its own, as its producers and administrators see it."""

    def __init__(self, url: str, admin: AIOKafkaAdminClient, producer: AIOKafkaProducer) -> None:
        self.url = url
        self.name = Address.parse(url).prefix + "clicks"
        self.admin = admin
        self.producer = producer

    async def create(self, partitions: int = 1, **settings: str) -> None:
        made = NewTopic(self.name, partitions, 1, topic_configs=settings)
        response: Any = await self.admin.create_topics([made])
        assert [error for _, error, *_ in response.topic_errors] in ([0], [36])

    async def append(self, count: int, size: int, partition: int = 0) -> None:
        """Records of random bytes, a batch each, on disk when it returns."""
        for _ in range(count):
            await self.producer.send_and_wait(self.name, os.urandom(size), partition=partition)

    async def size(self, measure: StreamMeasure = StreamMeasure.BYTES) -> TopicSize:
        return await asyncio.to_thread(measure_topic, self.url, "clicks", measure)

    async def until(self, holds: Callable[[TopicSize], bool]) -> TopicSize:
        """The first measurement for which it holds."""
        async with asyncio.timeout(60):
            while True:
                try:
                    if holds(found := await self.size()):
                        return found
                except (NotFoundError, UnavailableError):
                    pass  # brokers learn of a new topic one after the other


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Topic]:
    servers = ",".join(Address.parse(url).servers)
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    producer = AIOKafkaProducer(bootstrap_servers=servers)
    await admin.start()
    await producer.start()
    try:
        yield Topic(url, admin, producer)
    finally:
        await producer.stop()
        await admin.close()


@pytest.fixture
async def topic(kafka_log: str) -> AsyncIterator[Topic]:
    async with connected(kafka_log) as made:
        yield made


async def test_bytes_are_those_on_disk_and_records_are_offsets(topic: Topic) -> None:
    await topic.create(2)
    first = await topic.until(lambda size: len(size.partitions) == 2)
    await topic.append(10, 1000)
    await topic.append(5, 2000, partition=1)

    growth, _ = measure_growth(begin_count(first, at_end=True), await topic.size())
    by_records, _ = measure_growth(begin_count(first, at_end=True), await topic.size(StreamMeasure.RECORDS))

    assert growth.records == by_records.records == 15
    assert (growth.estimated, by_records.bytes) == (0, 0)
    assert 20_000 < growth.bytes < 20_000 + 15 * 200, "each record with the head of its batch"


async def test_segments_that_retention_deletes_are_not_taken_off(topic: Topic) -> None:
    """Sizes after retention has deleted most of the topic, in several steps and in one."""
    await topic.create(1, **{"segment.bytes": str(1 << 20), "retention.bytes": str(1 << 20)})
    sizes = [await topic.until(lambda size: bool(size.partitions))]
    for _ in range(4):
        await topic.append(6, 200_000)
        sizes.append(await topic.size())
    sizes.append(await topic.until(lambda size: size.partitions[0].start > 0 and size.partitions[0].size < 2_400_000))

    had, total, records = begin_count(sizes[0], at_end=True), 0, 0
    for _, now in pairwise(sizes):
        growth, had = measure_growth(had, now)
        total, records = total + growth.bytes, records + growth.records

    assert records == 24
    assert 24 * 200_000 < total < 24 * 200_200, "records of one size: the mean is exact"
    assert sizes[-1].partitions[0].size < total / 2


async def test_deleted_records_added_partitions_and_a_topic_created_again(topic: Topic) -> None:
    await topic.create()
    await topic.until(lambda size: bool(size.partitions))
    await topic.append(5, 1000)
    had = begin_count(await topic.size(), at_end=True)

    await topic.admin.delete_records({TopicPartition(topic.name, 0): RecordsToDelete(before_offset=4)})
    await topic.append(1, 1000)
    growth, had = measure_growth(had, await topic.until(lambda size: size.partitions[0].start == 4))
    assert growth.records == 1
    assert 1000 < growth.bytes < 1200

    await topic.admin.create_partitions({topic.name: NewPartitions(total_count=2)})
    await topic.until(lambda size: len(size.partitions) == 2)
    await topic.producer.client.force_metadata_update()
    await topic.append(2, 500, partition=1)
    growth, had = measure_growth(had, await topic.size())
    assert (growth.records, growth.added, growth.recreated) == (2, (1,), False)

    await topic.admin.delete_topics([topic.name])
    async with asyncio.timeout(60):
        while True:
            try:
                await topic.size()
            except NotFoundError:
                break
    await topic.create()
    created = await topic.until(lambda size: size.id != had.id)
    assert measure_growth(had, created)[0].recreated


async def test_what_cannot_be_measured_is_said(topic: Topic, database: str) -> None:
    with pytest.raises(NotFoundError, match="clicks"):
        await topic.size()
    with pytest.raises(UnavailableError):
        await asyncio.to_thread(measure_topic, "kafka://127.0.0.1:1/", "clicks", StreamMeasure.BYTES)
    with pytest.raises(ConfigurationError, match=r"those of kafka:// can"):
        await asyncio.to_thread(measure_topic, database, "clicks", StreamMeasure.BYTES)


@pytest.fixture
def three(kafka: str, tmp_path: Path) -> Iterator[Cluster]:
    """Three brokers beside the session's, whose jars are there by now."""
    made = Cluster(tmp_path, Shape(free_addresses(3)))
    try:
        made.start()
        yield made
    finally:
        made.kill()


@pytest.mark.nightly
@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_partition_whose_broker_is_away_is_counted_when_it_is_back(three: Cluster) -> None:
    async with connected(three.url) as topic:
        await topic.create(3)
        first = await topic.until(lambda size: len(size.partitions) == 3)
        had = begin_count(first, at_end=True)
        dead = first.partitions[1].copy
        for partition in range(3):
            await topic.append(2, 1000, partition)

        three.kill(dead)
        there = await topic.until(lambda size: size.away == (1,))
        growth, had = measure_growth(had, there)
        assert (growth.records, growth.estimated) == (4, 0)
        three.start(dead)
        growth, _ = measure_growth(had, await topic.until(lambda size: len(size.partitions) == 3))

    assert (growth.records, growth.estimated) == (2, 0)
    assert 2000 < growth.bytes < 2400
