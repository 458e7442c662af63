"""A program that schedules of another namespace wait for: listing these, and removing it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx
import pytest

from streamsched.config import Settings
from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.ports.clock import Clock
from streamsched.roles.services import Services, open_services
from tests.integration.api.test_access import FOREIGN, OWN, token
from tests.support.relaying import relaying


@pytest.fixture
async def services(database: str, clock: Clock) -> AsyncIterator[Services]:
    async with open_services(Settings.from_env({}, database_url=database), clock=clock) as services, relaying(services):
        yield services


async def test_a_tenant_that_removes_a_program_leaves_the_schedules_of_others_and_sees_only_their_number(
    client: httpx.AsyncClient, services: Services
) -> None:
    admin = await token(services, "admin", Grant(role=AccessRole.ADMIN))
    sales = await token(services, "sales", Grant(role=AccessRole.DEVELOPER, namespace=OWN, shell=True))
    ops = await token(services, "ops", Grant(role=AccessRole.VIEWER, namespace=FOREIGN))
    program = {"name": "p", "type": "bash", "command": "true"}
    waits = {"type": "PROGRAM_STATUS", "programId": f"{OWN}.pl.p", "programStatuses": ["COMPLETED"]}
    critical = {"programs": [program], "schedules": [{"name": "critical", "program": "p", "trigger": waits}]}
    for path, body in ((f"{OWN}/pl", {"programs": [program]}), (f"{FOREIGN}/dep", critical)):
        assert (await client.put(f"/v1/apps/{path}", json=body, headers=admin)).status_code == 200
    before = (await client.get(f"/v1/schedules/{FOREIGN}.dep.critical", headers=ops)).json()
    other = {"programs": [{**program, "name": "other"}]}

    plan = (await client.put(f"/v1/apps/{OWN}/pl?dry_run=true", json=other, headers=sales)).json()
    full = (await client.put(f"/v1/apps/{OWN}/pl?dry_run=true", json=other, headers=admin)).json()
    done = (await client.put(f"/v1/apps/{OWN}/pl", json=other, headers=sales)).json()

    assert FOREIGN not in json.dumps([plan, done])
    assert plan["waitingElsewhere"] == done["waitingElsewhere"] == {"schedules": [], "others": 1}
    assert full["waitingElsewhere"] == {"schedules": [f"{FOREIGN}.dep.critical"], "others": 0}
    after = (await client.get(f"/v1/schedules/{FOREIGN}.dep.critical", headers=ops)).json()
    (said,) = after.pop("removed")
    assert after | {"removed": []} == before
    assert (said["program"], said["by"]) == (f"{OWN}.pl.p", "token:sales")
    why_not = (await client.get(f"/v1/schedules/{FOREIGN}.dep.critical/why-not", headers=ops)).json()
    assert said["text"] in why_not["summary"]
    (entry,) = (
        each
        for each in (await client.get("/v1/audit", headers=admin)).json()["entries"]
        if each["action"] == "program.removed"
    )
    assert (entry["caller"], entry["target"]) == ("token:sales", FOREIGN)
    assert (await client.get("/v1/audit/verify", headers=admin)).json()["intact"] is True
    await client.put(f"/v1/apps/{OWN}/pl", json={"programs": [program]}, headers=sales)
    assert (await client.get(f"/v1/schedules/{FOREIGN}.dep.critical", headers=ops)).json()["removed"] == []


async def test_cdaps_list_of_what_a_program_triggers_has_each_namespace_that_its_caller_may_view(
    client: httpx.AsyncClient, services: Services
) -> None:
    admin = await token(services, "admin", Grant(role=AccessRole.ADMIN))
    seer = await token(services, "seer", Grant(role=AccessRole.VIEWER, namespace=OWN))
    trigger = {"type": "PROGRAM_STATUS", "programId": f"{OWN}.a.p", "programStatuses": ["COMPLETED"]}
    for namespace in (OWN, FOREIGN):
        app = {
            "programs": [
                {"name": "p", "type": "bash", "command": "true"},
                {"name": "q", "type": "bash", "command": ":"},
            ],
            "schedules": [{"name": "after", "program": "q", "trigger": trigger}],
        }
        assert (await client.put(f"/v1/apps/{namespace}/a", json=app, headers=admin)).status_code == 200

    asked = f"trigger-namespace-id={OWN}&trigger-app-name=a&trigger-program-type=workflows&trigger-program-name=p"
    at = f"/v3/namespaces/{OWN}/schedules/trigger-type/program-status?{asked}"
    for header, namespaces in ((admin, [FOREIGN, OWN]), (seer, [OWN])):
        found = (await client.get(at, headers=header)).json()
        assert [each["namespace"] for each in found] == namespaces
