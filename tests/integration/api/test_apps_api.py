"""Apps over HTTP: lists, one app, deletion; and over CDAP's API."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from streamsched.api.app import make_api
from streamsched.roles.api import api_services
from streamsched.roles.services import Services

from .conftest import APP

pytestmark = pytest.mark.postgres

FLIGHTS = "/v1/apps/default/flights"
JOINED = {
    "type": "PROGRAM_STATUS",
    "programId": {"namespace": "default", "application": "flights", "program": "join"},
    "programStatuses": ["COMPLETED"],
}
GO = {"type": "EVENT", "event": {"event": "go", "namespace": "default"}}
REPORTS = {
    "programs": [{"name": "report", "type": "bash", "command": "true"}],
    "schedules": [
        {"name": "after-join", "program": "report", "trigger": JOINED},
        {"name": "either", "program": "report", "trigger": {"type": "OR", "triggers": [JOINED, GO]}},
    ],
}


async def test_apps_are_listed_with_what_they_have(deployed: httpx.AsyncClient) -> None:
    assert (await deployed.put("/v1/apps/other/reports", json=REPORTS)).status_code == 200
    assert (await deployed.post("/v1/schedules/other.reports.either/pause")).status_code == 200

    listed = (await deployed.get("/v1/apps")).json()["apps"]

    assert [each["id"] for each in listed] == ["default.flights", "other.reports"]
    assert (listed[0]["programs"], listed[0]["schedules"]["total"]) == (len(APP["programs"]), len(APP["schedules"]))
    assert listed[1]["schedules"] == {"total": 2, "enabled": 1, "paused": 1}
    assert (await deployed.get("/v1/apps?namespace=other")).json()["apps"] == listed[1:]
    first = (await deployed.get("/v1/apps?limit=1")).json()
    assert first["apps"] == listed[:1]
    assert (await deployed.get("/v1/apps", params={"after": first["next"]})).json() == {"apps": listed[1:]}
    assert (await deployed.get(FLIGHTS)).json() == listed[0]
    missing = await deployed.get("/v1/apps/default/nothing")
    assert (missing.status_code, missing.json()["detail"]) == (404, "application 'default.nothing' was not found")


async def test_a_deleted_app_takes_its_schedules_along_and_those_of_other_namespaces_stay(
    deployed: httpx.AsyncClient, services: Services
) -> None:
    await deployed.put("/v1/apps/other/reports", json=REPORTS)
    planned = (await deployed.delete(f"{FLIGHTS}?dry_run=true")).json()
    assert planned["loses"]
    assert (await deployed.get(FLIGHTS)).status_code == 200

    params = {"plan": planned["plan"], "reason": "ana: moved"}
    deleted = await deployed.delete(FLIGHTS, params=params)

    assert deleted.status_code == 200, deleted.text
    changed = {each["id"]: (each["action"], each["reason"]) for each in deleted.json()["schedules"]}
    assert changed["default.flights.weekly"] == ("deleted", "its app was deleted: ana: moved")
    others = ["other.reports.after-join", "other.reports.either"]
    assert changed.keys().isdisjoint(others)
    assert deleted.json()["waitingElsewhere"] == {"schedules": others, "others": 0}
    assert [each["id"] for each in (await deployed.get("/v1/apps")).json()["apps"]] == ["other.reports"]
    assert (await deployed.get("/v1/schedules?app=default.flights")).json()["schedules"] == []
    assert (await deployed.get("/v1/programs?app=default.flights")).json()["programs"] == []
    again = await deployed.delete(FLIGHTS)
    assert (again.status_code, again.json()["detail"]) == (404, "application 'default.flights' was not found")
    history = (await deployed.get("/v1/schedules/default.flights.weekly/history")).json()["history"]
    assert (history[0]["action"], history[0]["reason"]) == ("deleted", "its app was deleted: ana: moved")


async def test_a_plan_that_no_longer_holds_deletes_nothing(deployed: httpx.AsyncClient) -> None:
    planned = (await deployed.delete(f"{FLIGHTS}?dry_run=true")).json()
    await deployed.delete("/v1/schedules/default.flights.weekly")

    refused = await deployed.delete(FLIGHTS, params={"plan": planned["plan"]})

    assert (refused.status_code, refused.json()["kind"]) == (409, "plan")
    assert (await deployed.get(FLIGHTS)).status_code == 200


async def test_a_deleted_app_can_be_deployed_again(deployed: httpx.AsyncClient) -> None:
    before = (await deployed.get("/v1/schedules/default.flights.weekly")).json()["generation"]
    assert (await deployed.delete(FLIGHTS)).status_code == 200
    assert (await deployed.put(FLIGHTS, json=APP)).status_code == 200
    assert (await deployed.get("/v1/schedules/default.flights.weekly")).json()["generation"] > before


async def test_cdap_clients_list_and_see_apps(deployed: httpx.AsyncClient) -> None:
    listed = await deployed.get("/v3/namespaces/default/apps")
    assert [(each["type"], each["name"], each["version"]) for each in listed.json()] == [
        ("App", "flights", "-SNAPSHOT")
    ]
    assert (await deployed.get("/v3/namespaces/nowhere/apps")).json() == []
    shown = (await deployed.get("/v3/namespaces/default/apps/flights")).json()
    assert (shown["name"], shown["appVersion"]) == ("flights", "-SNAPSHOT")
    assert {"type": "Workflow", "app": "flights", "name": "join", "description": ""} in shown["programs"]
    missing = await deployed.get("/v3/namespaces/default/apps/nothing")
    assert missing.status_code == 404


@pytest.mark.parametrize(
    ("default", "asked", "updated"),
    [(False, None, False), (False, True, True), (True, None, True), (True, False, False)],
)
async def test_whether_a_deployment_updates_schedules_has_a_default_of_the_installation(
    deployed: httpx.AsyncClient, services: Services, default: bool, asked: bool | None, updated: bool
) -> None:
    settings = services.settings.replace(update_schedules=default)
    api = make_api(api_services(replace(services, settings=settings)))
    [weekly] = APP["schedules"]
    changed = {**APP, "schedules": [{**weekly, "description": "changed"}]}
    params = {} if asked is None else {"updateSchedules": asked}

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url="http://localhost") as client:
        answer = await client.put(FLIGHTS, json=changed, params=params)

    assert [each["action"] for each in answer.json()["schedules"]] == ["updated"] * updated
