"""The bell: heard by everybody who listens, also after its connection was lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from streamsched.store.server.notifier import PostgresNotifier


@pytest.fixture
async def ringer(database: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


async def test_every_listener_of_a_channel_hears_it(bell: PostgresNotifier, ringer: asyncpg.Connection) -> None:
    async with bell.listen("outbox") as one, bell.listen("outbox") as two, bell.listen("timers") as other:
        await ringer.execute("SELECT pg_notify('outbox', '')")

        assert await asyncio.gather(one.wait(5), two.wait(5)) == [True, True]
        assert not await other.wait(0.01)


async def test_a_ring_between_looking_and_waiting_is_not_missed(
    bell: PostgresNotifier, ringer: asyncpg.Connection
) -> None:
    async with bell.listen("outbox") as ring, bell.listen("outbox") as witness:
        await ringer.execute("SELECT pg_notify('outbox', '')")
        assert await witness.wait(5)

        assert await ring.wait(0.01)
        assert not await ring.wait(0.01)


async def test_a_transaction_that_rolls_back_rings_nothing(bell: PostgresNotifier, ringer: asyncpg.Connection) -> None:
    async with bell.listen("outbox") as ring:
        await ringer.execute("BEGIN; INSERT INTO outbox (topic, key) VALUES ('signals', 'a'); ROLLBACK")
        await ringer.execute("SELECT pg_notify('other', '')")

        assert not await ring.wait(0.05)


async def test_a_row_in_the_outbox_rings(bell: PostgresNotifier, ringer: asyncpg.Connection) -> None:
    async with bell.listen("outbox") as ring:
        await ringer.execute("INSERT INTO outbox (topic, key) VALUES ('signals', 'a')")

        assert await ring.wait(5)


async def test_a_lost_connection_wakes_everybody_and_is_made_anew(
    bell: PostgresNotifier, ringer: asyncpg.Connection
) -> None:
    async with bell.listen("outbox") as ring:
        await ringer.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        assert await ring.wait(5)

        assert not await ring.wait(0.01)
        await ringer.execute("SELECT pg_notify('outbox', '')")
        assert await ring.wait(5)


async def test_a_server_that_is_away_leaves_listeners_their_timeouts(tmp_path: object) -> None:
    bell = PostgresNotifier(f"postgresql://postgres:@/nowhere?host={tmp_path}")

    async with bell.listen("outbox") as ring:
        assert not await ring.wait(0.01)
