"""Webhooks over HTTP: created, shown without their secrets, tried, disabled, deleted; and who may."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from streamsched.roles.launcher import launcher_loops
from streamsched.roles.services import Services
from tests.integration.webhooks.webhook_world import receiving

PATH = "/v1/namespaces/default/webhooks"
URL = "https://hooks.example.com/in?token=hidden"


async def test_a_generated_secret_is_shown_once(client: httpx.AsyncClient) -> None:
    made = await client.post(PATH, json={"name": "a", "url": URL, "changes": ["run.failed"]})
    assert made.status_code == 201
    found = made.json()
    secret = found.pop("signingSecret")
    assert secret.startswith("whsec_")
    assert (found["url"], found["enabled"], found["secret"]) == ("https://hooks.example.com/in?…", True, None)
    again = await client.get(f"{PATH}/a")
    assert {**again.json(), "unread": 0} == {**found, "unread": 0}
    listed = await client.get(PATH)
    assert [each["name"] for each in listed.json()["webhooks"]] == ["a"]
    queue = await client.get("/v1/queues/webhook.default.a")
    history = await client.get("/v1/audit")
    for answer in (again, listed, queue, history, await client.get("/v1/queues")):
        assert "hidden" not in answer.text
        assert secret not in answer.text
    assert (await client.post(PATH, json={"name": "a", "url": URL})).status_code == 409
    forged = await client.post("/v1/queues/webhook.default.a/tasks", json={"key": "k", "data": {}})
    assert (forged.status_code, forged.json()["path"]) == (400, "$.queue")


async def test_a_reference_is_shown_and_no_secret_made(client: httpx.AsyncClient) -> None:
    reference = {"secret": "env:SHOP_HOOK"}
    made = await client.post(PATH, json={"name": "a", "url": URL, "secret": reference, "mode": "binary"})
    assert made.status_code == 201
    assert made.json()["secret"] == reference
    assert "signingSecret" not in made.json()


async def test_a_webhook_for_people_is_sent_failures_unless_it_names_changes(client: httpx.AsyncClient) -> None:
    url = "https://hooks.slack.example/services/T0/B0/hidden"
    made = (await client.post(PATH, json={"name": "a", "url": url, "format": "slack"})).json()
    assert (made["format"], made["changes"], made["url"]) == ("slack", ["failure"], "https://hooks.slack.example/…")
    for path in (f"{PATH}/a", PATH, "/v1/queues/webhook.default.a", "/v1/audit"):
        assert "hidden" not in (await client.get(path)).text
    wider = (await client.patch(f"{PATH}/a", json={"format": "teams", "changes": ["failure", "recovery"]})).json()
    assert (wider["format"], wider["changes"]) == ("teams", ["failure", "recovery"])
    for field, value in [("format", "discord"), ("mode", "binary"), ("changes", ["expectation.late"])]:
        body = {"name": "b", "url": url, "format": "slack", field: value}
        refused = await client.post(PATH, json=body)
        assert (refused.status_code, refused.json()["path"]) == (400, f"$.{field}")
    assert (await client.post(PATH, json={"name": "c", "url": url})).json()["changes"] == [
        "deadline.*",
        "expectation.*",
        "job.*",
        "run.*",
        "schedule.*",
    ]


async def test_a_change_keeps_what_it_does_not_name(client: httpx.AsyncClient, services: Services) -> None:
    made = (await client.post(PATH, json={"name": "a", "url": URL, "changes": ["run.failed"], "timeout": "7s"})).json()
    secret, stored = made.pop("signingSecret"), "SELECT secret FROM webhooks"
    await client.post(f"{PATH}/a/disable", json={"reason": "moves"})
    other = "https://other.example.com/in"
    moved = (await client.patch(f"{PATH}/a", json={"url": other})).json()
    same = {"url": other, "enabled": False, "disabledByOwner": True, "reason": "moves", "changedAt": moved["changedAt"]}
    assert {**moved, "unread": 0} == {**made, "unread": 0, **same}
    assert await services.pool.fetchval(stored) == secret

    wider = (
        await client.patch(f"{PATH}/a", json={"changes": None, "mode": "binary", "schedules": ["default.a.b"]})
    ).json()
    assert (len(wider["changes"]) > 1, wider["mode"], wider["schedules"]) == (True, "binary", ["default.a.b"])
    assert (wider["timeout"], wider["url"]) == ("7s", other)

    answer = (await client.patch(f"{PATH}/a", json={"secret": None, "oldSecretFor": "2h"})).json()
    renewed, until = answer["signingSecret"], datetime.fromisoformat(answer["oldSecretUntil"])
    assert timedelta(hours=1) < until - datetime.now(UTC) <= timedelta(hours=2)
    assert await services.pool.fetchval("SELECT old_secret FROM webhooks") == secret
    assert (await client.patch(f"{PATH}/a", json={"oldSecretFor": "0s"})).json()["oldSecretUntil"] is None
    assert (await client.patch(f"{PATH}/a", json={"oldSecretFor": "0s"})).status_code == 409
    assert await services.pool.fetchval(stored) == renewed != secret
    reference = {"secret": "env:SHOP_HOOK"}
    referring = (await client.patch(f"{PATH}/a", json={"secret": reference})).json()
    assert (referring["secret"], "signingSecret" in referring) == (reference, False)
    assert await services.pool.fetchval(stored) is None
    assert (await client.patch(f"{PATH}/a", json={"timeout": "8s"})).json()["secret"] == reference
    assert "signingSecret" in (await client.patch(f"{PATH}/a", json={"secret": None})).json()


async def test_a_wrong_change_is_refused_with_its_path_and_changes_nothing(client: httpx.AsyncClient) -> None:
    await client.post(PATH, json={"name": "a", "url": URL})
    before = (await client.get(f"{PATH}/a")).json()
    for body, path in (
        ({"name": "b"}, "$.name"),
        ({"oldSecretFor": "8d"}, "$.oldSecretFor"),
        ({"oldSecretFor": "soon"}, "$.oldSecretFor"),
        ({"oldSecretFor": 7}, "$.oldSecretFor"),
        ({"url": None}, "$.url"),
        ({"url": "http://["}, "$.url"),
        ({"url": "http://127.0.0.1:9/"}, "$.url"),
        ({"changes": ["none"]}, "$.changes"),
        ({"timeout": "2m"}, "$.timeout"),
        ({"secret": {"secret": "in plain text"}}, "$.secret.secret"),
        ({"schedules": [f"default.a.b{n}" for n in range(101)]}, "$.schedules"),
    ):
        refused = await client.patch(f"{PATH}/a", json=body)
        assert (refused.status_code, refused.json().get("path")) == (400, path), (body, refused.text)
    assert {**(await client.get(f"{PATH}/a")).json(), "unread": 0} == {**before, "unread": 0}
    assert (await client.patch(f"{PATH}/none", json={})).status_code == 404


async def test_what_is_wrong_is_refused_with_its_path(client: httpx.AsyncClient) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"url": URL}, "$.name"),
        ({"name": "a.b", "url": URL}, "$.name"),
        ({"name": "a", "url": "http://127.0.0.1:9/"}, "$.url"),
        ({"name": "a", "url": "http://localhost/"}, "$.url"),
        ({"name": "a", "url": URL, "changes": ["none"]}, "$.changes"),
    ]
    for body, path in cases:
        refused = await client.post(PATH, json=body)
        assert (refused.status_code, refused.json()["path"]) == (400, path), body
    for method, path in (("GET", "none"), ("DELETE", "none"), ("POST", "none/enable"), ("POST", "none/test")):
        assert (await client.request(method, f"{PATH}/{path}", json={})).status_code == 404
    policy = {"target": {"type": "webhook"}}
    assert (await client.put("/v1/queues/mine", json=policy)).status_code == 400
    other = {"target": {"type": "http", "url": "https://elsewhere.example.com/"}}
    assert (await client.put("/v1/queues/webhook.default.a", json=other)).status_code == 400


async def test_disabled_enabled_and_deleted(client: httpx.AsyncClient) -> None:
    await client.post(PATH, json={"name": "a", "url": URL})
    disabled = (await client.post(f"{PATH}/a/disable", json={"reason": "too loud"})).json()
    assert (disabled["enabled"], disabled["disabledByOwner"], disabled["reason"]) == (False, True, "too loud")
    assert (await client.get("/v1/queues/webhook.default.a")).json()["paused"] is True
    assert (await client.post(f"{PATH}/a/test", json={})).status_code == 409
    assert (await client.post(f"{PATH}/a/enable")).json()["enabled"] is True
    assert (await client.get("/v1/queues/webhook.default.a")).json()["paused"] is False
    assert (await client.delete(f"{PATH}/a")).json()["name"] == "a"
    assert (await client.get(f"{PATH}/a")).status_code == 404
    assert (await client.get("/v1/queues/webhook.default.a")).status_code == 404


async def test_a_launcher_sends_a_test_and_the_changes_of_a_run(
    services: Services, deployed: httpx.AsyncClient
) -> None:
    object.__setattr__(services, "settings", services.settings.replace(outgoing_networks="127.0.0.0/8"))
    loops = launcher_loops(services, {})
    running = [asyncio.ensure_future(loops[name]()) for name in ("webhooks", "tasks", "broker_health")]
    try:
        async with receiving() as far:
            # The API of this test has no such setting, so the webhook is stored beside it.
            await deployed.post(PATH, json={"name": "a", "url": URL})
            await services.pool.execute(
                "UPDATE webhooks SET definition = jsonb_set(definition, '{url}', to_jsonb($1::text))", far.url
            )
            tried = (await deployed.post(f"{PATH}/a/test", json={})).json()
            assert tried == {"accepted": True, "answer": "HTTP 204"}
            assert far.got[0].event["type"] == "streamsched.webhook.test"
            started = await deployed.post("/v1/programs/default.flights.join/runs", json={"now": True})
            run = started.json()["run"]
            await far.until(2)
            event = far.got[1].event
            assert (event["type"], event["subject"]) == ("streamsched.run.created", run)
            assert event["data"]["program"] == "default.flights.join"
    finally:
        for task in running:
            task.cancel()
        for task in running:
            with suppress(asyncio.CancelledError):
                await task
