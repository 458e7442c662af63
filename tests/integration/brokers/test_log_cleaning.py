"""What compaction and retention take away from the log on PostgreSQL, and when."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from streamsched_brokers.postgres.compaction import Housekeeping
from streamsched_brokers.postgres.driver import PostgresBroker, open_broker

from streamsched.log.topics import SEEN_CHANGELOG, keyed_specs
from streamsched.ports.broker import Cleanup, Outgoing, Record, TopicPartition, TopicSpec
from streamsched.testing.broker_contract import Tail
from streamsched.testing.broker_contract.harness import newest_values

pytestmark = pytest.mark.postgres

TABLE, EVENTS = TopicPartition("table", 0), TopicPartition("events", 0)
EAGER = Housekeeping(least=1)
TOPICS = [TopicSpec("table", 1, Cleanup.COMPACT), TopicSpec("events", 1, Cleanup.DELETE, timedelta(hours=1))]


@pytest.fixture
async def sql(empty_database: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(empty_database)
    yield connection
    await connection.close()


async def opened(url: str, housekeeping: Housekeeping) -> PostgresBroker:
    broker = await open_broker(url, connections=2, housekeeping=housekeeping)
    await broker.create_topics(TOPICS)
    return broker


async def put(broker: PostgresBroker, *pairs: tuple[bytes, bytes | None]) -> None:
    for key, value in pairs:
        await broker.append([Outgoing(*TABLE, key, value)])


async def everything(broker: PostgresBroker, at: TopicPartition) -> list[Record]:
    tail = Tail(await broker.reader({at: 0}), {at: 0})
    while await tail.read(timeout=0):
        pass
    return tail.seen[at]


async def pairs(broker: PostgresBroker) -> list[Any]:
    return [(record.offset, record.key, record.value) for record in await everything(broker, TABLE)]


async def test_only_the_newest_of_each_key_is_left_and_small_batches_are_joined(
    empty_database: str, sql: asyncpg.Connection
) -> None:
    broker = await opened(empty_database, EAGER)
    await put(broker, *[(b"k%d" % (n % 7), b"%d" % n) for n in range(70)])
    times = {record.offset: record.time_ms for record in await everything(broker, TABLE)}
    await broker.maintain()

    assert await pairs(broker) == [(n, b"k%d" % (n % 7), b"%d" % n) for n in range(63, 70)]
    assert await sql.fetchval("SELECT count(*) FROM streamsched_log.batch") == 1
    assert all(times[record.offset] == record.time_ms for record in await everything(broker, TABLE))

    await broker.close()


async def test_few_new_records_are_not_worth_a_pass(empty_database: str, sql: asyncpg.Connection) -> None:
    broker = await opened(empty_database, Housekeeping(least=10))
    await put(broker, *[(b"k", b"%d" % n) for n in range(9)])
    await broker.maintain()

    assert len(await pairs(broker)) == 9

    await put(broker, *[(b"k%d" % n, b"") for n in range(30)])
    await broker.maintain()

    assert len(await pairs(broker)) == 31  # 30 and the newest "k"

    await put(broker, *[(b"k", b"%d" % n) for n in range(30)])  # more than `least`, fewer than were kept
    await broker.maintain()

    assert len(await pairs(broker)) == 61

    await put(broker, (b"k", b"last"))
    await broker.maintain()

    assert len(await pairs(broker)) == 31

    await broker.close()


async def test_a_tombstone_stays_for_its_grace_and_then_goes(empty_database: str, sql: asyncpg.Connection) -> None:
    broker = await opened(empty_database, EAGER)
    await put(broker, (b"gone", b"v"), (b"gone", None), (b"here", b"v"))
    await broker.maintain()

    assert [value for _, _, value in await pairs(broker)] == [None, b"v"]

    await sql.execute("UPDATE streamsched_log.batch SET clean_ms = clean_ms - 86400001, time_ms = 0")
    await put(broker, (b"here", b"w"), (b"here", b"x"))
    await broker.maintain()

    assert await pairs(broker) == [(4, b"here", b"x")]

    await broker.close()


async def test_tombstones_of_changelogs_stay_as_long_as_ids_are_known(
    empty_database: str, sql: asyncpg.Connection
) -> None:
    """Every start reads a changelog: with a short horizon nearly all of it were tombstones of ids long forgotten."""
    broker = await open_broker(empty_database, connections=2, housekeeping=EAGER)
    seen = TopicPartition(SEEN_CHANGELOG, 0)
    for horizon, left in (timedelta(days=4), 1002), (timedelta(minutes=10), 2):
        await broker.create_topics(keyed_specs(1, timedelta(days=7), horizon=horizon))
        await broker.append([Outgoing(*seen, b"%d" % n, b"known") for n in range(1000)])
        await broker.append([Outgoing(*seen, b"%d" % n, None) for n in range(1000)])
        await broker.append([Outgoing(*seen, b"here", b"v")])
        await broker.maintain()
        await sql.execute("UPDATE streamsched_log.batch SET clean_ms = clean_ms - 2 * 3600000")
        await broker.append([Outgoing(*seen, b"last", b"v") for _ in range(2000)])
        await broker.maintain()
        assert len(await everything(broker, seen)) == left

    await broker.close()


async def test_an_old_tombstone_gets_its_grace_from_the_pass_that_removed_what_it_covers(
    empty_database: str, sql: asyncpg.Connection
) -> None:
    """However old it is: a reader may have read the value a moment ago."""
    broker = await opened(empty_database, EAGER)
    await put(broker, (b"gone", b"v"), (b"gone", None), (b"here", b"v"))
    await sql.execute("UPDATE streamsched_log.batch SET time_ms = 0")
    await broker.maintain()
    await put(broker, (b"here", b"w"), (b"here", b"x"))
    await broker.maintain()

    assert [key for _, key, _ in await pairs(broker)] == [b"gone", b"here"]

    await broker.close()


async def test_without_grace_only_a_tombstone_at_the_very_end_stays(empty_database: str) -> None:
    broker = await opened(empty_database, EAGER)
    await broker.create_topics([TopicSpec(TABLE.topic, 1, Cleanup.COMPACT, tombstones=timedelta(0))])
    await put(broker, (b"a", b"v"), (b"a", None), (b"b", b"v"), (b"b", None))
    await broker.maintain()

    assert await pairs(broker) == [(3, b"b", None)]

    await broker.close()


async def test_big_changelogs_are_rewritten_in_batches_of_bounded_size(
    empty_database: str, sql: asyncpg.Connection
) -> None:
    broker = await opened(empty_database, EAGER)
    records = [Outgoing(*TABLE, b"k%d" % (n % 2500), b"x" * 100) for n in range(5000)]
    await broker.append(records)
    await broker.append([Outgoing(*TABLE, b"big%d" % n, b"x" * 700_000) for n in range(3)])
    await broker.maintain()
    counts = await sql.fetch("SELECT count, bytes FROM streamsched_log.batch ORDER BY last_offset")

    assert sum(row["count"] for row in counts) == 2503
    assert max(row["count"] for row in counts) == 1000
    assert max(row["bytes"] for row in counts) < 2_000_000
    assert len(newest_values(await everything(broker, TABLE))) == 2503

    await broker.close()


async def test_events_older_than_the_retention_go_and_younger_ones_stay(
    empty_database: str, sql: asyncpg.Connection
) -> None:
    broker = await opened(empty_database, EAGER)
    for number in range(2300):
        if number % 100 == 0:
            await broker.append([Outgoing(*EVENTS, None, b"%d" % n) for n in range(number, number + 100)])
    await sql.execute("UPDATE streamsched_log.batch SET time_ms = time_ms - 3600001 WHERE last_offset < 1500")
    await broker.maintain()

    assert [record.offset for record in await everything(broker, EVENTS)] == list(range(1500, 2300))

    await sql.execute("UPDATE streamsched_log.batch SET time_ms = 0")
    await broker.maintain()

    assert [record.offset for record in await everything(broker, EVENTS)] == list(range(2200, 2300))

    await broker.close()


async def test_a_new_retention_is_taken_over(empty_database: str, sql: asyncpg.Connection) -> None:
    broker = await opened(empty_database, EAGER)
    await broker.create_topics([TopicSpec("events", 1, Cleanup.DELETE, timedelta(days=9))])

    assert await sql.fetchval("SELECT retention FROM streamsched_log.topic WHERE name = 'events'") == timedelta(days=9)

    await broker.create_topics([TopicSpec("events", 1, Cleanup.DELETE)])

    assert await sql.fetchval("SELECT retention FROM streamsched_log.topic WHERE name = 'events'") is None

    await broker.close()


async def test_what_is_unread_stays_however_old_and_a_gap_is_told(empty_database: str, sql: asyncpg.Connection) -> None:
    broker = await opened(empty_database, EAGER)
    for n in range(10):
        await broker.append([Outgoing(*EVENTS, None, b"%d" % n)])
    await sql.execute("UPDATE streamsched_log.batch SET time_ms = 0")

    for unread, left in (4, 4), (7, 7), (10, 9):  # the last one marks the end
        await broker.maintain({EVENTS: unread})
        reader = await broker.reader({EVENTS: 2})
        chunks = await reader.read(max_records=100, timeout=0)
        assert [record.offset for record in chunks[0].records] == list(range(left, 10))
        assert chunks[0].deleted == left - 2
        await reader.close()

    await broker.close()
