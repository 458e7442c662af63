"""The time of records in PostgreSQL's log while its clock has jumped: a stamp is a fact for every replay, so a process
that knows the time writes the right one.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
from streamsched_brokers.postgres.connection import VERSION
from streamsched_brokers.postgres.driver import open_broker
from streamsched_brokers.postgres.sql import queries

from streamsched.domain.errors import ConfigurationError
from streamsched.ports.broker import Broker, Cleanup, Outgoing, TopicPartition, TopicSpec
from streamsched.testing.clock import SettableClock
from tests.support.wrong_clock import WrongClock

pytestmark = pytest.mark.postgres

YEAR = timedelta(days=365)
AT = TopicPartition("events", 0)
ROWS = TopicPartition("rows", 0)


async def stamps(broker: Broker, at: TopicPartition = AT) -> list[datetime]:
    reader = await broker.reader({at: 0})
    chunks = await reader.read(max_records=100, timeout=0)
    await reader.close()
    return [datetime.fromtimestamp(record.time_ms / 1000, UTC) for chunk in chunks for record in chunk.records]


def near(found: datetime, wanted: datetime) -> bool:
    return abs(found - wanted) < timedelta(minutes=1)


@pytest.mark.parametrize("off", [YEAR, -YEAR, timedelta(seconds=7)])
async def test_records_have_the_time_that_their_process_knows(
    wrong_clock: WrongClock, database: str, off: timedelta
) -> None:
    broker = await open_broker(database)
    await broker.create_topics([TopicSpec(AT.topic, 1, Cleanup.DELETE, timedelta(days=7))])
    now = datetime.now(UTC)
    clock = SettableClock(now)
    await wrong_clock.set(off)

    await broker.append([Outgoing(*AT, None, b"as the log says")])
    broker.keep_time(clock)
    await broker.append([Outgoing(*AT, None, b"appended")])
    writer = await broker.writer("w")
    await writer.commit([Outgoing(*AT, None, b"committed")])
    by_log, *by_process = await stamps(broker)

    assert near(by_log, now + off)
    assert by_process == [now.replace(microsecond=now.microsecond // 1000 * 1000)] * 2
    await broker.close()


async def test_a_process_whose_clock_is_a_little_off_leaves_the_time_to_the_log(database: str) -> None:
    broker = await open_broker(database)
    await broker.create_topics([TopicSpec(AT.topic, 1, Cleanup.DELETE, timedelta(days=7))])
    clock = SettableClock(datetime.now(UTC) - timedelta(seconds=2))
    broker.keep_time(clock)

    await broker.append([Outgoing(*AT, None, b"x")])

    assert (await stamps(broker))[0] > clock.now() + timedelta(seconds=1)
    await broker.close()


async def test_a_jump_deletes_no_record_and_no_tombstone(wrong_clock: WrongClock, database: str) -> None:
    broker = await open_broker(database)
    specs = [TopicSpec(AT.topic, 1, Cleanup.DELETE, timedelta(days=7)), TopicSpec(ROWS.topic, 1, Cleanup.COMPACT)]
    await broker.create_topics(specs)
    broker.keep_time(SettableClock(datetime.now(UTC)))
    for number in range(3):
        await broker.append([Outgoing(*AT, None, b"%d" % number)])
    rows = [Outgoing(*ROWS, b"%d" % number, b"x") for number in range(2000)]
    await broker.append(rows)
    await broker.append([Outgoing(*ROWS, b"0", None), Outgoing(*ROWS, b"last", b"x")])
    await broker.maintain()

    await wrong_clock.set(YEAR)
    await broker.append([Outgoing(*ROWS, b"%d" % number, b"y") for number in range(1, 2100)])
    await broker.maintain()

    assert len(await stamps(broker)) == 3
    reader = await broker.reader({ROWS: 0})
    found = {
        record.key: record.value for chunk in await reader.read(max_records=5000, timeout=0) for record in chunk.records
    }
    assert found[b"0"] is None, "readers of the record that it deletes have a day to read it"
    await reader.close()
    await broker.close()


@pytest.mark.parametrize("version", ["1", "2"])
async def test_a_log_before_the_first_release_is_refused_and_left_as_it_is(empty_database: str, version: str) -> None:
    await (await open_broker(empty_database)).close()
    connection = await asyncpg.connect(empty_database)
    await connection.execute(f"COMMENT ON SCHEMA streamsched_log IS '{version}'")

    with pytest.raises(ConfigurationError, match=r"older than release 0\.1\.0 and is left as it is"):
        await open_broker(empty_database)

    assert await connection.fetchval(queries()["version"]) == version
    await connection.close()


async def test_a_log_of_a_later_release_is_used_as_it_is(empty_database: str) -> None:
    await (await open_broker(empty_database)).close()
    connection = await asyncpg.connect(empty_database)
    await connection.execute(f"COMMENT ON SCHEMA streamsched_log IS '{VERSION + 1}'")

    await (await open_broker(empty_database)).close()

    assert await connection.fetchval(queries()["version"]) == str(VERSION + 1)
    await connection.close()
