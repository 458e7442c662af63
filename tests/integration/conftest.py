"""What many tests of a room on a real PostgreSQL begin with."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from streamsched.store.leases import PostgresLeases
from streamsched.store.pool import open_pool


@pytest.fixture
async def pool(database: str) -> AsyncIterator[asyncpg.Pool]:
    """Connections to a fresh, migrated database."""
    made = await open_pool(database)
    yield made
    await made.close()


@pytest.fixture
def leases(pool: asyncpg.Pool) -> PostgresLeases:
    return PostgresLeases(pool)
