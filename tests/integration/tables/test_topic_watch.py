"""A watcher of a topic of a real Kafka, whose position and events are kept by a real API."""

from __future__ import annotations

import asyncio
import os
from functools import partial

import pytest
from aiokafka import AIOKafkaProducer
from streamsched_brokers.kafka.address import Address

from streamsched.codec import event as codec
from streamsched.domain.events.event import StreamSize
from streamsched.domain.names import StreamRef
from streamsched.emit import Emitter
from streamsched.emit.bookmarks import BookmarkClient
from streamsched.log.drivers import open_broker
from streamsched.log.topics import STREAM_SIZES
from streamsched.ports.broker import TopicPartition, TopicSpec
from streamsched.spark.streaming.topic_measuring import measure_topic
from streamsched.spark.streaming.topic_position import StreamMeasure
from streamsched.spark.streaming.topic_watcher import TopicPhase, TopicWatcher, TopicWatchResult
from tests.integration.tables.conftest import NOW, Server

pytestmark = [pytest.mark.postgres, pytest.mark.kafka]

CLICKS = StreamRef("default", "clicks")


class Killed(BaseException):
    """The process ends."""


def check(url: str, kafka: str, dies_at: TopicPhase | None) -> TopicWatchResult:
    """One check by a new process."""

    def reached(phase: TopicPhase) -> None:
        if phase is dies_at:
            raise Killed

    with Emitter(url, source=f"/streams/{CLICKS}") as emitter:
        return TopicWatcher(
            CLICKS,
            "clicks",
            partial(measure_topic, kafka, "clicks", StreamMeasure.BYTES),
            measure=StreamMeasure.BYTES,
            bookmarks=BookmarkClient(url, {}),
            emitter=emitter,
            reached=reached,
        ).run_once()


async def stream_sizes(server: Server) -> dict[str, StreamSize]:
    """The events in the log by id, each once."""
    shards = range(server.services.layout.unkeyed_partitions)
    reader = await server.services.broker.reader({TopicPartition(STREAM_SIZES, shard): 0 for shard in shards})
    found: dict[str, StreamSize] = {}
    while chunks := await reader.read(max_records=1000, timeout=0.2):
        for record in (record for chunk in chunks for record in chunk.records):
            event = codec.decode(record.value or b"", fallback_id="", fallback_time=NOW)
            assert isinstance(event.fact, StreamSize)
            assert found.setdefault(event.id, event.fact) == event.fact
    await reader.close()
    return found


async def test_growth_reaches_the_log_once_though_the_watcher_is_killed_again_and_again(
    server: Server, kafka_log: str
) -> None:
    broker = await open_broker(kafka_log)
    await broker.create_topics([TopicSpec("clicks", 1)])
    await broker.close()
    address = Address.parse(kafka_log)
    begun = await asyncio.to_thread(check, server.url, kafka_log, None)
    assert begun.began
    before = await asyncio.to_thread(measure_topic, kafka_log, "clicks", StreamMeasure.BYTES)

    async with AIOKafkaProducer(bootstrap_servers=",".join(address.servers)) as producer:
        for phase in TopicPhase:
            await producer.send_and_wait(address.prefix + "clicks", os.urandom(1000), partition=0)
            with pytest.raises(Killed):
                await asyncio.to_thread(check, server.url, kafka_log, phase)
        await producer.send_and_wait(address.prefix + "clicks", os.urandom(1000), partition=0)
    await asyncio.to_thread(check, server.url, kafka_log, None)
    assert (await asyncio.to_thread(check, server.url, kafka_log, None)).sent == ()

    after = await asyncio.to_thread(measure_topic, kafka_log, "clicks", StreamMeasure.BYTES)
    events = await stream_sizes(server)
    assert sum(each.bytes for each in events.values()) == after.partitions[0].size - before.partitions[0].size > 4000
    assert {(each.stream, each.absolute) for each in events.values()} == {(CLICKS, False)}
