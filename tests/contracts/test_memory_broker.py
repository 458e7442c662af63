"""The memory log keeps the broker contract; what it does beyond it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog, open_broker

from streamsched.domain.errors import ConfigurationError
from streamsched.ports.broker import Capabilities, Cleanup, Outgoing, TopicPartition, TopicSpec
from streamsched.testing.broker_contract import BrokerContract, OpenBroker
from streamsched.testing.clock import SettableClock


class TestMemoryBroker(BrokerContract):
    @pytest.fixture
    def broker(self) -> OpenBroker:
        log = MemoryLog()

        async def open_broker() -> MemoryBroker:
            return MemoryBroker(log)

        return open_broker


NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
AT = TopicPartition("table", 0)


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(NOON)


@pytest.fixture
async def broker(clock: SettableClock) -> MemoryBroker:
    broker = MemoryBroker(MemoryLog(clock))
    await broker.create_topics(
        [TopicSpec("table", 1, Cleanup.COMPACT), TopicSpec("events", 1, retention=timedelta(hours=1))]
    )
    return broker


async def left(broker: MemoryBroker, topic: str) -> list[tuple[int, bytes | None]]:
    reader = await broker.reader({TopicPartition(topic, 0): 0})
    chunks = await reader.read(max_records=1000, timeout=0)
    return [(record.offset, record.value) for chunk in chunks for record in chunk.records]


async def test_records_are_stamped_by_the_clock_given(broker: MemoryBroker) -> None:
    await broker.append([Outgoing("events", 0, None, b"noon")])
    (chunk,) = await (await broker.reader({TopicPartition("events", 0): 0})).read(max_records=1, timeout=0)

    assert chunk.records[0].time_ms == NOON.timestamp() * 1000


async def test_a_tombstone_goes_a_day_after_the_pass_that_removed_what_it_covers(
    broker: MemoryBroker, clock: SettableClock
) -> None:
    await broker.append([Outgoing(*AT, b"gone", b"v"), Outgoing(*AT, b"gone", None), Outgoing(*AT, b"here", b"v")])
    clock.advance(timedelta(days=30))
    await broker.maintain()
    clock.advance(timedelta(hours=23))
    await broker.maintain()

    assert await left(broker, "table") == [(1, None), (2, b"v")]

    clock.advance(timedelta(hours=1))
    await broker.maintain()

    assert await left(broker, "table") == [(2, b"v")]


async def test_events_go_when_their_retention_is_over_all_but_the_last(
    broker: MemoryBroker, clock: SettableClock
) -> None:
    for hour in range(3):
        await broker.append([Outgoing("events", 0, None, b"%d" % hour)])
        clock.advance(timedelta(minutes=50))
    await broker.maintain()

    assert await left(broker, "events") == [(2, b"2")]

    clock.advance(timedelta(days=1))
    await broker.maintain()

    assert await left(broker, "events") == [(2, b"2")]


async def test_a_url_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        await open_broker("kafka://localhost")


async def test_it_skips_what_outlives_a_process_and_nothing_else(broker: MemoryBroker) -> None:
    assert broker.capabilities == Capabilities(
        fenced=True, transactional=True, durable=False, compaction=True, shared=False
    )
