"""`--names 'raw_*'`: under which names a token emits, by every route that needs the permission to emit."""

from __future__ import annotations

import re
from typing import Any, Final

import httpx
import pytest

from streamsched.api.app import make_api
from streamsched.api.routing.rules import IN_QUERY, NOTHING, Rule, Scope
from streamsched.config import Settings
from streamsched.domain.access.grant import EVERYWHERE, Caller, Grant
from streamsched.domain.access.permission import AccessRole, Permission
from streamsched.roles.api import api_services
from streamsched.roles.services import Services, open_services
from tests.integration.api.test_access import token
from tests.support.api_routes import api_routes, api_rules, rules_of_pages

pytestmark = pytest.mark.postgres

EMITTING: Final = sorted(name for name, rule in api_rules().items() if rule.permission is Permission.EMIT)
COMMIT: Final = {"commit": "a" * 32, "manifest": "m", "location": "file://host/tmp/x"}
LINEAGE: Final[dict[str, Any]] = {
    "eventType": "COMPLETE",
    "eventTime": "2026-01-01T00:00:00Z",
    "run": {"runId": "0197f5d0-0000-7000-8000-000000000000"},
    "inputs": [],
    "producer": "x",
    "schemaURL": "x",
}


def asked(route: str, name: str) -> tuple[str, dict[str, str], Any]:
    """Path, query and body of a request of a route that asks its caller itself, to emit under this name."""
    match route:
        case "POST /v1/events":
            return "/v1/events", {}, [{"type": "custom", "data": {"name": f"sales.{name}"}}]
        case "POST /api/v1/lineage":
            return (
                "/api/v1/lineage",
                {"namespace": "sales"},
                {**LINEAGE, "job": {"namespace": name, "name": "b"}, "outputs": []},
            )
        case "POST /api/v1/tasks":
            return "/api/v1/tasks", {"queue": name}, []
        case "GET /v1/bookmarks/{name}" | "GET /v1/bookmarks/{name}/cue":
            return route.removeprefix("GET ").replace("{name}", f"watch.sales.{name}"), {}, None
        case "PUT /v1/bookmarks/{name}":
            return f"/v1/bookmarks/watch.sales.{name}", {}, {"value": "z", "revision": 0}
        case _:
            raise AssertionError(f"{route} asks its caller itself: say here how a request names what it emits")


def request_of(route: str, name: str) -> tuple[str, dict[str, str], Any]:
    if api_rules()[route].scope is Scope.BODY or api_rules()[route].emits == IN_QUERY:
        return asked(route, name)
    path = route.partition(" ")[2].replace("{namespace}", "sales")
    return re.sub(r"\{\w+\}", name, path), {}, {**COMMIT}


@pytest.fixture
async def services(database: str) -> Any:
    async with open_services(Settings.from_env({}, database_url=database)) as services:
        yield services


@pytest.fixture
async def http(services: Services) -> Any:
    transport = httpx.ASGITransport(app=make_api(api_services(services), api_routes()))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def test_names_restrict_every_route_that_emits(http: httpx.AsyncClient, services: Services) -> None:
    grants = {
        "in all": Grant(role=AccessRole.EMITTER, names=("raw_*",)),
        "in sales": Grant(role=AccessRole.EMITTER, namespace="sales", names=("raw_*",)),
    }
    wrong: list[str] = []
    cells = 0
    for who, grant in grants.items():
        headers = await token(services, who.replace(" ", "-"), grant)
        for route in EMITTING:
            if api_rules()[route].emits == NOTHING:
                continue
            everywhere = grant.namespace == EVERYWHERE or api_rules()[route].scope is not Scope.INSTALLATION
            for name, may in (("raw_x", everywhere), ("done", False), ("xraw_", False), ("RAW_X", False)):
                path, query, body = request_of(route, name)
                method = route.partition(" ")[0]
                answer = await http.request(method, path, params=query, json=body, headers=headers)
                cells += 1
                if (answer.status_code != 403) is not may:
                    wrong.append(f"{who}: {method} {path}: {answer.status_code} {answer.text[:100]}")
    assert not wrong
    assert cells >= 80


async def test_a_bookmark_of_no_dataset_is_restricted_by_its_own_name(
    http: httpx.AsyncClient, services: Services
) -> None:
    headers = await token(services, "feed", Grant(role=AccessRole.EMITTER, names=("raw_*",)))
    body = {"value": "z", "revision": 0}
    for name, status in (("raw_reader", 200), ("reader", 403), ("raw_reader.sales", 200), ("x.raw_sales", 403)):
        assert (await http.put(f"/v1/bookmarks/{name}", json=body, headers=headers)).status_code == status, name


def test_a_rule_of_a_route_that_emits_says_under_which_name() -> None:
    for scope in (Scope.PATH, Scope.QUERY, Scope.INSTALLATION, Scope.NONE):
        with pytest.raises(ValueError, match="under which name"):
            Rule(Permission.EMIT, scope)
    pages = [name for name, rule in rules_of_pages().items() if rule.permission is Permission.EMIT]
    assert pages == ["POST /ui/events"]  # `tests/integration/web/test_emit_form.py`


def test_names_of_the_installation_need_a_grant_in_all_namespaces() -> None:
    own = Caller("a", (Grant(role=AccessRole.EMITTER, namespace="sales", names=("raw_*",)),))
    everywhere = Caller("b", (Grant(role=AccessRole.EMITTER, names=("raw_*",)),))
    both = Caller("c", (*everywhere.grants, Grant(role=AccessRole.EMITTER, namespace="sales")))
    assert [type(each.may_emit(None, "raw_x")).__name__ for each in (own, everywhere, both)] == [
        "Denied",
        "Allowed",
        "Allowed",
    ]
    assert [type(each.may_emit("sales", "done")).__name__ for each in (own, everywhere, both)] == [
        "Denied",
        "Denied",
        "Allowed",
    ]
