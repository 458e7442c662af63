"""The audit and its head: what PostgreSQL refuses, and what `verify` finds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import asyncpg
import httpx
import pytest

from streamsched.access.auditing import verify_all
from streamsched.config import Settings
from streamsched.domain.access.audit import FORGET, Intact, Tampered
from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.decisions.retention import Retention
from streamsched.launcher.retention import ArchiveLoop
from streamsched.roles.services import Services, open_services
from streamsched.store.audit import AuditStore
from streamsched.store.jobs.archive import Archive
from streamsched.store.sql import queries
from streamsched.testing.clock import SettableClock
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


async def test_entries_leave_after_their_time_and_the_rest_is_still_proven(services: Services, database: str) -> None:
    """The audit is bounded by its retention; what left is said in it, and nobody else can remove anything."""
    store, day = AuditStore(services.pool), timedelta(days=1)
    clock = SettableClock(datetime(2026, 3, 1, tzinfo=UTC))
    keeper = ArchiveLoop(Archive(services.pool), Retention(audit=10 * day), clock, batch=7)
    for number in range(40):
        await store.append(caller="ann", action="PUT /x", target=f"/x/{number}", detail={}, now=clock.now())
        clock.advance(day)
        await keeper.run_once()

    found = await verify_all(store)

    newest = await store.list_newest(limit=100)
    assert isinstance(found, Intact)
    assert found.removed > 20
    assert len(newest) == found.entries - found.removed < 30, "ten days of two a day: one is about those that left"
    assert max(e.detail["upto"] for e in newest if e.action == FORGET) == found.removed
    assert min(entry.at for entry in newest) >= clock.now() - 11 * day
    connection = await asyncpg.connect(database)
    try:
        with pytest.raises(asyncpg.RaiseError, match="append-only"):
            await connection.execute("DELETE FROM audit WHERE number = $1", found.removed + 1)
        with pytest.raises(asyncpg.RaiseError, match="with an entry about it only"):
            await connection.execute(
                "UPDATE audit_start SET (number, hash) = (SELECT number, hash FROM audit WHERE number = $1)",
                found.removed + 3,
            )
        with pytest.raises(asyncpg.RaiseError, match="append-only"):
            await connection.execute("DELETE FROM audit_start")
        # who owns the tables can switch their triggers off
        await connection.execute("ALTER TABLE audit DISABLE TRIGGER USER; ALTER TABLE audit_start DISABLE TRIGGER USER")
        await connection.execute(
            "UPDATE audit_start SET (number, hash) = (SELECT number, hash FROM audit WHERE number = $1)",
            found.removed + 3,
        )
        await connection.execute("DELETE FROM audit WHERE number <= $1", found.removed + 3)
    finally:
        await connection.close()
    why = "it was removed with those before it, and no entry says so"
    assert await verify_all(store) == Tampered(found.removed + 3, why)


async def test_a_long_audit_leaves_in_bounded_batches(services: Services) -> None:
    store, clock = AuditStore(services.pool), SettableClock(datetime(2026, 3, 1, tzinfo=UTC))
    for number in range(20):
        await store.append(caller="ann", action="PUT /x", target=f"/x/{number}", detail={}, now=clock.now())
    clock.advance(timedelta(days=20))

    await ArchiveLoop(Archive(services.pool), Retention(audit=timedelta(days=10)), clock, batch=8).run_once()

    found = await verify_all(store)
    assert isinstance(found, Intact)
    assert (found.entries, found.removed) == (23, 20), "8, 8 and 4, an entry about each"


async def test_the_oldest_entries_are_found_by_their_number(database: str) -> None:
    connection = await asyncpg.connect(database)
    try:
        await connection.execute(
            "SET session_replication_role = replica; "
            "INSERT INTO audit SELECT n, now() - interval '1 year', 'a', 'b', 'c', "
            "'{}', hash, hash FROM audit_head, generate_series(1, 20000) n; ANALYZE audit"
        )
        for name, *values in (("oldest", datetime.now(UTC), 100), ("forget", 100)):
            plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {queries('audit')[name]}", *values))
            assert "Index Scan using audit_pkey" in plan, plan
            assert "Seq Scan on audit " not in plan, plan
    finally:
        await connection.close()
