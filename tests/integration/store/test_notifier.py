"""The notifier: every listener of a channel is notified, also after the connection was lost."""

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


async def test_every_listener_of_a_channel_hears_it(notifier: PostgresNotifier, ringer: asyncpg.Connection) -> None:
    async with notifier.listen("outbox") as one, notifier.listen("outbox") as two, notifier.listen("timers") as other:
        await ringer.execute("SELECT pg_notify('outbox', '')")

        assert await asyncio.gather(one.wait(5), two.wait(5)) == [True, True]
        assert not await other.wait(0.01)


async def test_a_ring_between_looking_and_waiting_is_not_missed(
    notifier: PostgresNotifier, ringer: asyncpg.Connection
) -> None:
    async with notifier.listen("outbox") as subscription, notifier.listen("outbox") as witness:
        await ringer.execute("SELECT pg_notify('outbox', '')")
        assert await witness.wait(5)

        assert await subscription.wait(0.01)
        assert not await subscription.wait(0.01)


async def test_a_transaction_that_rolls_back_rings_nothing(
    notifier: PostgresNotifier, ringer: asyncpg.Connection
) -> None:
    async with notifier.listen("outbox") as subscription:
        await ringer.execute("BEGIN; INSERT INTO outbox (topic, key) VALUES ('signals', 'a'); ROLLBACK")
        await ringer.execute("SELECT pg_notify('other', '')")

        assert not await subscription.wait(0.05)


async def test_a_row_in_the_outbox_rings(notifier: PostgresNotifier, ringer: asyncpg.Connection) -> None:
    async with notifier.listen("outbox") as subscription:
        await ringer.execute("INSERT INTO outbox (topic, key) VALUES ('signals', 'a')")

        assert await subscription.wait(5)


async def test_a_lost_connection_wakes_everybody_and_is_made_anew(
    notifier: PostgresNotifier, ringer: asyncpg.Connection
) -> None:
    async with notifier.listen("outbox") as subscription:
        await ringer.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        assert await subscription.wait(5)

        assert not await subscription.wait(0.01)
        await ringer.execute("SELECT pg_notify('outbox', '')")
        assert await subscription.wait(5)


async def test_a_server_that_is_away_leaves_listeners_their_timeouts(tmp_path: object) -> None:
    notifier = PostgresNotifier(f"postgresql://postgres:@/nowhere?host={tmp_path}")

    async with notifier.listen("outbox") as subscription:
        assert not await subscription.wait(0.01)
