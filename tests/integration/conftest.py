"""What many tests of a room on a real PostgreSQL begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from streamsched.ports.drivers import open_broker
from streamsched.store.leases import PostgresLeases
from streamsched.store.pool import open_pool
from streamsched.testing.town import Town


@pytest.fixture
async def pool(database: str) -> AsyncIterator[asyncpg.Pool]:
    """Connections to a fresh, migrated database."""
    made = await open_pool(database)
    yield made
    await made.close()


@pytest.fixture
def leases(pool: asyncpg.Pool) -> PostgresLeases:
    return PostgresLeases(pool)


@pytest.fixture
async def town(database: str) -> AsyncIterator[Town]:
    """Two shards at work on a log in PostgreSQL."""
    broker = await open_broker(database)
    made = await Town.found(broker, 2)
    await made.start()
    yield made
    await made.stop()
    await broker.close()
