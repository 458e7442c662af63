"""Grants between namespaces: what owners decide, and what schedules of others then may."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from streamsched.access.issuing import create_token
from streamsched.config import Settings
from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.access.token import TokenRequest
from streamsched.roles.services import Services, open_services
from streamsched.store.access.tokens import TokenStore
from streamsched.store.catalog.namespace_grants import NamespaceGrantStore
from tests.support.relaying import relaying
from tests.support.world import StoredWorld

Header = dict[str, str]
PAYROLL = {"type": "PROGRAM_STATUS", "programId": "finance.pay.payroll", "programStatuses": ["COMPLETED"]}
GRANTS = "/v1/namespaces/finance/grants"
TO_SALES = {"kind": "program", "name": "pay.payroll", "grantee": "sales"}


@pytest.fixture
async def services(database: str, clock: Any) -> AsyncIterator[Services]:
    async with open_services(Settings.from_env({}, database_url=database), clock=clock) as services, relaying(services):
        yield services


@pytest.fixture
def people(services: Services, client: httpx.AsyncClient) -> People:
    return People(services, client)


class People:
    """Callers by role and namespace, such as `developer@sales`."""

    def __init__(self, services: Services, client: httpx.AsyncClient) -> None:
        self._services = services
        self._client = client
        self._headers: dict[str, Header] = {}

    async def ask(self, who: str, method: str, path: str, **sent: Any) -> httpx.Response:
        """The answer to a request of `who`; several roles are joined by `+`."""
        if who not in self._headers:
            parts = [each.partition("@") for each in who.split("+")]
            grants = tuple(
                Grant(role=AccessRole(role), namespace=namespace or "*", shell=role == "developer")
                for role, _, namespace in parts
            )
            store = TokenStore(self._services.pool)
            request = TokenRequest(who.replace("@", "-").replace("+", "-"), grants)
            _, text = await create_token(store, self._services.clock, request, by="test")
            self._headers[who] = {"Authorization": f"Bearer {text}"}
        return await self._client.request(method, path, headers=self._headers[who], **sent)

    async def deploy(self, who: str, namespace: str = "sales", app: str = "app", **schedule: Any) -> httpx.Response:
        """Deploys an app with one schedule."""
        body = {
            "programs": [{"name": "p", "type": "bash", "command": "true"}],
            "schedules": [{"name": "s", "program": "p", "trigger": {"type": "EVENT", "event": "go"}, **schedule}],
        }
        return await self.ask(who, "PUT", f"/v1/apps/{namespace}/{app}", json=body)

    async def grants(self, who: str, namespace: str) -> list[tuple[Any, ...]]:
        """The grants that a namespace has given and has, shortly."""
        answer = await self.ask(who, "GET", f"/v1/namespaces/{namespace}/grants")
        assert answer.status_code == 200, answer.text
        return [tuple(each[m] for m in ("owner", "kind", "name", "grantee", "state", "details", "by"))
                for each in answer.json()["grants"]]  # fmt: skip


async def test_a_subscription_to_another_namespace_needs_its_owners_grant(people: People) -> None:
    refused = await people.deploy("developer@sales", trigger=PAYROLL)
    assert refused.status_code == 403
    said = refused.json()["detail"]
    assert said.startswith("$.schedules[0].trigger.programId: program finance.pay.payroll is of namespace 'finance'")
    assert said.endswith("`streamsched grant give finance program pay.payroll sales`")

    for stranger in ("developer@sales", "viewer@finance", "operator@finance", "emitter@finance"):
        assert (await people.ask(stranger, "PUT", GRANTS, json=TO_SALES)).status_code == 403
    given = await people.ask("developer@finance", "PUT", GRANTS, json={**TO_SALES, "reason": "the report"})
    assert given.status_code == 200, given.text
    assert (await people.deploy("developer@sales", trigger=PAYROLL)).status_code == 200

    row = ("finance", "program", "pay.payroll", "sales", "granted", False, "token:developer-finance")
    assert await people.grants("viewer@finance", "finance") == [row]
    assert await people.grants("viewer@sales", "sales") == [row]
    assert (await people.ask("viewer@sales", "GET", GRANTS)).status_code == 403


async def test_who_may_listen_in_the_other_namespace_needs_no_grant_and_its_owner_sees_it(people: People) -> None:
    assert (await people.deploy("developer@sales+viewer@finance", trigger=PAYROLL)).status_code == 200

    by = "token:developer-sales-viewer-finance"
    row = ("finance", "program", "pay.payroll", "sales", "granted", True, by)
    assert await people.grants("viewer@finance", "finance") == [row]


async def test_a_key_or_match_of_anothers_arguments_needs_details(people: People) -> None:
    correlated = {"type": "PER", "by": ["day"], "trigger": PAYROLL}
    matching = {**PAYROLL, "match": {"day": "monday"}}
    await people.ask("developer@finance", "PUT", GRANTS, json=TO_SALES)
    for trigger in (correlated, matching):
        refused = await people.deploy("developer@sales", trigger=trigger)
        assert (refused.status_code, "without details" in refused.text) == (403, True)

    await people.ask("developer@finance", "PUT", GRANTS, json={**TO_SALES, "name": "pay.*"})
    assert (await people.deploy("developer@sales", trigger=matching)).status_code == 403
    await people.ask("developer@finance", "PUT", GRANTS, json={**TO_SALES, "details": True})
    for trigger in (correlated, matching):
        assert (await people.deploy("developer@sales", trigger=trigger)).status_code == 200

    narrowed = await people.ask("developer@finance", "PUT", GRANTS, json=TO_SALES)
    assert narrowed.json()["suspended"] == ["sales.app.s"]


@pytest.mark.parametrize("order", ["refuse", "remove"])
async def test_a_refusal_suspends_what_relies_on_it_until_it_is_granted_again(people: People, order: str) -> None:
    await people.ask("developer@finance", "PUT", GRANTS, json=TO_SALES)
    await people.deploy("developer@sales", trigger=PAYROLL)
    await people.deploy("developer@sales", app="other")

    if order == "refuse":
        body = {**TO_SALES, "state": "refused", "reason": "too curious"}
        answer = await people.ask("developer@finance", "PUT", GRANTS, json=body)
    else:
        sent = {**TO_SALES, "reason": "too curious"}
        answer = await people.ask("developer@finance", "DELETE", GRANTS, params=sent)
    assert answer.status_code == 200, answer.text
    assert answer.json()["suspended"] == ["sales.app.s"]

    found = (await people.ask("viewer@sales", "GET", "/v1/schedules/sales.app.s")).json()
    assert (found["state"], found["pause"]["mode"]) == ("paused", "keep")
    assert "the use of program pay.payroll of namespace finance was" in found["pause"]["note"]
    assert found["pause"]["note"].endswith("by token:developer-finance: too curious")
    assert (await people.ask("viewer@sales", "GET", "/v1/schedules/sales.other.s")).json()["state"] == "enabled"

    resumed = await people.ask("operator@sales", "POST", "/v1/schedules/sales.app.s/enable", json={})
    assert (resumed.status_code, "namespace 'finance'" in resumed.json()["detail"]) == (403, True)
    for url in ("/v1/apps/sales/app/enable", "/v3/namespaces/sales/apps/app/schedules/s/enable"):
        assert (await people.ask("operator@sales", "POST", url, json={})).status_code == 403
    assert (await people.deploy("developer@sales", trigger=PAYROLL)).status_code == 403
    if order == "refuse":  # a refusal holds against a role there too
        assert (await people.deploy("developer@sales+viewer@finance", trigger=PAYROLL)).status_code == 403

    await people.ask("developer@finance", "PUT", GRANTS, json=TO_SALES)
    resumed = await people.ask("operator@sales", "POST", "/v1/schedules/sales.app.s/enable", json={})
    assert (resumed.status_code, resumed.json()["state"]) == (200, "enabled")


@pytest.mark.parametrize("kind", ["group", "pool"])
async def test_a_group_or_pool_belongs_to_who_declared_it_first(people: People, kind: str) -> None:
    size = {"group": "limit", "pool": "size"}[kind]
    constraint = {"type": kind.upper(), kind: "licences", size: 1}
    assert (await people.deploy("developer@finance", "finance", constraints=[constraint])).status_code == 200

    refused = await people.deploy("developer@sales", constraints=[constraint])
    assert refused.status_code == 403
    assert (
        f"$.schedules[0].constraints[0].{kind}: {kind} licences is of namespace 'finance'" in refused.json()["detail"]
    )
    assert (await people.deploy("developer@sales+viewer@finance", constraints=[constraint])).status_code == 403
    grant = {"kind": kind, "name": "lic*", "grantee": "sales"}
    assert (await people.ask("developer@finance", "PUT", GRANTS, json=grant)).status_code == 200
    assert (await people.deploy("developer@sales", constraints=[constraint])).status_code == 200
    assert (await people.deploy("developer@finance", "finance", constraints=[constraint])).status_code == 200

    handed = await people.ask("admin", "PUT", f"/v1/{kind}s/licences/owner", json={"namespace": "sales"})
    assert handed.status_code == 200, handed.text
    assert (await people.deploy("developer@finance", "finance", constraints=[constraint])).status_code == 403
    assert (await people.deploy("developer@sales", constraints=[constraint])).status_code == 200


async def test_a_dry_run_is_refused_too_and_declares_nothing(people: People, services: Services) -> None:
    body: dict[str, Any] = {
        "programs": [{"name": "p", "type": "bash", "command": "true"}],
        "schedules": [{"name": "s", "program": "p", "trigger": PAYROLL}],
    }
    dry = {"dry_run": "true"}
    assert (await people.ask("developer@sales", "PUT", "/v1/apps/sales/app", json=body, params=dry)).status_code == 403
    both = "developer@sales+viewer@finance"
    assert (await people.ask(both, "PUT", "/v1/apps/sales/app", json=body, params=dry)).status_code == 200
    group = [{"type": "GROUP", "group": "licences", "limit": 1}]
    body["schedules"] = [
        {"name": "s", "program": "p", "trigger": {"type": "EVENT", "event": "go"}, "constraints": group}
    ]
    assert (await people.ask(both, "PUT", "/v1/apps/sales/app", json=body, params=dry)).status_code == 200

    assert await StoredWorld(services.pool).size("namespace_grants") == 0
    assert await StoredWorld(services.pool).size("shared_names") == 0


async def test_a_definition_of_its_own_namespace_costs_no_query(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    known = NamespaceGrantStore.read_known

    async def counted(self: NamespaceGrantStore, *given: Any) -> Any:
        asked.append(given)
        return await known(self, *given)

    monkeypatch.setattr(NamespaceGrantStore, "read_known", counted)
    own = {"type": "AND", "triggers": [{**PAYROLL, "programId": "sales.app.p"}, {"type": "EVENT", "event": "go"}]}
    assert (await people.deploy("developer@sales", trigger=own)).status_code == 200
    assert asked == []
    assert (await people.deploy("developer@sales", trigger=PAYROLL)).status_code == 403
    assert asked == [("sales", {"finance"}, set())]


async def test_a_namespace_has_a_bounded_number_of_grants(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamsched.store.catalog.namespace_grants.MOST_NAMESPACE_GRANTS", 2)
    for number in range(2):
        body = {**TO_SALES, "name": f"pay.p{number}"}
        assert (await people.ask("developer@finance", "PUT", GRANTS, json=body)).status_code == 200
    assert (await people.ask("developer@finance", "PUT", GRANTS, json=TO_SALES)).status_code == 409
    assert len(await people.grants("viewer@sales", "sales")) == 2


async def test_what_is_no_grant_is_refused_with_its_path(people: People) -> None:
    for change, path in (
        ({"grantee": "finance"}, "$.grantee"),
        ({"grantee": "a b"}, "$"),
        ({"name": "a[b]"}, "$.name"),
        ({"name": "x" * 600}, "$.name"),
        ({"kind": "table"}, "$.kind"),
        ({"state": "pending"}, "$.state"),
        ({"kind": "dataset", "details": True}, "$.details"),
        ({"reason": "x" * 1001}, "$.reason"),
    ):
        answer = await people.ask("developer@finance", "PUT", GRANTS, json={**TO_SALES, **change})
        assert (answer.status_code, answer.json()["path"]) == (400, path), (change, answer.text)
    assert (await people.ask("developer@finance", "DELETE", GRANTS, params=TO_SALES)).status_code == 404
    for after in ("x", "a/b/c/d/e", "\0///"):
        assert (await people.ask("viewer@finance", "GET", GRANTS, params={"after": after})).status_code == 400
