"""Topics on Kafka: how they are made, what is changed on them and by whom, and the sizes they take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from streamsched_brokers.kafka.driver import KafkaBroker, open_broker

from streamsched.admin.topics import check_topics
from streamsched.domain.errors import ConfigurationError, NotFoundError, TooLargeError, UnavailableError
from streamsched.log.generation import of_generation
from streamsched.log.records import records
from streamsched.log.topics import SEEN_CHANGELOG, keyed_specs
from streamsched.ports.broker import Broker, Chunk, Cleanup, Outgoing, TopicPartition, TopicSpec
from streamsched.testing.broker_contract.harness import fresh_name
from tests.topic_settings import change, reported, settings_of

pytestmark = pytest.mark.kafka

BIG = 3 << 20


@pytest.fixture
async def broker(kafka_log: str) -> AsyncIterator[KafkaBroker]:
    broker = await open_broker(kafka_log)
    yield broker
    await broker.close()


async def values(broker: Broker, at: TopicPartition) -> list[bytes | None]:
    return [record.value async for record in records(broker, at)]


async def shrink(broker: KafkaBroker, topic: str, size: int) -> None:
    """Records larger than `size` are refused from now on."""
    await change(broker, topic, {"max.message.bytes": str(size)})
    async with asyncio.timeout(30):
        with suppress(TooLargeError):
            while True:
                await broker.append([Outgoing(topic, 0, None, b"?" * 2 * size)])


# -- topics


async def test_prefixes_keep_installations_apart(kafka: str, broker: KafkaBroker) -> None:
    other = await open_broker(f"{kafka}?prefix={fresh_name('other')}.")
    for each in (broker, other):
        await each.create_topics([TopicSpec("same", 1)])
    at = TopicPartition("same", 0)
    mine, theirs = await broker.writer("same"), await other.writer("same")
    await mine.commit([Outgoing(*at, None, b"mine")])
    await theirs.commit([Outgoing(*at, None, b"theirs")])
    await mine.commit([Outgoing(*at, None, b"mine again")])

    assert await values(broker, at) == [b"mine", b"mine again"]
    assert await values(other, at) == [b"theirs"]

    await other.close()


async def test_topics_are_made_as_specified(broker: KafkaBroker) -> None:
    await broker.create_topics(
        [TopicSpec("kept", 2, retention=timedelta(days=2)), TopicSpec("table", 1, Cleanup.COMPACT), TopicSpec("all", 1)]
    )
    kept, table, everything = [await settings_of(broker, name) for name in ("kept", "table", "all")]

    assert (kept["cleanup.policy"], kept["retention.ms"], kept["segment.ms"]) == ("delete", "172800000", "3600000")
    assert (table["cleanup.policy"], everything["retention.ms"]) == ("compact", "-1")
    assert {each["message.timestamp.type"] for each in (kept, table, everything)} == {"LogAppendTime"}


async def test_tombstones_of_a_changelog_stay_as_long_as_ids_are_known(broker: KafkaBroker) -> None:
    for horizon, stay in (timedelta(minutes=10), "3600000"), (timedelta(hours=5), "18000000"):
        await broker.create_topics(keyed_specs(1, timedelta(days=7), horizon=horizon))
        await reported(broker, SEEN_CHANGELOG, {"delete.retention.ms": stay})


async def test_what_may_change_is_changed_and_the_rest_is_left_alone(broker: KafkaBroker) -> None:
    spec = TopicSpec("topic", 1, retention=timedelta(days=2))
    await broker.create_topics([spec])
    by_hand = {"message.timestamp.type": "CreateTime", "max.message.bytes": "5000", "segment.ms": "123456"}
    await change(broker, "topic", by_hand)
    await broker.create_topics([replace(spec, retention=timedelta(days=3))])
    now = await reported(broker, "topic", {"retention.ms": "259200000", "message.timestamp.type": "LogAppendTime"})

    assert int(now["max.message.bytes"]) > broker._link.address.max_record_bytes
    assert now["segment.ms"] == "123456"


async def test_a_topic_whose_producers_stamp_records_is_reported(broker: KafkaBroker) -> None:
    """Lateness and repeats go by the log's time: one record of the year 9999 would have all ids forgotten."""
    spec = TopicSpec("topic", 1)
    await broker.create_topics([spec])
    assert [each.wrong for each in await check_topics(broker, [spec])] == [""]
    await change(broker, "topic", {"message.timestamp.type": "CreateTime"})
    await reported(broker, "topic", {"message.timestamp.type": "CreateTime"})

    (report,) = await check_topics(of_generation(broker, 2), [spec])

    assert report.wrong.startswith("has message.timestamp.type=CreateTime and must have LogAppendTime")


async def test_another_number_of_copies_is_refused_where_one_was_asked_for(kafka_log: str, broker: KafkaBroker) -> None:
    await broker.create_topics([TopicSpec("topic", 1)])
    for wanted, says in [("replication=3", "replication 1.*replication 3"), ("min_insync=2", "min.insync.replicas")]:
        picky = await open_broker(f"{kafka_log}&{wanted}")
        with pytest.raises(ConfigurationError, match=says):
            await picky.create_topics([TopicSpec("topic", 1)])
        await picky.close()


