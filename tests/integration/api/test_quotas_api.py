"""Quotas over HTTP: set, seen, and what a request over one is answered, on two processes of the API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

import httpx
import pytest

from streamsched.access import quota_watch
from streamsched.access.quota_watch import REUSE, QuotaWatch
from streamsched.api.app import make_api
from streamsched.domain.quotas.event_level import SAVED
from streamsched.roles.api import api_services
from streamsched.roles.services import Services
from streamsched.telemetry.metrics import Metrics
from streamsched.testing.clock import SettableClock
from tests.support.api_routes import api_routes
from tests.support.described_answers import check_answer

pytestmark = pytest.mark.postgres

SECOND = timedelta(seconds=1)


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(datetime(2026, 3, 1, 12, tzinfo=UTC))


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL is never taken for away, however busy this machine is."""
    monkeypatch.setattr(quota_watch, "PATIENCE_S", 60.0)


@pytest.fixture
async def second(services: Services, clock: SettableClock) -> AsyncIterator[httpx.AsyncClient]:
    """Another process of the API: it knows of the first one only what is in PostgreSQL."""
    own = api_services(services)
    watch = QuotaWatch(own.limits.quotas, clock, "another", Metrics())
    own = replace(own, limits=replace(own.limits, quota_watch=watch))
    transport = httpx.ASGITransport(app=make_api(own, api_routes()), raise_app_exceptions=False)
    hooks = {"response": [check_answer]}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", event_hooks=hooks) as client:
        yield client


async def set_quota(client: httpx.AsyncClient, quota: str, limit: int, namespace: str = "default") -> dict[str, Any]:
    path = f"/v1/namespaces/{namespace}/quotas/{quota}"
    answer = await client.put(path, json={"limit": limit, "reason": "the pilot"})
    assert answer.status_code == 200, answer.text
    return answer.json()


def app(schedules: int, *, at_most: int | None = None) -> dict[str, Any]:
    trigger: dict[str, Any] = {"type": "EVENT", "event": {"event": "go", "namespace": "default"}}
    if at_most is not None:
        trigger = {"type": "PER", "by": ["day"], "atMost": at_most, "trigger": trigger}
    return {
        "programs": [{"name": "join", "type": "bash", "command": "true"}],
        "schedules": [{"name": f"s{n}", "program": "join", "trigger": trigger} for n in range(schedules)],
    }


def events(number: int, namespace: str = "default") -> list[dict[str, Any]]:
    data = {"dataset": f"{namespace}.flights", "partitions": ["day=1"]}
    return [{"id": uuid4().hex, "source": "t", "type": "partitions.added", "data": data} for _ in range(number)]


async def emit(client: httpx.AsyncClient, number: int, namespace: str = "default") -> httpx.Response:
    return await client.post("/v1/events?check=none", json=events(number, namespace))


