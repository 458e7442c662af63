"""What others deleted from the log before a shard read it is said with its span; our own retention deletes none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import structlog
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.log.maintenance import LogMaintenance
from streamsched.log.topics import EVENTS, PUBLIC, topic_specs
from streamsched.ports.broker import Outgoing, TopicPartition
from streamsched.ports.reports import UnreadDeletion
from streamsched.stream.shards.shard import ShardSettings
from streamsched.telemetry.shard_stats import ShardStats
from streamsched.testing.clock import SettableClock
from tests.support.shard_cluster import ShardCluster, landed

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
AT = TopicPartition(EVENTS, 0)


async def log_of(clock: SettableClock, records: int) -> MemoryBroker:
    broker = MemoryBroker(MemoryLog(clock))
    await broker.create_topics(topic_specs(1, timedelta(hours=1)))
    await broker.append([Outgoing(*AT, None, b"%d" % n) for n in range(records)])
    return broker


async def test_retention_waits_for_the_readers() -> None:
    clock, reached = SettableClock(NOON), {AT: 3}
    broker = await log_of(clock, 10)

    async def positions() -> dict[TopicPartition, int]:
        return reached

    upkeep = LogMaintenance(broker, clock, positions)
    for position in 3, 7, 10:
        reached[AT] = position
        clock.advance(timedelta(hours=5))
        await upkeep.step()
        reader = await broker.reader({AT: 0})
        (chunk,) = await reader.read(max_records=100, timeout=0)
        assert chunk.records[0].offset == chunk.deleted == min(position, 9), "the last one marks the end"


def test_a_span_is_counted_once_however_often_its_turn_is_repeated() -> None:
    stats = ShardStats()
    span = UnreadDeletion(NOON, EVENTS, 0, 100, 500)

    assert stats.note_deleted(span)
    assert not stats.note_deleted(span._replace(at=NOON + timedelta(minutes=1)))
    assert stats.unread_deleted == 400
    assert span.text == "400 of events/0, from 100 up to 499"
    for n in range(20):
        stats.note_deleted(span._replace(first=1000 + n, next=1001 + n))
    assert (len(stats.deleted), stats.unread_deleted) == (10, 420)


async def test_what_others_deleted_unread_is_said_with_its_span(cluster: ShardCluster, clock: SettableClock) -> None:
    """400 events that Kafka's retention deleted while a worker was away vanished without a word."""
    await cluster.start(ShardSettings(clock=clock))
    await cluster.emit(*(landed(n) for n in range(3)))
    await cluster.settle()
    before = {at: end for shard in cluster.shards for at, end in shard.positions.items()}
    await cluster.stop()
    await cluster.emit(*(landed(n) for n in range(3, 403)))
    ends = await cluster.broker.ends([at for at in before if at.topic in PUBLIC])
    clock.advance(timedelta(days=8))
    await cluster.broker.maintain()
    await cluster.emit(landed(500))

    with structlog.testing.capture_logs() as lines:
        await cluster.start(ShardSettings(clock=clock))
        await cluster.settle()
        stats = [shard._stats for shard in cluster.shards]

    lost = {at: (before[at], end - 1) for at, end in ends.items() if end > before[at] + 1}  # the last marks the end
    found = {TopicPartition(each.topic, each.partition): (each.first, each.next) for s in stats for each in s.deleted}
    assert lost
    assert found == lost
    assert sum(each.unread_deleted for each in stats) == sum(end - first for first, end in lost.values())
    said = [line["records"] for line in lines if line["event"] == "shard.unread_deleted"]
    assert sorted(said) == sorted(each.text for s in stats for each in s.deleted)