async def test_with_fewer_brokers_than_copies_no_topic_is_made(kafka_log: str, broker: KafkaBroker) -> None:
    """The others may still be coming up: a topic made now would have too few copies forever."""
    greedy = await open_broker(f"{kafka_log}&replication=9")
    with pytest.raises(UnavailableError, match="too few for replication=9"):
        await greedy.create_topics([TopicSpec("topic", 1)])
    await greedy.close()
    with pytest.raises(NotFoundError):
        await broker.partitions("topic")


async def test_a_setting_kafka_does_not_take_is_reported_in_its_words(kafka_log: str) -> None:
    broker = await open_broker(f"{kafka_log}&topic.segment.ms=often")
    with pytest.raises(ConfigurationError, match=r"segment\.ms"):
        await broker.create_topics([TopicSpec("topic", 1)])
    await broker.close()


# -- sizes


async def test_large_records_go_through_and_larger_ones_are_refused_before_anything_is_sent(
    kafka_log: str, broker: KafkaBroker
) -> None:
    strict = await open_broker(f"{kafka_log}&max_record_bytes={BIG}")
    await strict.create_topics([TopicSpec("topic", 2)])
    at, other = TopicPartition("topic", 0), TopicPartition("topic", 1)
    large, too_large = b"x" * (BIG - 1000), b"x" * (BIG + 1)
    writer = await strict.writer("writer")
    await writer.commit([Outgoing(*at, b"k", large)] * 4)
    for refuse in (strict.append, writer.commit):
        with pytest.raises(TooLargeError) as refused:
            await refuse([Outgoing(*other, None, b"never"), Outgoing(*at, b"k", too_large)])
        assert (refused.value.topic, refused.value.limit) == ("topic", BIG)

    assert await values(strict, at) == [large] * 4
    assert (await strict.ends([other]))[other] == 0

    await strict.close()


async def test_a_wrong_append_hurts_no_other_it_travels_with(kafka_log: str) -> None:
    broker = await open_broker(f"{kafka_log}&max_record_bytes={1 << 20}")
    await broker.create_topics([TopicSpec("topic", 1)])
    at = TopicPartition("topic", 0)
    outcomes = await asyncio.gather(
        *(broker.append([Outgoing(*at, None, b"x" * (1 if n % 3 else 2 << 20))]) for n in range(9)),
        return_exceptions=True,
    )

    assert [isinstance(outcome, TooLargeError) for outcome in outcomes] == [n % 3 == 0 for n in range(9)]
    assert await values(broker, at) == [b"x"] * 6

    await broker.close()


async def test_a_topic_that_takes_less_than_ours_says_so_by_its_name(broker: KafkaBroker) -> None:
    """It was changed by an operator. An error that could pass would have the shard try forever."""
    await broker.create_topics([TopicSpec("small", 1), TopicSpec("topic", 1)])
    await shrink(broker, "small", 2000)
    writer = await broker.writer("writer")
    with pytest.raises(TooLargeError) as refused:
        await writer.commit([Outgoing("topic", 0, None, b"y"), Outgoing("small", 0, None, b"x" * 5000)])
    await writer.close()

    assert (refused.value.topic, refused.value.size, refused.value.limit) == ("small", 5000, 2000)
    assert await values(broker, TopicPartition("topic", 0)) == []


async def test_an_append_that_its_topic_is_too_small_for_is_refused_alone(broker: KafkaBroker) -> None:
    await broker.create_topics([TopicSpec("small", 1), TopicSpec("topic", 1)])
    await shrink(broker, "small", 2000)
    at, small = TopicPartition("topic", 0), TopicPartition("small", 0)
    outcomes = await asyncio.gather(
        *(broker.append([Outgoing(*(at if n % 2 else small), None, b"x" * 5000)]) for n in range(4)),
        broker.append([Outgoing(*small, None, b"fits")]),
        return_exceptions=True,
    )

    assert [getattr(outcome, "limit", outcome) for outcome in outcomes] == [2000, None, 2000, None, None]
    assert set(await values(broker, at)) == {b"x" * 5000}
    assert [value for value in await values(broker, small) if value and not value.startswith(b"?")] == [b"fits"]


async def test_a_reader_is_told_what_kafka_deleted_before_it_came(kafka: str, broker: KafkaBroker) -> None:
    """Retention of Kafka knows no positions of ours: 400 events vanished without a word."""
    await broker.create_topics([TopicSpec("topic", 1)])
    at = TopicPartition("topic", 0)
    await broker.append([Outgoing(*at, None, b"%d" % n) for n in range(10)])
    reader = await broker.reader({at: 2})
    name = broker._link.address.real_name("topic")
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.removeprefix("kafka://").rstrip("/"))
    await admin.start()
    try:
        await admin.delete_records({KafkaPartition(name, 0): RecordsToDelete(before_offset=7)})
    finally:
        await admin.close()

    chunks: list[Chunk] = []
    while not chunks or chunks[-1].next_position < 10:
        chunks += await reader.read(max_records=100, timeout=5)

    assert sum(chunk.deleted for chunk in chunks) == 5
    assert [record.offset for chunk in chunks for record in chunk.records] == [7, 8, 9]
    await reader.close()
