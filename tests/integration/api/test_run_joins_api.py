"""Joins per run over HTTP: what a plan says of them, and what an open key waits for."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from streamsched.domain.events.ancestors import job_digest
from streamsched.roles.services import Services
from tests.support.run_joins import D, after, open_key, shop

pytestmark = pytest.mark.postgres


async def planned(client: httpx.AsyncClient, app: dict[str, Any], name: str = "shop") -> dict[str, Any]:
    answer = await client.put(f"/v1/apps/default/{name}", params={"dry_run": True}, json=app)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_plan_and_answer_say_how_an_and_of_programs_counts(client: httpx.AsyncClient) -> None:
    text = "joins per run of default.shop.a; `mixed_runs()` would count all together"
    plan = await planned(client, shop(after("b", "c")))
    assert {each["id"]: each["join"] for each in plan["schedules"] if "join" in each} == {"default.shop.d": text}
    done = (await client.put("/v1/apps/default/shop", json=shop(after("b", "c")))).json()
    assert [each.get("join") for each in done["schedules"]] == [None, None, None, text]
    assert "brokenJoins" not in done
    shown = (await client.get("/v1/schedules/default.shop.d")).json()
    assert shown["when"] == "(default.shop.b succeeded and default.shop.c succeeded) for each run of default.shop.a"
    assert not (await planned(client, shop(after("b", "c"))))["differs"]

    mixed = await planned(client, shop(after("b", "c", mixedRuns=True)))
    assert [each["join"] for each in mixed["schedules"]] == [
        "counts ends of different runs together: `mixed_runs()` says so"
    ]


async def test_created_schedules_count_all_together_and_cdaps_too(client: httpx.AsyncClient) -> None:
    await client.put("/v1/apps/default/shop", json=shop(after("b")))
    created = await client.post(
        "/v1/schedules", json={"application": "shop", "name": "n", "program": "d", "trigger": after("b", "c")}
    )
    assert created.status_code == 201, created.text
    assert created.json()["trigger"] == after_ids("b", "c")
    body = {"name": "k", "program": {"programName": "d", "programType": "WORKFLOW"}, "trigger": after_ids("b", "c")}
    added = await client.put("/v3/namespaces/default/apps/shop/schedules/k", json=body)
    assert added.status_code == 200, added.text
    kept = (await client.get("/v3/namespaces/default/apps/shop/schedules/k")).json()["trigger"]
    assert (kept["type"], len(kept["triggers"])) == ("AND", 2)
    explicit = {"type": "PER", "trigger": after("b", "c"), "runOf": "a"}
    made = await client.post(
        "/v1/schedules", json={"application": "shop", "name": "p", "program": "d", "trigger": explicit}
    )
    assert made.json()["trigger"]["runOf"]["programId"]["program"] == "a"


def after_ids(*programs: str) -> dict[str, Any]:
    """As stored."""
    ids = [{"namespace": "default", "application": "shop", "program": each, "entity": "PROGRAM"} for each in programs]
    leaves = [{"type": "PROGRAM_STATUS", "programId": each, "programStatuses": ["COMPLETED"]} for each in ids]
    return {"type": "AND", "triggers": leaves}


async def test_a_plan_names_the_joins_of_other_apps_that_it_breaks(client: httpx.AsyncClient) -> None:
    await client.put("/v1/apps/default/shop", json=shop(after("b")))
    theirs = {
        "programs": {"j": {"type": "bash", "command": "true"}},
        "schedules": {"j": {"program": "j", "trigger": after("default.shop.b", "default.shop.c")}},
    }
    await client.put("/v1/apps/default/other", json=theirs)
    broken = (await planned(client, shop(after("b"), c={"type": "EVENT", "event": "x"})))["brokenJoins"]
    assert broken == [
        {
            "schedule": "default.other.j",
            "ancestor": "default.shop.a",
            "program": "default.shop.c",
            "text": "joins per run of default.shop.a, which leads no more to default.shop.c: its runs would not count",
        }
    ]
    assert (await client.get("/v1/schedules/default.other.j")).json()["generation"] == 1


async def test_an_open_key_names_the_run_that_failed_and_what_completes_it(
    client: httpx.AsyncClient, services: Services
) -> None:
    await client.put("/v1/apps/default/shop", json=shop(after("b", "c")))
    key = await open_key(services.pool)

    (shown,) = (await client.get(f"/v1/schedules/{D}/keys")).json()["keys"]

    assert key == shown["key"] == job_digest("default.shop.a.1.1")
    assert shown["runOf"] == {"program": "default.shop.a", "job": "default.shop.a.1.1"}
    assert shown["missing"] == [
        {
            "program": "default.shop.b",
            "job": "default.shop.b.1.1",
            "run": "default.shop.b.1.1.r1",
            "state": "FAILED",
            "text": "default.shop.b failed in run default.shop.b.1.1.r1: exit code 1; a rerun of it completes this key",
        }
    ]
