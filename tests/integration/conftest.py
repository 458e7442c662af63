"""What many tests of a room on a real PostgreSQL begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from streamsched.log.drivers import open_broker
from streamsched.store.connections import open_pool
from streamsched.store.server.leases import PostgresLeases
from tests.support.shard_cluster import ShardCluster
from tests.support.wrong_clock import WrongClock


@pytest.fixture
async def pool(database: str) -> AsyncIterator[asyncpg.Pool]:
    """Connections to a fresh, migrated database."""
    made = await open_pool(database)
    yield made
    await made.close()


@pytest.fixture
async def wrong_clock(database: str) -> WrongClock:
    """The clock of the database; ask for it before connections to it."""
    made = WrongClock(database)
    await made.install()
    return made


@pytest.fixture
def leases(pool: asyncpg.Pool) -> PostgresLeases:
    return PostgresLeases(pool)


@pytest.fixture
async def cluster(database: str) -> AsyncIterator[ShardCluster]:
    """Two shards at work on a log in PostgreSQL."""
    broker = await open_broker(database)
    made = await ShardCluster.create(broker, 2)
    await made.start()
    yield made
    await made.stop()
    await broker.close()
