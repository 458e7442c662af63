"""Dapr's jobs API over HTTP, and delivery to an HTTP app."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.integration.dapr.apps import HttpApp
from tests.integration.dapr.conftest import DaprInstallation

VALUE = "type.googleapis.com/google.protobuf.Value"


@pytest.mark.parametrize("path", ["/v1.0/jobs", "/v1.0-alpha1/jobs", "/v1.0/schedule/jobs"])
async def test_a_job_is_scheduled_shown_and_deleted(installation: DaprInstallation, path: str) -> None:
    async with installation.endpoint() as client:
        body = {"schedule": "@every 1m", "dueTime": "1000s", "repeats": 5, "ttl": "1h", "data": {"a": [1, None]}}
        assert (await client.post(f"{path}/a b||c", json=body)).status_code == 204
        shown = (await client.get(f"{path}/a b||c")).json()
        again = await client.post(f"{path}/a b||c", json=body)
        over = await client.post(f"{path}/a b||c", json={"dueTime": "1h", "overwrite": True})
        after = (await client.get(f"{path}/a b||c")).json()
        assert (await client.delete(f"{path}/a b||c")).status_code == 204
        gone = await client.get(f"{path}/a b||c")
        assert (await client.delete(f"{path}/a b||c")).status_code == 204

    extra = {name: shown.pop(name) for name in ("nextFire", "fired")}
    assert shown == {
        "name": "a b||c",
        "schedule": "@every 1m",
        "dueTime": "1000s",
        "repeats": 5,
        "ttl": "1h",
        "data": {"@type": VALUE, "value": {"a": [1, None]}},
        "failurePolicy": {"constant": {"interval": "1s", "maxRetries": 3}},
    }
    assert extra["fired"] == 0
    assert (again.status_code, again.json()["errorCode"]) == (409, "DAPR_SCHEDULER_SCHEDULE_JOB")
    assert again.json()["message"] == "failed to schedule job due to: job already exists: 'a b||c'"
    assert (over.status_code, after["dueTime"], "schedule" in after) == (204, "1h", False)
    assert (gone.status_code, gone.json()["errorCode"]) == (404, "DAPR_SCHEDULER_GET_JOB")


@pytest.mark.parametrize(
    ("name", "body", "statuses", "code"),
    [
        ("j", b"", (400, 400), "ERR_MALFORMED_REQUEST"),
        ("j", b"[]", (400, 400), "ERR_MALFORMED_REQUEST"),
        ("j", b'{"repeats": -1, "dueTime": "1s"}', (400, 400), "ERR_MALFORMED_REQUEST"),
        ("j", b"{}", (400, 400), "DAPR_SCHEDULER_SCHEDULE_EMPTY"),
        ("%20", b'{"dueTime": "1s"}', (400, 400), "DAPR_SCHEDULER_JOB_NAME_EMPTY"),
        ("j", b'{"name": "j", "dueTime": "1s"}', (400, 400), "DAPR_SCHEDULER_JOB_NAME"),
        ("j", b'{"schedule": "* * * * *"}', (400, 500), "DAPR_SCHEDULER_SCHEDULE_JOB"),
        ("a/b", b'{"dueTime": "1s"}', (400, 500), "DAPR_SCHEDULER_SCHEDULE_JOB"),
        ("a%2Fb", b'{"dueTime": "1s"}', (400, 500), "DAPR_SCHEDULER_SCHEDULE_JOB"),
        ("a%00b", b'{"dueTime": "1s"}', (400, 500), "DAPR_SCHEDULER_SCHEDULE_JOB"),
        ("x" * 600, b'{"dueTime": "1s"}', (400, 500), "DAPR_SCHEDULER_SCHEDULE_JOB"),
        ("j", b'{"schedule": "@daily", "ttl": "1s"}', (400, 204), "DAPR_SCHEDULER_SCHEDULE_JOB"),
        ("j", b'{"dueTime": "1s", "data": "' + b"x" * 262_200 + b'"}', (400, 500), "DAPR_SCHEDULER_SCHEDULE_JOB"),
    ],
)
async def test_refusals(
    installation: DaprInstallation, name: str, body: bytes, statuses: tuple[int, int], code: str
) -> None:
    for strict, status in zip((False, True), statuses, strict=True):
        async with installation.endpoint(dapr_strict=strict) as client:
            answer = await client.post(f"/v1.0/jobs/{name}", content=body)
            assert answer.status_code == status, answer.text
            if status == 204:
                assert (await client.get(f"/v1.0/jobs/{name}")).status_code == 500
                continue
            found = answer.json()
            assert found["errorCode"] == code
            assert found["details"][0]["reason"] == code
            assert found["details"][0]["metadata"] == {"appID": "orders", "namespace": "default"}


async def test_a_request_needs_the_token_and_health_does_not(installation: DaprInstallation) -> None:
    async with installation.endpoint(dapr_api_token="s3cret") as client:
        assert (await client.get("/v1.0/jobs/j")).status_code == 401
        assert (await client.post("/v1.0/jobs/j", content=bytes(17 << 20))).status_code == 401, "its body is not read"
        assert (await client.get("/v1.0/jobs/j", headers={"dapr-api-token": "other"})).status_code == 401
        assert (await client.get("/v1.0/jobs/j", headers={"dapr-api-token": "s3cret"})).status_code == 404
        assert (await client.get("/v1.0/healthz/outbound")).status_code == 204
        form = {"dapr-api-token": "s3cret", "content-type": "application/x-www-form-urlencoded"}
        posted = await client.post("/v1.0/jobs/j", content=b'{"dueTime": "1h"}', headers=form)
        assert posted.status_code == 204, "as curl -d sends it"


async def test_an_app_gets_its_jobs_with_their_data_alone(installation: DaprInstallation) -> None:
    app = HttpApp()
    async with (
        app.running() as address,
        installation.launcher(),
        installation.endpoint(dapr_app=address, dapr_app_token="app-token") as client,
    ):
        await client.post("/v1.0/jobs/once||ü", json={"dueTime": "0s", "data": {"task": "backup"}})
        await app.wait_for(1)
        await client.post("/v1.0/jobs/often", json={"schedule": "@every 100ms", "repeats": 3, "data": "hello"})
        await client.post("/v1.0/jobs/empty", json={"dueTime": "1ms"})
        await app.wait_for(5)
        for name in ("once||ü", "often", "empty"):
            await _gone(client, name)

    once, empty = app.got[0], next(each for each in app.got if each[0] == "empty")
    assert (once[0], json.loads(once[1])) == ("once||ü", {"task": "backup"})
    assert (once[2]["Content-Type"], once[2]["dapr-api-token"]) == ("application/json", "app-token")
    assert empty[1] == b""
    assert sorted(each[0] for each in app.got) == ["empty", "often", "often", "often", "once||ü"]


async def test_data_that_is_null_and_the_next_deliveries(installation: DaprInstallation) -> None:
    app = HttpApp()
    async with app.running() as address, installation.launcher():
        async with installation.endpoint(dapr_app=address) as client:
            await client.post("/v1.0/jobs/null", json={"dueTime": "0s", "data": None})
            await app.wait_for(1)
            await client.post("/v1.0/jobs/x", json={"schedule": "0 0 6 * * *"})
            found = (await client.get("/v1.0/jobs/x/next?count=3")).json()
            assert (await client.get("/v1.0/jobs/none/next")).status_code == 404
        async with installation.endpoint(dapr_strict=True) as client:
            assert (await client.get("/v1.0/jobs/x/next")).status_code == 500, "Dapr has no such route"

    assert (app.got[0][0], app.got[0][1]) == ("null", b"null")
    assert (found["name"], len(found["next"])) == ("x", 3)
    assert all(each.endswith("T06:00:00Z") for each in found["next"])


async def test_failures_are_retried_as_the_policy_says_and_404_is_success(installation: DaprInstallation) -> None:
    app = HttpApp(answer=lambda name, _: {"unknown": 404}.get(name, 500))
    policies: dict[str, Any] = {
        "unknown": None,
        "drop": {"drop": {}},
        "twice": {"constant": {"interval": "0.02s", "maxRetries": 2}},
        "never": {"constant": {"maxRetries": 0}},
    }
    async with app.running() as address, installation.launcher(), installation.endpoint(dapr_app=address) as client:
        for name, policy in policies.items():
            body = {"dueTime": "0s", "failurePolicy": policy}
            assert (await client.post(f"/v1.0/jobs/{name}", json=body)).status_code == 204
        await app.wait_for(6)
        for name in policies:
            await _gone(client, name)

    names = [each[0] for each in app.got]
    assert {name: names.count(name) for name in policies} == {"unknown": 1, "drop": 1, "twice": 3, "never": 1}


async def test_a_job_waits_for_its_app_and_uses_up_no_attempt(installation: DaprInstallation) -> None:
    app = HttpApp()
    async with app.running() as address:
        pass  # the port is known, and nothing answers there
    async with installation.launcher(), installation.endpoint(dapr_app=address) as client:
        body = {"dueTime": "0s", "failurePolicy": {"drop": {}}}
        assert (await client.post("/v1.0/jobs/early", json=body)).status_code == 204
        await asyncio.sleep(0)
        shown = (await client.get("/v1.0/jobs/early")).json()
        assert "failures" not in shown
        async with app.running():
            await app.wait_for(1)
            await _gone(client, "early")

        await client.post("/v1.0/jobs/late", json=body)
        async with app.running():
            await app.wait_for(2)
            await _gone(client, "late")
    assert [each[0] for each in app.got] == ["early", "late"]


async def test_any_instance_gets_a_job_and_a_dead_one_holds_none_up(installation: DaprInstallation) -> None:
    first, second = HttpApp(), HttpApp()
    async with installation.launcher(), first.running() as one, second.running() as two:
        async with installation.endpoint(dapr_app=f"{one},{two}") as client:
            for number in range(40):
                await client.post(f"/v1.0/jobs/j{number}", json={"dueTime": "500ms"})
            async with asyncio.timeout(20):
                while len(first.got) + len(second.got) < 40:  # noqa: ASYNC110 - either may get them
                    await asyncio.sleep(0.05)
        assert sorted([*(each[0] for each in first.got), *(each[0] for each in second.got)]) == sorted(
            f"j{number}" for number in range(40)
        )


async def _gone(client: Any, name: str) -> None:
    """Waits until a job has ended."""
    async with asyncio.timeout(20):
        while (await client.get(f"/v1.0/jobs/{name}")).status_code != 404:  # noqa: ASYNC110 - the test sees no event of it
            await asyncio.sleep(0.02)
