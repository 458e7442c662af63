"""Pools over HTTP: sizes, ages and priorities are seen and set while everything runs."""

from __future__ import annotations

from typing import Final

import httpx
import pytest

pytestmark = pytest.mark.postgres


async def test_a_size_and_an_age_are_set_listed_and_taken_back(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/pools")).json() == {"pools": []}

    answer = await client.put("/v1/pools/nightly", json={"size": 3, "age": "30s", "reason": "ann: night shift"})

    assert answer.status_code == 200, answer.text
    [listed] = (await client.get("/v1/pools")).json()["pools"]
    assert listed == answer.json()
    assert (listed["name"], listed["size"], listed["taken"], listed["waiting"]) == ("nightly", 3, 0, 0)
    assert (listed["age"], listed["schedules"]) == ("30s", [])
    again = (await client.put("/v1/pools/nightly", json={"size": None})).json()
    assert (again["size"], again["age"]) == (None, "30s")
    assert (await client.get("/v1/groups")).json() == {"groups": []}, "a pool is no group"


_REFUSED: Final[list[tuple[str, dict[str, object], int, str]]] = [
    ("pools/w", {}, 400, "$.size: is missing"),
    ("pools/w", {"size": -1}, 400, "$.size: must be at least 0 but is -1"),
    ("pools/w", {"size": 1, "age": "2d"}, 400, "$.age: must be from 0s to 1d but is 2d"),
    ("pools/w", {"size": 1, "slots": 2}, 400, "$.slots"),
    ("pools/a b", {"size": 1}, 400, "$: group name 'a b'"),
    ("schedules/default.app.s/priority", {"priority": 1001}, 400, "$.priority: must be from -1000 to 1000"),
    ("schedules/default.app.s/priority", {"priority": 1}, 404, "schedule of a pool 'default.app.s'"),
]


async def test_what_cannot_be_set_is_refused_with_its_place(client: httpx.AsyncClient) -> None:
    for path, body, code, said in _REFUSED:
        answer = await client.put(f"/v1/{path}", json=body)

        assert (answer.status_code, answer.json()["detail"].startswith(said)) == (code, True), answer.text
