"""Groups over HTTP: their limits are seen and set while everything runs."""

from __future__ import annotations

import httpx
import pytest

pytestmark = pytest.mark.postgres


async def test_a_limit_is_set_listed_and_taken_back(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/groups")).json() == {"groups": []}

    answer = await client.put("/v1/groups/warehouse", json={"limit": 3, "reason": "ann: night shift"})

    assert answer.status_code == 200, answer.text
    [listed] = (await client.get("/v1/groups")).json()["groups"]
    assert listed == answer.json()
    assert (listed["name"], listed["limit"], listed["taken"], listed["waiting"]) == ("warehouse", 3, 0, 0)
    assert (await client.put("/v1/groups/warehouse", json={"limit": None})).json()["limit"] is None


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("w", {}, "$.limit: is missing"),
        ("w", {"limit": -1}, "$.limit: must be at least 0 but is -1"),
        ("w", {"limit": 1, "slots": 2}, "$.slots"),
        ("a b", {"limit": 1}, "$: group name 'a b'"),
    ],
)
async def test_a_wrong_limit_is_refused_with_its_place(
    client: httpx.AsyncClient, name: str, body: dict[str, object], said: str
) -> None:
    answer = await client.put(f"/v1/groups/{name}", json=body)

    assert answer.status_code == 400
    assert answer.json()["detail"].startswith(said)
    assert (await client.get("/v1/groups")).json() == {"groups": []}
