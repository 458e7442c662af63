"""Commits of file sets over HTTP: numbered without gaps, each id once, at one location."""

from __future__ import annotations

import asyncio
from typing import Final

import httpx
import pytest

from streamsched.roles.services import Services
from streamsched.store.sql import queries

pytestmark = pytest.mark.postgres

URL = "/v1/datasets/default/flights/commits"


def body(commit: str, attempt: int = 1, location: str = "hdfs://lake/flights") -> dict[str, str]:
    return {"commit": commit, "manifest": f"_manifest/{commit}.{attempt}.json", "location": location}


async def test_commits_are_listed_in_order_by_pages_and_forgotten(client: httpx.AsyncClient) -> None:
    assert (await client.get(URL)).json() == {"location": None, "commits": []}
    for name in "abc":
        assert (await client.post(URL, json=body(name))).status_code == 200

    page = (await client.get(f"{URL}?limit=2")).json()
    rest = (await client.get(f"{URL}?after={page['next']}")).json()

    assert [(each["number"], each["commit"]) for each in page["commits"]] == [(1, "a"), (2, "b")]
    third = {"number": 3, "commit": "c", "manifest": "_manifest/c.1.json"}
    assert rest == {"location": "hdfs://lake/flights", "commits": [third]}
    assert (await client.delete(URL)).json() == {"deleted": 3}
    assert (await client.get(URL)).json() == {"location": None, "commits": []}
    assert (await client.post(URL, json=body("z", location="s3://elsewhere"))).json()["number"] == 1


async def test_a_commit_id_is_visible_once_whichever_attempt_is_first(client: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(client.post(URL, json=body("a", attempt)) for attempt in range(8)))

    assert {each.status_code for each in answers} == {200}
    assert len({each.text for each in answers}) == 1
    assert len((await client.get(URL)).json()["commits"]) == 1


async def test_writers_at_the_same_time_have_numbers_without_gaps(client: httpx.AsyncClient) -> None:
    await asyncio.gather(*(client.post(URL, json=body(f"w{number}")) for number in range(30)))

    assert [each["number"] for each in (await client.get(URL)).json()["commits"]] == list(range(1, 31))


async def test_a_dataset_has_one_location(client: httpx.AsyncClient) -> None:
    await client.post(URL, json=body("a"))

    refused = await client.post(URL, json=body("b", location="hdfs://other/flights"))

    assert refused.status_code == 409
    assert "hdfs://lake/flights, and not at hdfs://other/flights" in refused.json()["detail"]
    assert [each["number"] for each in (await client.get(URL)).json()["commits"]] == [1]


_BAD: Final[list[tuple[dict[str, object], str]]] = [
    ({"commit": "a/b"}, "$.commit"),
    ({"commit": "x" * 201}, "$.commit"),
    ({"manifest": ""}, "$.manifest"),
    ({"location": "x" * 2001}, "$.location"),
    ({"more": 1}, "$.more"),
]


async def test_bad_input_names_its_field(client: httpx.AsyncClient) -> None:
    for change, path in _BAD:
        refused = await client.post(URL, json={**body("a"), **change})

        assert refused.status_code == 400
        assert path in refused.text


async def test_pages_are_read_by_the_index(client: httpx.AsyncClient, services: Services) -> None:
    await services.pool.execute("INSERT INTO file_sets VALUES ('default.flights', 'x', 5000)")
    await services.pool.execute(
        "INSERT INTO file_set_commits SELECT 'default.flights', n, 'c' || n, 'm' FROM generate_series(1, 5000) n"
    )
    await services.pool.execute("ANALYZE file_set_commits")
    plan = await services.pool.fetch(
        "EXPLAIN " + queries("datasets/file_set_commits")["after"], "default.flights", 4900, 1000
    )

    assert "file_set_commits_pkey" in str(plan)
    assert "Seq Scan" not in str(plan)
    assert (await client.get(f"{URL}?after=4999")).json()["commits"][0]["number"] == 5000
