"""Preferences of a namespace over HTTP, ours and CDAP's."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import httpx
import pytest

from streamsched.roles.services import Services
from tests.support.world import StoredWorld

pytestmark = pytest.mark.postgres

URL = "/v1/namespaces/retail/preferences"
CDAP = "/v3/namespaces/retail/preferences"


async def arguments(client: httpx.AsyncClient) -> dict[str, str]:
    answer = await client.get(URL)
    assert answer.status_code == 200, answer.text
    return answer.json()["arguments"]


async def test_preferences_are_set_changed_shown_and_deleted(client: httpx.AsyncClient) -> None:
    never = {"namespace": "retail", "deployed": False, "arguments": {}, "reason": "", "changedAt": None}
    assert (await client.get(URL)).json() == never

    answer = await client.put(URL, json={"arguments": {"env": "prod", "region": "EU"}, "reason": "ann: go live"})

    assert answer.status_code == 200, answer.text
    shown = (await client.get(URL)).json()
    assert shown == answer.json()
    assert (shown["arguments"], shown["reason"]) == ({"env": "prod", "region": "EU"}, "ann: go live")
    changed = await client.patch(URL, json={"arguments": {"region": None, "team": "x", "none": None}})
    assert changed.json()["arguments"] == {"env": "prod", "team": "x"}
    assert (await client.put(URL, json={"arguments": {"env": "test"}})).json()["arguments"] == {"env": "test"}
    assert (await client.delete(URL)).json()["arguments"] == {}
    assert (await client.delete(URL)).json()["arguments"] == {}


async def test_a_namespace_with_an_app_is_told_from_one_that_may_be_mistyped(deployed: httpx.AsyncClient) -> None:
    default = (await deployed.get("/v1/namespaces/default/preferences")).json()

    assert (default["arguments"], default["deployed"]) == ({}, True)
    assert (await deployed.get(URL)).json()["deployed"] is False


async def test_the_history_has_the_names_that_changed_and_no_value(
    client: httpx.AsyncClient, services: Services
) -> None:
    await client.put(URL, json={"arguments": {"env": "hidden", "a": "b"}, "reason": "ann"})
    await client.put(URL, json={"arguments": {"env": "hidden", "a": "b"}, "reason": "again"})
    await client.patch(URL, json={"arguments": {f"n{number:02}": "hidden" for number in range(12)} | {"a": None}})

    rows = await StoredWorld(services.pool).history(kind="namespace")

    assert [(row.subject, row.action, row.reason) for row in rows] == [
        ("retail", "namespace.preferences_set", "set a, env: ann"),
        (
            "retail",
            "namespace.preferences_set",
            "set n00, n01, n02, n03, n04, n05, n06, n07, n08, n09 and 2 more; removed a",
        ),
    ]
    assert (await client.get(URL)).json()["reason"] == ""


async def test_changes_at_the_same_time_are_one_after_the_other(client: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(client.patch(URL, json={"arguments": {f"n{n}": "v"}}) for n in range(8)))

    assert {answer.status_code for answer in answers} == {200}
    assert await arguments(client) == {f"n{n}": "v" for n in range(8)}


_WRONG: Final[list[tuple[str, str, Any, str]]] = [
    ("PUT", URL, {}, "$.arguments: is missing"),
    ("PUT", URL, {"arguments": ["a"]}, "$.arguments: must be an object but is a list"),
    ("PUT", URL, {"arguments": {"a": 1}}, "$.arguments.a: must be a text but is a number"),
    ("PUT", URL, {"arguments": {"a": None}}, "$.arguments.a: must be a text but is null"),
    ("PUT", URL, {"arguments": {}, "also": 1}, "$.also"),
    ("PUT", URL, {"arguments": {"trigger.job": "1"}}, "$.arguments['trigger.job']"),
    ("PATCH", URL, {"arguments": {"a": [1]}}, "$.arguments.a: must be a text but is a list"),
    ("PATCH", URL, {"arguments": {f"n{n}": "" for n in range(1000)}}, "$.arguments: must have at most 1000"),
    ("PUT", "/v1/namespaces/a-b/preferences", {"arguments": {}}, "$: namespace name 'a-b'"),
    ("PUT", CDAP, {"a": None}, "$.a"),
    ("PUT", CDAP, {"a": {}}, "$.a"),
    ("PUT", CDAP, {"a": "v" * 32_769}, "$.a: must have at most 32768 characters"),
    ("PUT", CDAP, ["a"], "$"),
]


async def test_wrong_preferences_are_refused_with_their_place_and_change_nothing(client: httpx.AsyncClient) -> None:
    for method, url, body, said in _WRONG:
        await client.put(URL, json={"arguments": {"env": "prod"}})

        answer = await client.request(method, url, json=body)

        assert answer.status_code == 400, answer.text
        detail = answer.text if url == CDAP else answer.json()["detail"]
        assert detail.startswith(said)
        assert await arguments(client) == {"env": "prod"}


async def test_cdaps_preferences_are_the_same(client: httpx.AsyncClient) -> None:
    assert (await client.get(CDAP)).json() == {}

    answer = await client.put(CDAP, json={"env": "prod", "retries": 3, "fast": True})

    assert (answer.status_code, answer.content) == (200, b"")
    wanted = {"env": "prod", "retries": "3", "fast": "true"}
    assert await arguments(client) == wanted
    assert (await client.get(CDAP, params={"resolved": "true"})).json() == wanted
    assert (await client.put(CDAP, json={"env": "test"})).status_code == 200
    assert (await client.get(CDAP)).json() == {"env": "test"}
    answer = await client.delete(CDAP)
    assert (answer.status_code, answer.content) == (200, b"")
    assert await arguments(client) == {}
