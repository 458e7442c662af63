"""The log on PostgreSQL keeps the broker contract; what it does beyond it."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from streamsched_brokers.postgres.compaction import Housekeeping
from streamsched_brokers.postgres.connection import VERSION
from streamsched_brokers.postgres.driver import PostgresBroker, open_broker
from streamsched_brokers.postgres.sql import queries

from streamsched.log import drivers
from streamsched.ports.broker import Capabilities, Outgoing, TopicPartition, TopicSpec
from streamsched.testing.broker_contract import BrokerContract, OpenBroker

pytestmark = pytest.mark.postgres


class TestPostgresBroker(BrokerContract):
    @pytest.fixture
    def broker(self, empty_database: str) -> OpenBroker:
        async def opens() -> PostgresBroker:
            return await open_broker(empty_database, connections=4, housekeeping=Housekeeping(least=1))

        return opens


async def test_it_skips_nothing(empty_database: str) -> None:
    broker = await open_broker(empty_database)

    assert broker.capabilities == Capabilities(
        fenced=True, transactional=True, durable=True, compaction=True, shared=True
    )

    await broker.close()


async def test_both_spellings_of_the_scheme_open_the_same_log(empty_database: str) -> None:
    long, short = [
        await drivers.open_broker(empty_database.replace("postgresql://", scheme))
        for scheme in ("postgresql://", "postgres://")
    ]
    await long.create_topics([TopicSpec("shared", 3)])

    assert await short.partitions("shared") == 3

    await long.close()
    await short.close()


async def test_many_processes_may_open_a_new_log_together(empty_database: str) -> None:
    brokers = await asyncio.gather(*(open_broker(empty_database, connections=1) for _ in range(6)))
    for broker in brokers:
        await broker.close()


async def test_a_newer_schema_is_left_alone(empty_database: str) -> None:
    await (await open_broker(empty_database, connections=1)).close()
    connection = await asyncpg.connect(empty_database)
    await connection.execute("COMMENT ON SCHEMA streamsched_log IS '999'")
    await (await open_broker(empty_database, connections=1)).close()

    assert await connection.fetchval(queries()["version"]) == "999"

    await connection.close()


async def test_the_schema_says_the_version_the_driver_asks_for(empty_database: str) -> None:
    await (await open_broker(empty_database, connections=1)).close()
    connection = await asyncpg.connect(empty_database)

    assert await connection.fetchval(queries()["version"]) == str(VERSION)

    await connection.close()


async def test_a_hundred_callers_at_once_cost_a_few_transactions(empty_database: str) -> None:
    broker = await open_broker(empty_database)
    await broker.create_topics([TopicSpec("events", 1)])
    await asyncio.gather(*(broker.append([Outgoing("events", 0, None, b"%d" % n)]) for n in range(100)))
    connection = await asyncpg.connect(empty_database)

    assert await connection.fetchval("SELECT count(*) FROM streamsched_log.batch") <= 10
    assert (await broker.ends([TopicPartition("events", 0)]))[TopicPartition("events", 0)] == 100

    await connection.close()
    await broker.close()
