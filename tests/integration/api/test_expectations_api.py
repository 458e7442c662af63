"""Expectations and recipients through the API: what may be deployed, and what the pages of expectations say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import httpx
import pytest

from streamsched.access.issuing import create_token
from streamsched.api.app import make_api
from streamsched.config import Settings
from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.access.token import TokenRequest
from streamsched.ports.clock import Clock
from streamsched.roles.api import api_services
from streamsched.roles.services import Services, open_services
from streamsched.store.access.tokens import TokenStore
from streamsched.store.expectations.evidence import CompletionStore, EvidenceStore
from streamsched.store.expectations.judgement import ExpectationStore
from streamsched.testing.clock import SettableClock
from streamsched.timers.evidence import CompletionIntake, EvidenceIntake
from streamsched.timers.expectations import ExpectationWatch
from tests.integration.tasks.task_world import SilentNotifier
from tests.support.api_routes import api_routes
from tests.support.relaying import relaying

pytestmark = pytest.mark.postgres

#: A Sunday.
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
FLIGHTS = {"dataset": "flights", "by": "08:00"}


@pytest.fixture
def clock() -> Clock:
    return SettableClock(NOW)


async def put(client: httpx.AsyncClient, app: str = "shop", **parts: Any) -> httpx.Response:
    body = {"programs": [{"name": "load", "type": "bash", "command": "true"}], "schedules": [], **parts}
    return await client.put(f"/v1/apps/default/{app}", json=body)


async def look(services: Services, clock: SettableClock, at: datetime) -> None:
    """A launcher looks at that time, and when what came up to then is settled."""
    for moment in (at, at + timedelta(seconds=2)):
        clock.set(moment)
        await EvidenceIntake(services.broker, EvidenceStore(services.pool), clock).copy_once(timeout=0)
        await CompletionIntake(CompletionStore(services.pool), clock).run_once()
        await ExpectationWatch(ExpectationStore(services.pool), SilentNotifier(), clock).run_once()


async def test_an_expectation_is_shown_with_its_misses(
    client: httpx.AsyncClient, services: Services, clock: SettableClock
) -> None:
    sent = await put(
        client, expectations=[FLIGHTS, {"name": "rare", "dataset": "rare", "every": "month", "by": "1:05"}]
    )
    assert sent.status_code == 200, sent.text
    assert [(each["id"], each["action"]) for each in sent.json()["expectations"]] == [
        ("default.shop.flights", "created"),
        ("default.shop.rare", "created"),
    ]
    found = (await client.get("/v1/expectations/default.shop.flights")).json()
    assert (found["state"], found["dueAt"], found["misses"]) == ("met", "2026-03-02T08:00:00Z", [])

    await look(services, clock, NOW + timedelta(hours=20))
    found = (await client.get("/v1/expectations/default.shop.flights")).json()
    assert (found["state"], found["openMisses"], found["dueAt"]) == ("missing", 1, "2026-03-03T08:00:00Z")
    (miss,) = found["misses"]
    assert (miss["dueAt"], miss["open"], miss["announced"]) == ("2026-03-02T08:00:00Z", True, True)

    listed = (await client.get("/v1/expectations")).json()["expectations"]
    assert [each["id"] for each in listed] == ["default.shop.flights", "default.shop.rare"]
    for query, wanted in [
        ("missing=true", ["default.shop.flights"]),
        ("app=default.shop&limit=1&after=default.shop.flights", ["default.shop.rare"]),
        ("namespace=other", []),
        ("app=default.other", []),
    ]:
        listed = (await client.get(f"/v1/expectations?{query}")).json()["expectations"]
        assert [each["id"] for each in listed] == wanted, query
    for unknown, status in [("default.shop.none", 404), ("nothing", 400), ("a.b.c.d", 400)]:
        assert (await client.get(f"/v1/expectations/{unknown}")).status_code == status, unknown


_NO_DEFINITIONS: Final[list[tuple[dict[str, Any], str]]] = [
    ({"expectations": [{"by": "08:00"}]}, "$.expectations[0]"),
    ({"expectations": [{**FLIGHTS, "schedule": "x"}]}, "$.expectations[0]"),
    ({"expectations": [{**FLIGHTS, "by": "25:00"}]}, "$.expectations[0].by"),
    ({"expectations": [{**FLIGHTS, "by": "8 Uhr"}]}, "$.expectations[0].by"),
    ({"expectations": [{**FLIGHTS, "every": "year"}]}, "$.expectations[0].every"),
    ({"expectations": [{**FLIGHTS, "timeZone": "Mars/Base"}]}, "$.expectations[0].timeZone"),
    ({"expectations": [{**FLIGHTS, "on": ["FUN"]}]}, "$.expectations[0].on"),
    ({"expectations": [{**FLIGHTS, "partition": "day={weekday}"}]}, "$.expectations[0].partition"),
    ({"expectations": [{**FLIGHTS, "lag": 2}]}, "$.expectations[0].lag"),
    ({"expectations": [{**FLIGHTS, "program": "none"}]}, "$.expectations[0].program"),
    ({"expectations": [FLIGHTS, FLIGHTS]}, "$.expectations[1]"),
    ({"expectations": [{**FLIGHTS, "then": "load"}]}, "$.expectations[0].then"),
    ({"onFailure": [{"mail": ["a@example.org\nBcc: x@example.com"]}]}, "$.onFailure[0].mail"),
    ({"onFailure": [{"mail": []}]}, "$.onFailure[0].mail"),
    ({"onFailure": [{"mail": ["a@example.org"], "program": "load"}]}, "$.onFailure[0]"),
    ({"onFailure": [{"program": "none"}]}, "$.onFailure[0].program"),
    ({"onFailure": [{"program": "load", "recovered": True}]}, "$.onFailure[0].recovered"),
]


async def test_what_is_no_definition_is_refused_with_its_path(client: httpx.AsyncClient) -> None:
    for parts, path in _NO_DEFINITIONS:
        refused = await put(client, **parts)
        assert (refused.status_code, refused.json()["path"]) == (400, path), refused.text
        assert (await client.get("/v1/expectations")).json()["expectations"] == []


async def test_without_a_mail_server_no_app_has_addresses(client: httpx.AsyncClient) -> None:
    refused = await put(client, onFailure=[{"program": "load"}, {"mail": ["team@example.org"]}])
    assert (refused.status_code, refused.json()["path"]) == (400, "$.onFailure[1].mail")
    assert "STREAMSCHED_SMTP_URL" in refused.json()["detail"]
    assert (await put(client, onFailure=[{"program": "load"}])).status_code == 200


async def test_only_the_addresses_that_the_installation_permits(database: str, clock: Clock) -> None:
    settings = Settings.from_env(
        {},
        database_url=database,
        api_access="open",
        smtp_url="smtp://mail.example.org",
        mail_from="scheduler@example.org",
        mail_to="default=@example.org",
    )
    async with open_services(settings, clock=clock) as services, relaying(services):
        transport = httpx.ASGITransport(app=make_api(api_services(services), api_routes()))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for address in ("team@example.com", "team@sub.example.org", "team@example.org.evil.net"):
                refused = await put(client, onFailure=[{"mail": ["team@example.org", address]}])
                assert (refused.status_code, refused.json()["path"]) == (400, "$.onFailure[0].mail"), refused.text
                assert "STREAMSCHED_MAIL_TO" in refused.json()["detail"]
            assert (await put(client, onFailure=[{"mail": ["Team@Example.org"]}])).status_code == 200
            body = {"programs": [], "schedules": [], "onFailure": [{"mail": ["team@example.org"]}]}
            assert (await client.put("/v1/apps/other/shop", json=body)).status_code == 400


async def test_a_grant_that_is_taken_back_ends_an_expectation_until_it_is_given_again(
    database: str, clock: SettableClock
) -> None:
    async with open_services(Settings.from_env({}, database_url=database), clock=clock) as services, relaying(services):
        transport = httpx.ASGITransport(app=make_api(api_services(services), api_routes()))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await _take_back_and_give_again(client, services, clock)


async def _take_back_and_give_again(client: httpx.AsyncClient, services: Services, clock: SettableClock) -> None:
    store = TokenStore(services.pool)

    async def token(name: str, *grants: Grant) -> dict[str, str]:
        _, text = await create_token(store, clock, TokenRequest(name, grants, None), by="test")
        return {"Authorization": f"Bearer {text}"}

    developer = await token("developer", Grant(role=AccessRole.DEVELOPER, namespace="default", shell=True))
    owner = await token("owner", Grant(role=AccessRole.DEVELOPER, namespace="finance"))
    client.headers.update(developer)
    expected = {"name": "rates", "dataset": "finance.rates", "by": "08:00"}
    refused = await put(client, expectations=[expected])
    assert (refused.status_code, "grant give" in refused.text) == (403, True), refused.text
    grant = {"kind": "dataset", "name": "rates", "grantee": "default"}
    url = "/v1/namespaces/finance/grants"
    assert (await client.put(url, json=grant, headers=owner)).status_code == 200
    assert (await put(client, expectations=[expected, FLIGHTS])).status_code == 200

    refusal = {**grant, "state": "refused", "reason": "too curious"}
    assert (await client.put(url, json=refusal, headers=owner)).status_code == 200
    await look(services, clock, NOW + timedelta(hours=20))
    found = (await client.get("/v1/expectations/default.shop.rates")).json()
    assert (found["state"], found["dueAt"], found["misses"]) == ("stopped", None, [])
    assert found["stopped"].endswith("was refused by token:owner: too curious")
    assert (await client.get("/v1/expectations/default.shop.flights")).json()["state"] == "missing"
    assert (await put(client, expectations=[expected, FLIGHTS])).status_code == 403

    assert (await client.put(url, json=grant, headers=owner)).status_code == 200
    assert (await put(client, expectations=[expected, FLIGHTS])).status_code == 200
    found = (await client.get("/v1/expectations/default.shop.rates")).json()
    assert (found["state"], found["dueAt"]) == ("met", "2026-03-03T08:00:00Z")


async def test_an_app_may_have_nothing_but_expectations(client: httpx.AsyncClient) -> None:
    body = {"programs": [], "schedules": [], "expectations": [FLIGHTS]}
    assert (await client.put("/v1/apps/default/fresh", json=body)).status_code == 200
    assert (await client.get("/v1/apps/default/fresh")).status_code == 200
    assert [each["id"] for each in (await client.get("/v1/apps")).json()["apps"]] == ["default.fresh"]
    plan = await client.delete("/v1/apps/default/fresh", params={"dry_run": "true"})
    assert [(each["id"], each["action"]) for each in plan.json()["expectations"]] == [
        ("default.fresh.flights", "deleted")
    ]
    assert (await client.delete("/v1/apps/default/fresh")).status_code == 200
    assert (await client.get("/v1/apps/default/fresh")).status_code == 404
    assert (await client.get("/v1/expectations")).json()["expectations"] == []
