"""Who may do what over HTTP: every route, every role, own and foreign namespaces, and the audit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, Final

import asyncpg
import httpx
import pytest
from starlette.requests import Request

from streamsched.access.authentication import REUSE
from streamsched.access.issuing import create_token
from streamsched.api.access.authorise import check_rule
from streamsched.api.app import make_api
from streamsched.api.routing.routes import VERSION
from streamsched.api.routing.rules import Rule, Scope
from streamsched.config import Settings
from streamsched.domain.access.grant import Caller, Grant
from streamsched.domain.access.permission import PERMISSIONS, AccessRole, Permission
from streamsched.domain.access.token import TokenRequest, run_token_text
from streamsched.roles.access import create_token_directly
from streamsched.roles.api import api_services
from streamsched.roles.services import Services, open_services
from streamsched.store.access.tokens import TokenStore
from tests.integration.api.conftest import APP
from tests.support.api_routes import api_routes, api_rules
from tests.support.described_answers import api_document, operations
from tests.support.relaying import relaying

OWN, FOREIGN = "sales", "ops"
#: What path parameters stand for; `{}` is the namespace.
NAMES = {
    "namespace": "{}",
    "schedule": "{}.app.nothing",
    "expectation": "{}.app.nothing",
    "program": "{}.app.nothing",
    "name": "{}.app.nothing",
    "job": "{}.app.nothing.1.1",
    "run": "{}.app.nothing.1.1.r1",
    "backfill": "{}.app.nothing.backfill-x",
    "order": "cancel",
    "category": "workflows",
    "quota": "runs",
    "action": "enable",
}


async def test_a_token_that_is_created_directly_is_json(database: str) -> None:
    made = await create_token_directly(database, {"name": "first", "grants": [{"role": "admin"}]}, by="test")

    assert json.loads(json.dumps(made))["text"] == made["text"]


@pytest.fixture
async def services(database: str, clock: Any) -> AsyncIterator[Services]:
    async with open_services(Settings.from_env({}, database_url=database), clock=clock) as services, relaying(services):
        yield services


async def token(services: Services, name: str, *grants: Grant, expires_in: timedelta | None = None) -> dict[str, str]:
    """The header of a new token."""
    store = TokenStore(services.pool)
    _, text = await create_token(store, services.clock, TokenRequest(name, grants, expires_in), by="test")
    return {"Authorization": f"Bearer {text}"}


def declared() -> dict[tuple[str, str], Rule]:
    """What the OpenAPI document says that each route needs, by method and path pattern, without the public ones."""
    return {
        (method, path): Rule(
            Permission(operation["x-permission"]), Scope(operation["x-scope"]), operation.get("x-emits")
        )
        for method, path, operation in operations(api_document())
        if operation.get("security") != []
    }


def requests() -> list[tuple[str, str]]:
    """Method and path pattern of every route that needs a token."""
    return list(declared())


def filled(path: str, namespace: str) -> str:
    path = path.replace("/v1/bookmarks/{name}", f"/v1/bookmarks/watch.{namespace}.x")
    in_cdap = path.startswith("/v3/")
    parts = []
    for part in path.split("/"):
        name = part.strip("{}")
        if not part.startswith("{"):
            parts.append(part)
        elif in_cdap and name in {"schedule", "program"}:
            parts.append("nothing")
        else:
            parts.append(NAMES.get(name, "nothing").format(namespace))
    return "/".join(parts)


async def status(client: httpx.AsyncClient, route: tuple[str, str], namespace: str, header: dict[str, str]) -> int:
    method, path = route
    rule = declared()[route]
    url = filled(path, namespace)
    if rule.scope is Scope.QUERY:
        url += f"?app={namespace}.app" if path in {"/v1/jobs", "/v1/runs"} else f"?namespace={namespace}"
        url = url.replace(f"/v1/backfills?namespace={namespace}", f"/v1/backfills?schedule={namespace}.app.nothing")
    if path == "/v1/decisions":
        url += "&seconds=0"  # the answer of this transport comes when it has ended
    if path == "/v1/events":
        body: Any = {"type": "event", "name": "x", "namespace": namespace}
        body = {
            "specversion": "1.0",
            "id": "1",
            "source": "t",
            "type": "streamsched.partitions.added",
            "data": {"dataset": f"{namespace}.d", "partitions": ["a=1"]},
        }
    elif path == "/api/v1/lineage":
        url += f"?namespace={namespace}"
        body = {
            "eventType": "START",
            "eventTime": "2026-01-01T00:00:00Z",
            "run": {"runId": "1"},
            "job": {"namespace": "t", "name": "j"},
        }
    elif path == "/v1/schedules":
        body = {**APP["schedules"][0], "namespace": namespace, "application": "app", "name": "new"}
    elif path == "/v1/apps/{namespace}/{app}" and method == "PUT":
        body = {"programs": [{"name": "p", "type": "http", "url": "https://example.org/"}], "schedules": []}
    else:
        body = {}
    with_body = {"json": body} if method in {"POST", "PUT", "PATCH"} else {}
    if path == "/v1/events":
        header = {**header, "Content-Type": "application/cloudevents+json"}
    answer = await client.request(method, url, headers=header, **with_body)
    assert answer.status_code < 500, (method, url, answer.text)
    return answer.status_code


async def not_as_declared(
    client: httpx.AsyncClient, services: Services, role: AccessRole, routes: list[tuple[str, str]]
) -> list[str]:
    """The requests of a caller with this role in the own namespace, and everywhere, that are answered otherwise than
    the OpenAPI document declares.
    """
    header = await token(services, f"{role} of {OWN}", Grant(role=role, namespace=OWN))
    everywhere = await token(services, f"{role} everywhere", Grant(role=role))
    wrong: list[str] = []
    for route in routes:
        rule = declared()[route]
        has = rule.permission in PERMISSIONS[role]
        cases = [
            (everywhere, OWN, has),
            (header, OWN, has and rule.scope is not Scope.INSTALLATION),
            (header, FOREIGN, has and rule.scope is Scope.NONE),
        ]
        if rule.scope is Scope.NONE:
            cases = [(sent, namespace, True) for sent, namespace, _ in cases]
        for sent, namespace, allowed in cases:
            found = await status(client, route, namespace, sent)
            # Ids that the caller may not view are answered as ones that do not exist.
            by_id = any(part in route[1] for part in ("{job}", "{run}", "{backfill}"))
            denied = found == 403 or (found == 404 and by_id and not allowed)
            if denied == allowed:
                wrong.append(
                    f"{' '.join(route)} in {namespace}: {found}, should be {'allowed' if allowed else 'denied'}"
                )
    return wrong


@pytest.mark.parametrize("role", list(AccessRole))
async def test_every_route_and_role_in_the_own_and_in_a_foreign_namespace(
    client: httpx.AsyncClient, services: Services, role: AccessRole
) -> None:
    assert set(api_rules()) == {f"{method} {path.replace(VERSION, '')}" for method, path in requests()}
    assert not await not_as_declared(client, services, role, requests())


async def test_a_route_that_checks_nothing_is_found(
    client: httpx.AsyncClient, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeded = "PUT /v1/groups/{name}"

    def check(caller: Caller, rule: Rule, request: Request) -> None:
        if request.scope["served"].route.name != seeded:
            check_rule(caller, rule, request)

    routes = [route for route in requests() if route[1].startswith(("/v1/groups", "/v1/pools"))]
    assert not await not_as_declared(client, services, AccessRole.VIEWER, routes)
    monkeypatch.setattr("streamsched.api.access.authorise.check_rule", check)
    wrong = await not_as_declared(client, services, AccessRole.EMITTER, routes)
    assert len(wrong) == 3
    assert all(each.startswith(seeded) for each in wrong)


async def test_no_route_answers_without_a_valid_token(client: httpx.AsyncClient, services: Services) -> None:
    old = await token(services, "old", Grant(role=AccessRole.ADMIN), expires_in=timedelta(microseconds=1))
    forged = {"Authorization": "Bearer sst_" + "0" * 12 + "_" + "A" * 43}
    of_no_run = {"Authorization": f"Bearer {run_token_text('default.a.b.1.1.r1', bytes(32))}"}
    for header in ({}, old, forged, of_no_run, {"Authorization": "Basic eDp5"}, {"Authorization": "Bearer " + "é" * 9}):
        raw = {name.encode(): value.encode() for name, value in header.items()}
        for route in requests():
            method, path = route
            answer = await client.request(method, filled(path, OWN), headers=raw)
            assert answer.status_code == 401, (route, header, answer.text)
            assert answer.headers["www-authenticate"].startswith("Bearer")
    for path in ("/health/live", "/v1/openapi.json"):
        assert (await client.get(path)).status_code == 200


def test_only_health_checks_need_no_token() -> None:
    open_to_all = {each.route.pattern for each in api_routes().served if not isinstance(each.route.may, Rule)}
    assert open_to_all == {"/health/live", "/health/ready"}


async def test_a_revoked_token_is_refused_by_every_process_within_a_second(
    services: Services, client: httpx.AsyncClient
) -> None:
    admin = await token(services, "admin", Grant(role=AccessRole.ADMIN))
    header = await token(services, "leaver", Grant(role=AccessRole.VIEWER))
    transport = httpx.ASGITransport(app=make_api(api_services(services), api_routes()))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as other:
        for each in (client, other):
            assert (await each.get("/v1/caller", headers=header)).json()["name"] == "token:leaver"
        revoked = await client.post("/v1/tokens/leaver/revoke", headers=admin, json={})
        assert revoked.json()["revokedBy"] == "token:admin"
        await asyncio.sleep(REUSE.total_seconds())  # how long a process may reuse its verdict
        for each in (client, other):
            answer = await each.get("/v1/caller", headers=header)
            assert (answer.status_code, "was revoked at" in answer.json()["detail"]) == (401, True)


async def test_bash_masters_and_foreign_events_need_their_own_permission(
    client: httpx.AsyncClient, services: Services
) -> None:
    plain = await token(services, "plain", Grant(role=AccessRole.DEVELOPER, namespace=OWN, masters=("spark://a:*",)))
    shell = await token(services, "shell", Grant(role=AccessRole.DEVELOPER, namespace=OWN, shell=True))

    async def deploy(header: dict[str, str], **program: Any) -> tuple[int, str]:
        body = {"programs": [{"name": "p", **program}], "schedules": []}
        answer = await client.put(f"/v1/apps/{OWN}/x", json=body, headers=header)
        return answer.status_code, answer.json().get("detail", "")

    status, why = await deploy(plain, type="bash", command="true")
    assert (status, "shell" in why) == (403, True)
    assert (await deploy(shell, type="bash", command="true"))[0] == 200
    cluster = {"type": "spark", "main": "/x.py", "deploy_mode": "cluster"}
    assert (await deploy(plain, **cluster, master="spark://a:7077"))[0] == 200
    assert (await deploy(plain, **cluster, master="spark://b:7077"))[0] == 403
    assert (await deploy(shell, type="spark", main="/x.py", master="local[2]"))[0] == 403
    assert (await deploy(plain, type="publish", event=f"{FOREIGN}.ready"))[0] == 403
    assert (await deploy(plain, type="enqueue", queue="mail"))[0] == 403


async def test_an_emitter_may_announce_only_its_names(client: httpx.AsyncClient, services: Services) -> None:
    header = await token(services, "feed", Grant(role=AccessRole.EMITTER, namespace=OWN, names=("raw_*",)))

    def event(number: int, dataset: str) -> dict[str, Any]:
        data = {"dataset": dataset, "partitions": ["a=1"]}
        kind = "streamsched.partitions.added"
        return {"specversion": "1.0", "id": f"e{number}", "source": "t", "type": kind, "data": data}

    batch = [event(1, f"{OWN}.raw_a"), event(2, f"{OWN}.gold"), event(3, f"{FOREIGN}.raw_a")]
    headers = {**header, "Content-Type": "application/cloudevents-batch+json"}
    answer = await client.post("/v1/events?check=none", json=batch, headers=headers)
    assert (answer.status_code, answer.json()["ids"]) == (202, ["e1"])
    assert [(each["index"], "raw_*" in each["reason"]) for each in answer.json()["errors"]] == [(1, True), (2, False)]
    answer = await client.post("/v1/events?check=none", json=batch[1:], headers=headers)
    assert answer.status_code == 403


async def test_a_list_is_of_the_only_namespace_that_its_caller_may_view(
    client: httpx.AsyncClient, services: Services
) -> None:
    header = await token(services, "seer", Grant(role=AccessRole.VIEWER, namespace=OWN))
    admin = await token(services, "all", Grant(role=AccessRole.ADMIN, namespace="*"))
    lists = [each.removeprefix("GET ") for each, rule in api_rules().items() if rule.scope is Scope.QUERY]
    for path in sorted({*lists} - {"/v1/decisions"}):  # that one is a stream
        answer = await client.get(path, headers=header)
        wanted = await client.get(path, params={"namespace": OWN}, headers=admin)
        assert (answer.status_code, answer.json()) == (200, wanted.json()), path
    assert len(lists) >= 8
    assert (await client.get(f"/v1/jobs?schedule={FOREIGN}.a.s", headers=header)).status_code == 403
    assert (await client.get(f"/v1/runs?program={FOREIGN}.a.p", headers=header)).status_code == 403


async def test_a_list_of_several_namespaces_asks_for_one(client: httpx.AsyncClient, services: Services) -> None:
    both = (Grant(role=AccessRole.VIEWER, namespace=each) for each in (OWN, "third"))
    answer = await client.get("/v1/schedules", headers=await token(services, "seer of two", *both))
    assert (answer.status_code, "name a namespace" in answer.json()["detail"]) == (403, True)
    header = await token(services, "seer", Grant(role=AccessRole.VIEWER, namespace=OWN))
    assert (await client.get(f"/v1/schedules?namespace={OWN}", headers=header)).status_code == 200
    assert (await client.get(f"/v1/schedules?namespace={FOREIGN}", headers=header)).status_code == 403
    both = f"/v1/schedules?namespace={OWN}&app={FOREIGN}.x"
    assert (await client.get(both, headers=header)).status_code == 403


async def test_a_filter_that_a_list_does_not_have_gives_no_access(
    client: httpx.AsyncClient, services: Services
) -> None:
    two = (Grant(role=AccessRole.VIEWER, namespace=each) for each in (OWN, "third"))
    header = await token(services, "viewer", *two)
    for path in ("/v1/jobs?program=", "/v1/runs?schedule=", "/v1/decisions?seconds=0&app=", "/v1/schedules?program="):
        answer = await client.get(f"{path}{OWN}", headers=header)
        assert answer.status_code == 403, path
    assert (await client.get(f"/v1/jobs?app={OWN}.app", headers=header)).status_code == 200


async def test_changes_are_audited_and_alterations_are_found(
    client: httpx.AsyncClient, services: Services, database: str
) -> None:
    admin = await token(services, "admin", Grant(role=AccessRole.ADMIN))
    await client.put("/v1/groups/g", json={"limit": 2, "reason": "less load"}, headers=admin)
    await client.put("/v1/groups/g", json={"limit": -2}, headers=admin)
    await client.get("/v1/groups", headers=admin)
    entries = (await client.get("/v1/audit", headers=admin)).json()["entries"]
    shown = [(each["number"], each["caller"], each["action"], each["detail"].get("status")) for each in entries]
    action = "PUT /v1/groups/{name}"
    assert shown == [
        (4, "token:admin", action, 400),
        (3, "token:admin", action, None),
        (2, "token:admin", action, 200),
        (1, "token:admin", action, None),
    ]
    assert entries[2]["detail"]["reason"] == "less load"
    assert (await client.get("/v1/audit/verify", headers=admin)).json()["intact"] is True
    connection = await asyncpg.connect(database)
    try:
        with pytest.raises(asyncpg.RaiseError, match="append-only"):
            await connection.execute("UPDATE audit SET caller = 'token:other'")
        with pytest.raises(asyncpg.RaiseError, match="append-only"):
            await connection.execute("DELETE FROM audit")
        await connection.execute("ALTER TABLE audit DISABLE TRIGGER audit_append_only")
        await connection.execute("UPDATE audit SET caller = 'token:other' WHERE number = 2")
    finally:
        await connection.close()
    found = (await client.get("/v1/audit/verify", headers=admin)).json()
    assert found == {"intact": False, "number": 2, "reason": "its content has changed"}


async def test_what_a_token_holds_is_never_stored_or_shown(
    client: httpx.AsyncClient, services: Services, database: str
) -> None:
    admin = await token(services, "admin", Grant(role=AccessRole.ADMIN))
    body = {"name": "ci", "grants": [{"role": "operator", "namespace": OWN}], "expiresIn": "30d"}
    made = await client.post("/v1/tokens", json=body, headers=admin)
    assert made.status_code == 201
    secret = made.json()["text"].split("_", 2)[2]
    again = await client.post("/v1/tokens", json=body, headers=admin)
    assert again.status_code == 409
    listed = (await client.get("/v1/tokens", headers=admin)).text
    audit = (await client.get("/v1/audit", headers=admin)).text
    assert secret not in listed + audit + again.text
    connection = await asyncpg.connect(database)
    try:
        rows = await connection.fetch("SELECT t::text FROM api_tokens t UNION ALL SELECT a::text FROM audit a")
    finally:
        await connection.close()
    assert len(rows) > 2
    assert not any(secret in row[0] for row in rows)


_BAD_REQUESTS: Final[list[tuple[dict[str, Any], str]]] = [
    ({}, "$.name"),
    ({"name": "x"}, "$.grants"),
    ({"name": "", "grants": [{"role": "viewer"}]}, "$.name"),
    ({"name": "x" * 300, "grants": [{"role": "viewer"}]}, "$.name"),
    ({"name": "x", "grants": []}, "$.grants"),
    ({"name": "x", "grants": [{"role": "viewer"}] * 101}, "$.grants"),
    ({"name": "x", "grants": [{"role": "viewer"}], "expiresIn": "0s"}, "$.expiresIn"),
    ({"name": "x", "grants": [{"role": "viewer"}], "expiresIn": "9999999d"}, "$.expiresIn"),
]


async def test_a_bad_token_request_is_refused_with_its_path(client: httpx.AsyncClient, services: Services) -> None:
    admin = await token(services, "admin", Grant(role=AccessRole.ADMIN))
    for body, path in _BAD_REQUESTS:
        answer = await client.post("/v1/tokens", json=body, headers=admin)
        assert (answer.status_code, answer.json()["path"]) == (400, path)


def test_permissions_cover_all_roles() -> None:
    assert set(PERMISSIONS) == set(AccessRole)
    assert frozenset(Permission) == PERMISSIONS[AccessRole.ADMIN]
