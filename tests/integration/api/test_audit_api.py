"""The audit and its head: what PostgreSQL refuses, and what `verify` finds."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import httpx
import pytest

from streamsched.config import Settings
from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.roles.services import Services, open_services
from tests.integration.api.test_access import token
from tests.support.relaying import relaying

pytestmark = pytest.mark.postgres


@pytest.fixture
async def services(database: str) -> AsyncIterator[Services]:
    async with open_services(Settings.from_env({}, database_url=database)) as services, relaying(services):
        yield services


async def test_an_audit_cannot_be_emptied_and_one_that_was_is_reported(
    client: httpx.AsyncClient, services: Services, database: str
) -> None:
    admin = await token(services, "admin", Grant(role=AccessRole.ADMIN))
    for limit in (2, 3):
        await client.put("/v1/groups/g", json={"limit": limit}, headers=admin)
    connection = await asyncpg.connect(database)
    try:
        for statement in ("TRUNCATE audit", "TRUNCATE audit_head", "DELETE FROM audit_head"):
            with pytest.raises(asyncpg.RaiseError, match="append-only"):
                await connection.execute(statement)
        for change in ("number = 0", "number = 3", "number = number + 1", "hash = decode(repeat('ab', 32), 'hex')"):
            with pytest.raises(asyncpg.RaiseError, match="moves with its entries"):
                await connection.execute(f"UPDATE audit_head SET {change}")
        with pytest.raises(asyncpg.RaiseError, match="does not follow"):
            await connection.execute(
                "INSERT INTO audit SELECT 9, at, caller, action, target, detail, previous, hash FROM audit LIMIT 1"
            )
        assert (await client.get("/v1/audit/verify", headers=admin)).json()["intact"] is True

        # who owns the tables can switch their triggers off
        await connection.execute("ALTER TABLE audit DISABLE TRIGGER USER")
        await connection.execute("DELETE FROM audit WHERE number > 2")
        found = (await client.get("/v1/audit/verify", headers=admin)).json()
        assert found == {"intact": False, "number": 3, "reason": "entries 3 to 4 were removed"}
        await connection.execute("TRUNCATE audit")
        found = (await client.get("/v1/audit/verify", headers=admin)).json()
        assert found == {"intact": False, "number": 1, "reason": "all 4 entries were removed"}
        await connection.execute("ALTER TABLE audit ENABLE TRIGGER USER")
        assert (await client.put("/v1/groups/g", json={"limit": 4}, headers=admin)).status_code == 200
        found = (await client.get("/v1/audit/verify", headers=admin)).json()
        assert found == {"intact": False, "number": 1, "reason": "entry 1 is missing; the next one is 5"}
    finally:
        await connection.close()
