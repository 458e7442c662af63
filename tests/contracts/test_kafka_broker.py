"""The log on Kafka keeps the broker contract; what it does beyond it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupCoordinatorNotAvailableError
from streamsched_brokers.kafka.address import Address
from streamsched_brokers.kafka.driver import KafkaBroker, open_broker
from streamsched_brokers.kafka.sending import abandon, send

from streamsched.domain.errors import UnavailableError
from streamsched.log.records import records
from streamsched.ports.broker import Broker, Cleanup, Outgoing, Record, TopicPartition, TopicSpec
from streamsched.testing.broker_contract import BrokerContract, OpenBroker
from streamsched.testing.broker_contract.harness import fresh_name

pytestmark = pytest.mark.kafka

#: Segments end after a tenth of a second and are cleaned as soon as one record in a hundred may go.
BUSY = "?topic.segment.ms=100&topic.min.cleanable.dirty.ratio=0.01"


@pytest.mark.long
class TestKafkaBroker(BrokerContract):
    @pytest.fixture
    def broker(self, kafka: str) -> OpenBroker:
        async def opens() -> KafkaBroker:
            return await open_broker(kafka + BUSY)

        return opens


async def test_it_skips_nothing(kafka_log: str) -> None:
    broker = await open_broker(kafka_log)

    assert all(asdict(broker.capabilities).values())

    await broker.close()


@pytest.fixture
async def broker(kafka_log: str) -> AsyncIterator[KafkaBroker]:
    broker = await open_broker(kafka_log)
    yield broker
    await broker.close()


async def all_of(broker: Broker, at: TopicPartition, position: int = 0) -> list[Record]:
    """What is there, up to the end as it is now."""
    return [record async for record in records(broker, at, start=position)]


async def values(broker: Broker, at: TopicPartition) -> list[bytes | None]:
    return [record.value async for record in records(broker, at)]


# -- holes


async def test_compaction_leaves_holes_that_readers_pass(kafka: str) -> None:
    """Real compaction, by Kafka's own cleaner; positions inside what it took away read on from the next record."""
    broker = await open_broker(
        f"{kafka}?prefix={fresh_name('t')}.&topic.segment.ms=100&topic.min.cleanable.dirty.ratio=0.01"
    )
    await broker.create_topics([TopicSpec("table", 1, Cleanup.COMPACT)])
    at = TopicPartition("table", 0)
    writer = await broker.writer("writer")
    before = turn = 0
    async with asyncio.timeout(60):
        while True:
            await writer.commit([Outgoing(*at, b"k%d" % (n % 3), b"%d.%d" % (turn, n)) for n in range(30)])
            left = await all_of(broker, at)
            before += 30
            if len(left) < before / 2:
                break
            turn += 1
            await asyncio.sleep(0.1)
    newest = {record.key: record.value for record in left}

    assert newest == {b"k%d" % key: b"%d.%d" % (turn, 27 + key) for key in range(3)}

    end = (await broker.ends([at]))[at]
    for position in range(0, end, max(1, end // 20)):
        seen = await all_of(broker, at, position)
        assert set(seen) >= {record for record in left[-3:] if record.offset >= position}
        assert all(record.offset >= position for record in seen)

    await broker.close()


async def test_what_an_aborted_transaction_left_is_passed_without_a_record(broker: KafkaBroker) -> None:
    await broker.create_topics([TopicSpec("topic", 1)])
    at = TopicPartition("topic", 0)
    old = await broker.writer("writer")
    await old._producer.begin_transaction()
    await send(old._producer, [Outgoing(*at, None, b"never %d" % n) for n in range(5)], broker._link.address)
    new = await broker.writer("writer")  # aborts it

    assert await values(broker, at) == []
    assert (await broker.ends([at]))[at] == 6, "five records and a marker"

    await new.commit([Outgoing(*at, None, b"mine")])

    assert await values(broker, at) == [b"mine"]


async def test_a_position_past_the_end_is_an_error_and_no_new_beginning(broker: KafkaBroker) -> None:
    """Kafka's consumers would start over from the beginning or the end: everything twice, or something never."""
    await broker.create_topics([TopicSpec("topic", 1)])
    at = TopicPartition("topic", 0)
    await broker.append([Outgoing(*at, None, b"one")])
    reader = await broker.reader({at: 1000})
    with pytest.raises(UnavailableError, match="ends at 1, but was read up to 1000"):
        await reader.read(max_records=10, timeout=0.1)
    await reader.close()


@pytest.mark.long
async def test_a_partition_without_a_leader_holds_up_no_other(broker: KafkaBroker) -> None:
    await broker.create_topics([TopicSpec("topic", 2)])
    orphan, led = TopicPartition("topic", 0), TopicPartition("topic", 1)
    reader = await broker.reader({orphan: 0, led: 0})
    cluster = reader._link.client.cluster
    known = cluster.leader_for_partition
    cluster.leader_for_partition = lambda partition: known(partition) if partition.partition == led.partition else None
    await broker.append([Outgoing(*orphan, None, b"waits")])
    for number in range(3):
        await broker.append([Outgoing(*led, None, b"%d" % number)])
        (chunk,) = await reader.read(max_records=10, timeout=5)
        assert [record.value for record in chunk.records] == [b"%d" % number]

    with pytest.raises(UnavailableError, match="no leader"):
        await reader.read(max_records=10, timeout=0)
    cluster.leader_for_partition = known
    (chunk,) = await reader.read(max_records=10, timeout=5)

    assert [record.value for record in chunk.records] == [b"waits"]
    await reader.close()


async def test_catching_up_is_not_done_while_an_unfinished_transaction_holds_a_change_back(broker: KafkaBroker) -> None:
    """The change is acknowledged, and stands behind a transaction that another writer has begun before."""
    await broker.create_topics([TopicSpec("topic", 2)])
    changes, events = TopicPartition("topic", 0), TopicPartition("topic", 1)
    writer = await broker.writer("other")
    await writer._producer.begin_transaction()
    await send(writer._producer, [Outgoing(*changes, None, b"unfinished")], broker._link.address)
    await broker.append([Outgoing(*changes, None, b"change")])
    await broker.append([Outgoing(*events, None, b"event")])
    reader = await broker.reader({changes: 0, events: 0})
    (chunk,) = await reader.read(max_records=10, timeout=5)
    assert chunk.at == events

    assert await reader.catch_up(changes, max_records=10, timeout=0.1) == ([], False)

    await writer._producer.commit_transaction()
    found = await reader.catch_up(changes, max_records=10, timeout=5)

    assert found.complete
    assert [record.value for chunk in found.chunks for record in chunk.records] == [b"unfinished", b"change"]
    await reader.close()


# -- writers


async def test_an_unfinished_transaction_holds_others_up_only_until_its_name_is_taken(broker: KafkaBroker) -> None:
    await broker.create_topics([TopicSpec("topic", 1)])
    at = TopicPartition("topic", 0)
    stuck, other = await broker.writer("stuck"), await broker.writer("other")
    await stuck._producer.begin_transaction()
    await send(stuck._producer, [Outgoing(*at, None, b"never")], broker._link.address)
    await other.commit([Outgoing(*at, None, b"waits")])

    assert (await broker.ends([at]))[at] == 0

    await broker.writer("stuck")

    assert await values(broker, at) == [b"waits"]


async def test_a_writer_that_stands_still_is_aborted_after_a_while(kafka_log: str) -> None:
    broker = await open_broker(f"{kafka_log}&transaction_seconds=1")
    await broker.create_topics([TopicSpec("topic", 1)])
    at = TopicPartition("topic", 0)
    stuck, other = await broker.writer("stuck"), await broker.writer("other")
    await stuck._producer.begin_transaction()
    await send(stuck._producer, [Outgoing(*at, None, b"never")], broker._link.address)
    await other.commit([Outgoing(*at, None, b"waits")])
    async with asyncio.timeout(20):
        while (await broker.ends([at]))[at] == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.1)

    assert await values(broker, at) == [b"waits"]

    await broker.close()


async def test_closing_a_writer_that_failed_lets_no_caller_wait(broker: KafkaBroker) -> None:
    await broker.create_topics([TopicSpec("topic", 1)])
    at = TopicPartition("topic", 0)
    failed = await broker.writer("failed")
    commit = asyncio.create_task(failed.commit([Outgoing(*at, None, b"x" * 900_000)] * 20))
    await asyncio.sleep(0.004)
    commit.cancel()
    await asyncio.gather(commit, return_exceptions=True)
    await failed.close()
    await broker.append([Outgoing(*at, None, b"after")])

    assert (await values(broker, at))[-1] == b"after"


async def test_a_producer_thrown_away_at_any_moment_leaves_no_task_and_says_nothing(broker: KafkaBroker) -> None:
    """Whatever its tasks wait for, a broker that is away among it, they would wait for it forever."""
    await broker.create_topics([TopicSpec("topic", 1)])
    said: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
    records = [Outgoing("topic", 0, None, b"x" * 900_000)] * 10
    before = asyncio.all_tasks()
    for pause in (0.0, 0.001, 0.005, 0.02, 0.08):
        writer = await broker.writer("writer")
        committing = asyncio.create_task(writer.commit(records))
        await asyncio.sleep(pause)
        committing.cancel()
        await asyncio.gather(committing, return_exceptions=True)
        await abandon(writer._producer)
    gc.collect()
    await asyncio.sleep(0)

    assert asyncio.all_tasks() <= before
    assert said == []


# -- its own tools, and the way to it


async def test_a_topic_may_have_another_name_in_the_cluster(kafka: str, kafka_log: str) -> None:
    joint = "&" if "?" in kafka_log else "?"
    name = f"{Address.parse(kafka_log).prefix}lake-commits"
    broker = await open_broker(f"{kafka_log}{joint}name.topic={name}")
    at = TopicPartition("topic", 0)
    await broker.create_topics([TopicSpec("topic", 2), TopicSpec("more", 1)])
    await broker.append([Outgoing("topic", 0, b"k", b"v")])
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.removeprefix("kafka://").rstrip("/"))
    await admin.start()
    try:
        names = await admin.list_topics()
    finally:
        await admin.close()

    assert await values(broker, at) == [b"v"]
    assert (await broker.partitions("topic"), await broker.ends([at])) == (2, {at: 1})
    assert name in names
    assert f"{Address.parse(kafka_log).prefix}topic" not in names
    await broker.close()


async def test_positions_are_shown_as_the_offsets_of_a_group(kafka: str, kafka_log: str, broker: KafkaBroker) -> None:
    await broker.create_topics([TopicSpec("topic", 2)])
    first, second = TopicPartition("topic", 0), TopicPartition("topic", 1)
    prefix = broker._link.address.prefix
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.removeprefix("kafka://").rstrip("/"))
    await admin.start()

    async def shown() -> dict[tuple[str, int], int]:
        offsets = await admin.list_consumer_group_offsets(f"{prefix}shards")
        return {(at.topic, at.partition): offset.offset for at, offset in offsets.items()}

    async with asyncio.timeout(30):  # a Kafka's first group waits for the topic that groups are kept in
        while True:
            await broker.report("shards", {first: 7})
            with suppress(GroupCoordinatorNotAvailableError):
                if await shown():
                    break
            await asyncio.sleep(0.2)
    await broker.report("shards", {first: 9, second: 3})

    assert await shown() == {(f"{prefix}topic", 0): 9, (f"{prefix}topic", 1): 3}

    await admin.close()


async def test_no_server_is_unavailable() -> None:
    with pytest.raises(UnavailableError, match="does not answer"):
        await open_broker("kafka://127.0.0.1:1/")