async def test_a_quota_is_set_seen_and_removed(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/quotas")).json() == {"namespaces": []}

    made = await set_quota(client, "schedules", 4, "sales")
    await client.put("/v1/apps/sales/one", json=app(3))

    assert (made["limit"], made["used"], made["ratio"], made["reason"]) == (4, 0.0, 0.0, "the pilot")
    [seen] = (await client.get("/v1/namespaces/sales/quotas")).json()["quotas"]
    assert (seen["quota"], seen["limit"], seen["used"], seen["ratio"]) == ("schedules", 4, 3.0, 0.75)
    assert (await client.get("/v1/quotas")).json() == {"namespaces": [{"namespace": "sales", "quotas": [seen]}]}
    removed = await client.delete("/v1/namespaces/sales/quotas/schedules")
    assert removed.json() == seen
    assert (await client.get("/v1/namespaces/sales/quotas")).json() == {"namespace": "sales", "quotas": []}
    assert (await client.delete("/v1/namespaces/sales/quotas/schedules")).status_code == 404


async def test_a_page_of_quotas_has_whole_namespaces(client: httpx.AsyncClient) -> None:
    for namespace in ("a", "b", "c"):
        await set_quota(client, "runs", 1, namespace)
        await set_quota(client, "body_bytes", 1, namespace)

    first = (await client.get("/v1/quotas?limit=2")).json()
    then = (await client.get("/v1/quotas", params={"limit": 2, "after": first["next"]})).json()

    assert [each["namespace"] for each in first["namespaces"]] == ["a", "b"]
    assert [[use["quota"] for use in each["quotas"]] for each in first["namespaces"]] == [["runs", "body_bytes"]] * 2
    assert [each["namespace"] for each in then["namespaces"]] == ["c"]
    assert "next" not in then


_NO_QUOTAS: Final[list[tuple[str, dict[str, object], str]]] = [
    ("sales/quotas/schedules", {}, "$.limit: is missing"),
    ("sales/quotas/schedules", {"limit": -1}, "$.limit: must be at least 0"),
    ("sales/quotas/runs", {"limit": 2**31}, "$.limit: must be at most 2147483647"),
    ("sales/quotas/schedules", {"limit": 2**63}, "$.limit"),
    ("sales/quotas/schedules", {"limit": 1, "most": 2}, "$.most"),
    ("sales/quotas/pods", {"limit": 1}, "quota: must be one of schedules, accumulations, runs"),
    ("sa les/quotas/runs", {"limit": 1}, "$: namespace name 'sa les'"),
]


async def test_what_is_no_quota_is_refused(client: httpx.AsyncClient) -> None:
    for path, body, said in _NO_QUOTAS:
        answer = await client.put(f"/v1/namespaces/{path}", json=body)

        assert (answer.status_code, answer.json()["detail"].startswith(said)) == (400, True), answer.text


async def test_a_change_over_the_quota_of_schedules_is_refused_as_a_whole(client: httpx.AsyncClient) -> None:
    await set_quota(client, "schedules", 5)
    assert (await client.put("/v1/apps/default/one", json=app(3))).status_code == 200

    planned = await client.put("/v1/apps/default/two?dry_run=true", json=app(3))
    refused = await client.put("/v1/apps/default/two", json=app(3))

    assert (planned.status_code, planned.json()) == (403, refused.json()), planned.text
    assert (await client.put("/v1/apps/default/two?dry_run=true", json=app(2))).status_code == 200
    problem = refused.json()
    assert refused.status_code == 403, refused.text
    assert problem["detail"] == "quota schedules of namespace 'default' is 5: 3 in use, and this would add 3"
    found = {name: problem[name] for name in ("namespace", "quota", "limit", "used", "wanted", "retriable")}
    assert found == {
        "namespace": "default",
        "quota": "schedules",
        "limit": 5,
        "used": 3,
        "wanted": 3,
        "retriable": False,
    }
    assert (await client.get("/v1/apps/default/two")).status_code == 404
    assert (await client.put("/v1/apps/other/two", json=app(9))).status_code == 200, "another namespace"
    assert (await client.put("/v1/apps/default/two", json=app(2))).status_code == 200
    one_more = {**app(1)["schedules"][0], "application": "one", "name": "more"}
    assert (await client.post("/v1/schedules", json=one_more)).status_code == 403


async def test_what_exists_beyond_a_lowered_quota_can_still_be_changed(client: httpx.AsyncClient) -> None:
    await client.put("/v1/apps/default/one", json=app(4))
    await set_quota(client, "schedules", 2)

    changed = app(4)
    changed["schedules"][0]["trigger"] = {"type": "EVENT", "event": {"event": "other", "namespace": "default"}}
    assert (await client.put("/v1/apps/default/one", json=changed)).status_code == 200
    assert (await client.post("/v1/apps/default/one/disable", json={})).status_code == 200
    assert (await client.post("/v1/apps/default/one/enable", json={})).status_code == 200
    assert (await client.put("/v1/apps/default/one", json=app(3))).status_code == 200, "fewer than before"
    assert (await client.put("/v1/apps/default/one", json=app(4))).status_code == 403


async def test_of_deploys_that_race_for_the_last_place_one_passes(
    client: httpx.AsyncClient, second: httpx.AsyncClient
) -> None:
    await set_quota(client, "schedules", 3)
    await client.put("/v1/apps/default/first", json=app(2))

    answers = await asyncio.gather(
        *((client, second)[n % 2].put(f"/v1/apps/default/racer{n}", json=app(1)) for n in range(8))
    )

    assert [answer.status_code for answer in answers].count(403) == 7
    [use] = (await client.get("/v1/namespaces/default/quotas")).json()["quotas"]
    assert use["used"] == 3.0


async def test_accumulations_are_those_that_schedules_may_have_open(client: httpx.AsyncClient) -> None:
    await set_quota(client, "accumulations", 1000)
    assert (await client.put("/v1/apps/default/one", json=app(2, at_most=400))).status_code == 200

    refused = await client.put("/v1/apps/default/two", json=app(1, at_most=201))

    assert refused.status_code == 403
    assert {"used": 800, "wanted": 201}.items() <= refused.json().items()
    assert (await client.put("/v1/apps/default/two", json=app(1, at_most=200))).status_code == 200
    assert (await client.put("/v1/apps/default/two", json=app(1, at_most=199))).status_code == 200
    three = app(1)
    three["schedules"][0]["trigger"]["match"] = {"type": "PER"}
    assert (await client.put("/v1/apps/default/three", json=three)).status_code == 200, "one that does not correlate"
    [use] = (await client.get("/v1/namespaces/default/quotas")).json()["quotas"]
    assert use["used"] == 1000.0
    refused = await client.put("/v1/apps/default/two", json=app(1, at_most=200))
    assert (refused.status_code, refused.json()["wanted"]) == (403, 1)
    default = app(1, at_most=1)
    del default["schedules"][0]["trigger"]["atMost"]
    refused = await client.put("/v1/apps/default/two", json=default)
    assert (refused.status_code, refused.json()["wanted"]) == (403, 9801)


async def test_events_over_the_rate_are_refused_for_a_time(client: httpx.AsyncClient, clock: SettableClock) -> None:
    await set_quota(client, "events_per_second", 10)
    assert (await emit(client, 10 * SAVED)).status_code == 202

    refused = await emit(client, 5)

    problem = refused.json()
    assert refused.status_code == 429, refused.text
    assert refused.headers["Retry-After"] == "1"
    assert (problem["quota"], problem["limit"], problem["wanted"]) == ("events_per_second", 10, 5)
    assert problem["retriable"] is True
    assert (await emit(client, 200, "other")).status_code == 202, "another namespace"
    clock.advance(2 * SECOND)
    assert (await emit(client, 30)).status_code == 202, "whole, although 20 are left: the others are a debt"
    refused = await emit(client, 1)
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    clock.advance(SECOND)
    await emit(client, 1)
    clock.advance(2 * SECOND)
    assert (await emit(client, 1)).status_code == 202


async def test_a_request_about_several_namespaces_is_charged_as_a_whole(
    client: httpx.AsyncClient, clock: SettableClock
) -> None:
    await set_quota(client, "events_per_second", 10, "full")
    await set_quota(client, "events_per_second", 10, "free")
    await emit(client, 10 * SAVED, "full")

    refused = await client.post("/v1/events", json=[*events(60, "free"), *events(1, "full")])

    assert (refused.status_code, refused.json()["namespace"]) == (429, "full")
    assert (await emit(client, 10 * SAVED, "free")).status_code == 202, "nothing was charged"


async def test_two_processes_share_a_rate(
    client: httpx.AsyncClient, second: httpx.AsyncClient, clock: SettableClock
) -> None:
    await set_quota(client, "events_per_second", 20)
    accepted, batch, seconds = 0, 10, 15
    await emit(client, 20 * SAVED - batch)
    for _ in range(seconds):
        for _ in range(3):
            for api in (client, second, second):  # one of them is asked for twice as much
                accepted += batch * ((await emit(api, batch)).status_code == 202)
        clock.advance(REUSE)
        await asyncio.sleep(0)

    assert accepted <= 20 * seconds + 3 * batch
    assert accepted >= 20 * (seconds - 2), "what may be sent is not lost"


async def test_a_changed_quota_holds_on_all_processes_within_a_second(
    client: httpx.AsyncClient, second: httpx.AsyncClient, clock: SettableClock
) -> None:
    assert (await emit(second, 200)).status_code == 202

    await set_quota(client, "events_per_second", 0)
    clock.advance(2 * REUSE)
    assert (await emit(second, 1)).status_code == 429
    await client.delete("/v1/namespaces/default/quotas/events_per_second")
    clock.advance(2 * REUSE)
    assert (await emit(second, 200)).status_code == 202


async def test_run_events_of_openlineage_are_charged(client: httpx.AsyncClient, clock: SettableClock) -> None:
    await set_quota(client, "events_per_second", 0)
    body = {
        "eventType": "COMPLETE",
        "eventTime": "2026-03-01T12:00:00Z",
        "run": {"runId": "0190f5b6-0000-7000-8000-000000000001"},
        "job": {"namespace": "spark", "name": "load.join"},
        "producer": "test",
        "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json",
    }

    answer = await client.post("/api/v1/lineage", json=body)

    assert answer.status_code == 429, answer.text


async def test_a_body_over_the_quota_is_too_large(client: httpx.AsyncClient) -> None:
    await set_quota(client, "body_bytes", 200)

    deployed = await client.put("/v1/apps/default/one", json=app(2))
    emitted = await emit(client, 20)
    long = {**app(1)["schedules"][0], "application": "one", "properties": {"x": "y" * 300}}
    created = await client.post("/v1/schedules", json=long)

    assert [answer.status_code for answer in (deployed, emitted, created)] == [413, 413, 413], created.text
    assert (deployed.json()["quota"], deployed.json()["limit"]) == ("body_bytes", 200)
    assert (await emit(client, 1)).status_code == 202
    assert (await client.put("/v1/apps/other/one", json=app(2))).status_code == 200


async def test_a_change_is_refused_when_the_quota_has_changed_since(client: httpx.AsyncClient) -> None:
    path = "/v1/namespaces/sales/quotas/runs"
    first = await client.put(path, json={"limit": 1})
    await client.put(path, json={"limit": 2})

    stale = {"If-Match": first.headers["ETag"]}
    assert (await client.put(path, json={"limit": 3}, headers=stale)).status_code == 412
    assert (await client.delete(path, headers=stale)).status_code == 412
