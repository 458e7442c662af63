"""Names of groups and pools: how many a namespace owns, and when they are free again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from streamsched.access.unused_names import KEPT, UnusedNames
from streamsched.domain.jobs.run import RunState
from streamsched.ports.clock import Clock
from streamsched.roles.services import Services
from streamsched.store.catalog.namespace_grants import NamespaceGrantStore
from streamsched.testing.clock import SettableClock
from tests.support.world import StoredWorld

pytestmark = pytest.mark.postgres

EVENT = {"type": "EVENT", "event": "done"}


@pytest.fixture
def clock() -> Clock:
    return SettableClock()


def app(*constraints: dict[str, Any]) -> dict[str, Any]:
    return {
        "programs": [{"name": "p", "type": "http", "url": "https://example.org"}],
        "schedules": [
            {"name": f"s{n}", "program": "p", "trigger": EVENT, "constraints": [each]}
            for n, each in enumerate(constraints)
        ],
    }


def group(name: str) -> dict[str, Any]:
    return {"type": "GROUP", "group": name, "limit": 1}


def pool(name: str) -> dict[str, Any]:
    return {"type": "POOL", "pool": name, "size": 1}


async def owned(services: Services) -> set[str]:
    rows = await services.pool.fetch("SELECT kind, name, namespace FROM shared_names")
    return {f"{row['namespace']}: {row['kind']} {row['name']}" for row in rows}


async def free(services: Services) -> int:
    return await UnusedNames(NamespaceGrantStore(services.pool), services.clock).run_once()


async def test_a_namespace_owns_as_many_names_as_its_quota_allows(
    client: httpx.AsyncClient, services: Services
) -> None:
    quota = "/v1/namespaces/sales/quotas/shared_names"
    assert (await client.put(quota, json={"limit": 2})).status_code == 200
    assert (await client.put("/v1/apps/sales/a", json=app(group("x"), pool("y")))).status_code == 200

    refused = await client.put("/v1/apps/sales/b", json=app(group("z")))
    assert (refused.status_code, refused.json()["quota"], refused.json()["used"]) == (403, "shared_names", 2)
    assert await owned(services) == {"sales: group x", "sales: pool y"}
    assert (await client.put("/v1/apps/sales/b", json=app(group("x"), pool("y")))).status_code == 200
    assert (await client.put("/v1/apps/ops/b", json=app(group("z")))).status_code == 200
    assert (await client.get("/v1/namespaces/sales/quotas")).json()["quotas"][0]["used"] == 2


async def test_without_a_quota_a_default_holds(client: httpx.AsyncClient, services: Services) -> None:
    await services.pool.execute(
        "INSERT INTO shared_names SELECT 'group', 'g' || n, 'sales', now() FROM generate_series(1, 10000) n"
    )
    refused = await client.put("/v1/apps/sales/a", json=app(group("one_more")))
    assert (refused.status_code, refused.json()["limit"]) == (403, 10_000)


async def test_a_name_is_free_a_day_after_nothing_uses_it(
    client: httpx.AsyncClient, services: Services, clock: SettableClock
) -> None:
    await client.put("/v1/apps/sales/a", json=app(group("gone"), group("kept"), pool("gone"), group("limited")))
    await client.put("/v1/groups/limited", json={"limit": 3})
    await client.put("/v1/apps/sales/a", json=app(group("kept")))
    clock.advance(KEPT)
    await client.put("/v1/apps/sales/b", json=app(group("again")))
    await client.delete("/v1/apps/sales/b")

    assert await free(services) == 0
    clock.advance(timedelta(hours=1))
    assert await free(services) == 2
    assert await owned(services) == {"sales: group kept", "sales: group limited", "sales: group again"}
    assert (await client.put("/v1/apps/ops/a", json=app(group("gone"), pool("gone")))).status_code == 200


@pytest.mark.parametrize(
    "held",
    [
        "INSERT INTO group_slots (group_name, run, weight) VALUES ('gone', 'sales.a.p.manual-1.r1', 1)",
        None,
    ],
)
async def test_a_name_that_a_run_holds_is_not_free(
    client: httpx.AsyncClient, services: Services, clock: SettableClock, held: str | None
) -> None:
    await client.put("/v1/apps/sales/a", json=app(group("gone")))
    await client.delete("/v1/apps/sales/a")
    if held is not None:
        await services.pool.execute("INSERT INTO groups (name) VALUES ('gone') ON CONFLICT DO NOTHING")
        run, now = "sales.a.p.manual-1.r1", datetime.now(UTC)
        await StoredWorld(services.pool).add_run(run, program="sales.a.p", at=now, state=RunState.PENDING)
        await services.pool.execute(held)
    clock.advance(2 * KEPT)

    assert await free(services) == (0 if held else 1)
