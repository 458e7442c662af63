"""Every list comes in pages with a cursor."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.postgres

NAMES = [f"s{number:03}" for number in range(25)]
APP: dict[str, Any] = {
    "programs": [{"name": f"p{number}", "type": "bash", "command": "true"} for number in range(5)],
    "schedules": [
        {"name": name, "program": "p1", "trigger": {"type": "PARTITION", "dataset": name, "numPartitions": 1}}
        for name in NAMES
    ],
}


@pytest.fixture
async def many(client: httpx.AsyncClient) -> httpx.AsyncClient:
    answer = await client.put("/v1/apps/default/many", json=APP)
    assert answer.status_code == 200, answer.text
    for number in range(7):
        started = await client.post("/v1/programs/default.many.p0/runs", json={"token": f"t{number}", "now": True})
        assert started.status_code == 202, started.text
        assert (await client.put(f"/v1/groups/g{number}", json={"limit": number})).status_code == 200
        assert (await client.put(f"/v1/pools/g{number}", json={"size": number})).status_code == 200
    return client


async def pages(client: httpx.AsyncClient, path: str, member: str, limit: int) -> list[list[str]]:
    found: list[list[str]] = []
    after: str | None = ""
    while after is not None:
        answer = await client.get(path, params={"limit": limit, "after": after})
        assert answer.status_code == 200, answer.text
        body = answer.json()
        found.append([each.get("id", each.get("name")) for each in body[member]])
        after = body.get("next")
        assert len(found) < 100
    return found


@pytest.mark.parametrize(
    ("path", "member"),
    [
        ("/v1/schedules", "schedules"),
        ("/v1/programs", "programs"),
        ("/v1/runs", "runs"),
        ("/v1/jobs", "jobs"),
        ("/v1/groups", "groups"),
        ("/v1/pools", "pools"),
        ("/v1/clusters", "clusters"),
    ],
)
@pytest.mark.parametrize("limit", [1, 3, 7, 25, 1000])
async def test_pages_hold_everything_once_and_in_order(
    many: httpx.AsyncClient, path: str, member: str, limit: int
) -> None:
    (whole,) = await pages(many, path, member, 1000)
    found = await pages(many, path, member, limit)

    assert [each for page in found for each in page] == whole
    assert all(len(page) == limit for page in found[:-1])
    assert len(found[-1]) > 0 or len(found) == 1


async def test_pages_of_a_namespace(many: httpx.AsyncClient) -> None:
    assert (await many.put("/v1/apps/another/many", json=APP)).status_code == 200

    body = (await many.get("/v1/schedules", params={"namespace": "default", "limit": 20})).json()
    rest = (await many.get("/v1/schedules", params={"namespace": "default", "after": body["next"]})).json()

    assert [each["name"] for each in body["schedules"] + rest["schedules"]] == NAMES
    assert "next" not in rest


async def test_runs_that_are_made_meanwhile_shift_no_later_page(many: httpx.AsyncClient) -> None:
    first = (await many.get("/v1/runs", params={"limit": 3})).json()
    await many.post("/v1/programs/default.many.p0/runs", json={"token": "late", "now": True})
    second = (await many.get("/v1/runs", params={"limit": 100, "after": first["next"]})).json()

    seen = [each["id"] for each in first["runs"] + second["runs"]]
    assert len(seen) == len(set(seen)) == 7


LISTS = ["schedules", "programs", "jobs", "runs", "groups", "pools", "clusters", "admin/dead-letters"]


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("limit", ["0", "1001", "-1", "x", str(2**63)])
async def test_a_limit_out_of_bounds_is_refused_by_its_name(client: httpx.AsyncClient, name: str, limit: str) -> None:
    answer = await client.get(f"/v1/{name}", params={"limit": limit})

    assert (answer.status_code, answer.json()["path"]) == (400, "limit")


@pytest.mark.parametrize("name", ["jobs", "runs", "admin/dead-letters"])
@pytest.mark.parametrize("after", ["x", "2026-01-01T00:00:00~a", "~", "2026-13-01T00:00:00+00:00~a", "\u0000~"])
async def test_what_is_no_cursor_is_refused(client: httpx.AsyncClient, name: str, after: str) -> None:
    answer = await client.get(f"/v1/{name}", params={"after": after})

    assert (answer.status_code, answer.json()["path"]) == (400, "after")


async def test_the_default_is_a_hundred(client: httpx.AsyncClient) -> None:
    schedules = [{**APP["schedules"][0], "name": f"s{number}"} for number in range(101)]
    assert (await client.put("/v1/apps/default/many", json={**APP, "schedules": schedules})).status_code == 200

    body = (await client.get("/v1/schedules")).json()

    assert (len(body["schedules"]), "next" in body) == (100, True)


async def test_a_method_that_a_route_lacks_is_answered_with_those_it_has(client: httpx.AsyncClient) -> None:
    for path, methods in (("/v1/groups", "GET"), ("/v1/tokens", "GET, POST"), ("/v1/pools/p", "GET, PUT")):
        answer = await client.request("TRACE", path)
        assert (answer.status_code, answer.headers["allow"]) == (405, methods)
