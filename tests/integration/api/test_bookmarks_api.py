"""Bookmarks over HTTP: set from the revision that was read, and listed without values."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Final

import httpx
import pytest

from streamsched.domain.jobs.run import RunState
from streamsched.roles.services import Services
from tests.support.world import StoredWorld

pytestmark = pytest.mark.postgres

URL = "/v1/bookmarks/watch.default.flights"


async def test_a_bookmark_is_set_read_listed_and_deleted(client: httpx.AsyncClient) -> None:
    assert (await client.get(URL)).status_code == 404

    first = await client.put(URL, json={"value": "3", "revision": 0})
    second = await client.put(URL, json={"value": "", "revision": 1})

    assert (first.status_code, first.json()["revision"]) == (200, 1)
    assert (second.json()["value"], second.json()["revision"]) == ("", 2)
    assert (await client.get(URL)).json() == second.json()
    await client.put("/v1/bookmarks/a", json={"value": "x" * 10_000, "revision": 0})
    page = (await client.get("/v1/bookmarks?limit=1")).json()
    assert [each["name"] for each in page["bookmarks"]] == ["a"]
    assert "value" not in page["bookmarks"][0]
    rest = (await client.get(f"/v1/bookmarks?after={page['next']}")).json()
    assert [each["name"] for each in rest["bookmarks"]] == ["watch.default.flights"]
    assert (await client.delete(URL)).json()["deleted"] is True
    assert (await client.delete(URL)).json()["deleted"] is False


async def test_only_the_revision_that_was_read_is_changed(client: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(
        *(client.put(URL, json={"value": f"{number}", "revision": 0}) for number in range(10))
    )

    assert sorted(each.status_code for each in answers) == [200] + [409] * 9
    stored = (await client.get(URL)).json()
    assert (await client.put(URL, json={"value": stored["value"], "revision": 0})).json() == stored  # repeated
    assert (await client.put(URL, json={"value": "other", "revision": 7})).status_code == 409
    assert (await client.put("/v1/bookmarks/none", json={"value": "x", "revision": 1})).status_code == 409


async def start(services: Services, *runs: str) -> None:
    for run in runs:
        await StoredWorld(services.pool).add_run(
            run, program="default.a.p", at=datetime.now(UTC), state=RunState.PENDING
        )


async def end(services: Services, run: str, state: str) -> None:
    await StoredWorld(services.pool).end_run(run, RunState(state), datetime.now(UTC))


async def test_a_run_sets_a_bookmark_by_its_success(client: httpx.AsyncClient, services: Services) -> None:
    await start(services, "r1", "r2", "r3", "r4")

    async def by(run: str, value: str, revision: int) -> httpx.Response:
        return await client.put(URL, json={"value": value, "revision": revision, "run": run})

    async def shown(run: str = "r9") -> tuple[str, int, str | None]:
        found = (await client.get(URL, params={"run": run})).json()
        return found["value"], found["revision"], found["pending"]

    assert (await by("r0", "x", 0)).status_code == 404
    assert (await by("r1", "old", 0)).json() == {"name": "watch.default.flights", "revision": 0, "pending": "old"}
    await by("r1", "1", 0)
    assert await shown("r1") == ("", 0, "1")
    await end(services, "r1", "FAILED")
    await by("r2", "2", 0)
    assert await shown("r2") == ("", 0, "2")
    await end(services, "r2", "COMPLETED")
    assert await shown("r2") == ("2", 1, None)
    assert await shown() == ("2", 1, None)
    await by("r3", "3", 1)
    await by("r4", "4", 1)
    await end(services, "r4", "COMPLETED")
    await end(services, "r3", "COMPLETED")
    assert await shown() == ("4", 2, None)
    assert (await by("r3", "5", 1)).status_code == 409
    assert await StoredWorld(services.pool).size("bookmark_moves") == 0


_BAD: Final[list[tuple[str, object, str | None]]] = [
    ("a/b", {"value": "", "revision": 0}, None),
    ("-a", {"value": "", "revision": 0}, "$.name"),
    ("a" * 256, {"value": "", "revision": 0}, "$.name"),
    ("a", {"revision": 0}, "$.value"),
    ("a", {"value": 7, "revision": 0}, "$.value"),
    ("a", {"value": "", "revision": -1}, "$.revision"),
    ("a", {"value": "", "revision": 2**70}, "$.revision"),
    ("a", {"value": "\0", "revision": 0}, None),
    ("a", {"value": "", "revision": 0, "more": 1}, "$.more"),
]


async def test_bad_input_is_refused(client: httpx.AsyncClient) -> None:
    for name, body, path in _BAD:
        answer = await client.put(f"/v1/bookmarks/{name}", json=body)

        assert answer.status_code in (400, 404)
        if path is not None:
            assert (answer.status_code, answer.json()["path"]) == (400, path)
