"""A deployment that is stored is answered before the log has it all, and can be followed."""

from __future__ import annotations

import asyncio
from typing import Final

import httpx
import pytest

from streamsched.api.app import make_api
from streamsched.catalog.outbox_ack import wait_for_ack
from streamsched.config import Settings
from streamsched.domain.errors import UnavailableError
from streamsched.ports.outbox import OutboxRecord
from streamsched.roles.api import api_services
from streamsched.roles.services import open_services
from streamsched.store.catalog.outbox import PostgresOutbox, write
from streamsched.store.connections import open_pool
from streamsched.store.server.notifier import PostgresNotifier
from tests.integration.api.conftest import APP
from tests.support.relaying import relaying

pytestmark = pytest.mark.postgres


async def test_a_change_is_followed_until_the_relay_has_sent_it(database: str) -> None:
    async with open_services(Settings.from_env({}, database_url=database, api_access="open")) as services:
        transport = httpx.ASGITransport(app=make_api(api_services(services)))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            stored = await client.put("/v1/apps/default/flights", json=APP, params={"wait": 0})
            assert stored.status_code == 202
            said = stored.json()
            assert (said["pending"], said["acknowledged"]) == (2, False)
            assert said["schedules"][0]["action"] == "created"
            asked = stored.headers["location"]
            assert asked == f"/v1/changes/{said['change']}"
            assert (await client.get(asked)).json()["pending"] == 2

            async with relaying(services):
                done = await client.get(asked, params={"wait": 30})
                assert done.json() == {"change": said["change"], "pending": 0, "acknowledged": True}
                again = await client.put("/v1/apps/default/flights", json=APP, params={"wait": 30})
                assert (again.status_code, "change" in again.json()) == (200, False)


_NO_CHANGES: Final[list[str]] = ["x", "1", "1-", "-1", "1-x", f"1-{10**30}"]


async def test_what_is_no_change_is_not_found(client: httpx.AsyncClient) -> None:
    for name in _NO_CHANGES:
        assert (await client.get(f"/v1/changes/{name}")).status_code == 404


async def test_a_change_waits_as_long_as_records_ahead_of_it_are_sent(database: str) -> None:
    """Its own record is the last of 20, of which one goes in each tenth of a second; it would not wait for 0.5 s."""
    pool = await open_pool(database)
    notifier, outbox = PostgresNotifier(database), PostgresOutbox(pool)
    async with pool.acquire() as connection:
        ids = await write(connection, [OutboxRecord("signals", "k", b"v")] * 20)

    async def send() -> None:
        for each in ids:
            await asyncio.sleep(0.1)
            await outbox.forget([each])

    sending = asyncio.create_task(send())
    await wait_for_ack(ids[-1:], acks=outbox, notifier=notifier, patience=0.5)
    await sending
    assert await outbox.count_outstanding(ids) == 0
    await notifier.close()
    await pool.close()


async def test_a_change_that_makes_no_progress_is_given_up_and_said_to_be_stored(database: str) -> None:
    pool = await open_pool(database)
    notifier, outbox = PostgresNotifier(database), PostgresOutbox(pool)
    async with pool.acquire() as connection:
        ids = await write(connection, [OutboxRecord("signals", "k", b"v")] * 3)

    with pytest.raises(UnavailableError, match="the change is stored, but the log has acknowledged none of 3"):
        await wait_for_ack(ids, acks=outbox, notifier=notifier, patience=0.1)
    await notifier.close()
    await pool.close()
