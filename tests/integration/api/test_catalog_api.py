"""Apps, programs, schedules, jobs and runs over HTTP."""

from __future__ import annotations

from typing import Final

import httpx
import pytest

from streamsched.roles.services import Services

pytestmark = pytest.mark.postgres

EVERY_DAY = {"type": "TIME", "cronExpression": "0 4 * * *"}


async def test_deploying_says_what_changed_and_the_same_again_changes_nothing(deployed: httpx.AsyncClient) -> None:
    from .conftest import APP

    again = await deployed.put("/v1/apps/default/flights", json=APP)
    elsewhere = {"schedules": [], "others": 0}
    assert again.json() == {
        "app": "default.flights",
        "programs": [],
        "schedules": [],
        "expectations": [],
        "onFailure": None,
        "waitingElsewhere": elsewhere,
    }


async def test_a_schedule_is_shown_with_its_trigger_in_words(deployed: httpx.AsyncClient) -> None:
    shown = (await deployed.get("/v1/schedules/default.flights.weekly")).json()
    assert shown["when"] == "7 new partitions of default.flights"
    assert (shown["enabled"], shown["generation"], shown["program"]) == (True, 1, "join")
    listed = (await deployed.get("/v1/schedules")).json()["schedules"]
    assert [each["id"] for each in listed] == ["default.flights.weekly"]
    assert (await deployed.get("/v1/schedules?namespace=other")).json()["schedules"] == []


async def test_a_schedule_lives_from_creation_to_deletion(deployed: httpx.AsyncClient) -> None:
    body = {"application": "flights", "name": "daily", "program": "join", "trigger": EVERY_DAY}
    created = await deployed.post("/v1/schedules", json=body)
    assert created.status_code == 201, created.text
    at = created.headers["location"]
    assert (await deployed.post("/v1/schedules", json=body)).status_code == 409
    assert (await deployed.get(at)).json()["id"] == "default.flights.daily"
    toggled = [(await deployed.post(f"{at}/{verb}")).json().get("enabled") for verb in ("disable", "enable")]
    assert toggled == [False, True]
    updated = await deployed.put(at, json={"program": "report", "trigger": EVERY_DAY})
    assert updated.json()["program"] == "report", updated.text
    assert (await deployed.delete(at)).status_code == 204
    assert (await deployed.get(at)).status_code == 404


async def test_a_property_that_would_hide_a_column_of_the_key_is_refused_by_every_way_in(
    deployed: httpx.AsyncClient,
) -> None:
    landed = {"type": "PARTITION", "dataset": "feed", "numPartitions": 1}
    per = {"type": "PER", "trigger": landed, "by": ["region", "date"]}
    wrong = {"program": "join", "trigger": per, "properties": {"date": "2013-01-07"}}
    at = "/v1/schedules/default.flights.weekly"
    before = (await deployed.get(at)).json()

    answers = [
        await deployed.post("/v1/schedules", json={"application": "flights", "name": "daily", **wrong}),
        await deployed.put(at, json=wrong),
        await deployed.put(
            "/v1/apps/default/other",
            json={
                "application": "other",
                "programs": [{"name": "join", "type": "bash", "command": "true"}],
                "schedules": [{"name": "daily", **wrong}],
            },
        ),
    ]

    assert [(each.status_code, each.json().get("path")) for each in answers] == [
        (400, "$.properties.date"),
        (400, "$.properties.date"),
        (400, "$.schedules[0].properties.date"),
    ]
    assert all("`per` names column 'date'" in each.json()["detail"] for each in answers)
    assert (await deployed.get(at)).json() == before
    listed = (await deployed.get("/v1/schedules")).json()["schedules"]
    assert [each["id"] for each in listed] == ["default.flights.weekly"]
    cdap = {**wrong, "program": {"programName": "join", "programType": "WORKFLOW"}}
    refused = await deployed.put("/v3/namespaces/default/apps/flights/schedules/daily", json=cdap)
    assert (refused.status_code, "$.properties.date" in refused.text) == (400, True)


async def test_what_is_enabled_cannot_be_enabled(deployed: httpx.AsyncClient) -> None:
    answer = await deployed.post("/v1/schedules/default.flights.weekly/enable")
    assert answer.status_code == 409
    assert "already enabled" in answer.json()["detail"]


async def test_the_body_may_not_contradict_the_address(deployed: httpx.AsyncClient) -> None:
    answer = await deployed.put("/v1/apps/default/flights", json={"application": "other"})
    assert (answer.status_code, answer.json()["path"]) == (400, "$.application")


async def test_a_program_is_started_by_hand_once_for_each_token(deployed: httpx.AsyncClient) -> None:
    answers = [
        await deployed.post(
            "/v1/programs/default.flights.join/runs",
            json={"arguments": {"day": "1"}, "token": "abc", "atMost": 1, "now": True},
        )
        for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [202, 202]
    run = answers[0].json()["run"]
    assert answers[1].json()["run"] == run
    assert (await deployed.get(f"/v1/runs/{run}")).json()["arguments"] == {"day": "1"}
    refused = await deployed.post("/v1/programs/default.flights.join/runs", json={"atMost": 1, "now": True})
    assert refused.status_code == 409
    listed = await deployed.get("/v1/runs", params={"program": "default.flights.join", "state": "PENDING"})
    assert [each["id"] for each in listed.json()["runs"]] == [run]
    assert (await deployed.get(f"/v1/runs/{run}/logs")).text == ""
    killed = await deployed.post(f"/v1/runs/{run}/kill")
    assert (killed.status_code, killed.json()["state"]) == (202, "KILLED")
    assert (await deployed.post(f"/v1/runs/{run}/kill")).status_code == 409


_NOT_FOUND: Final[list[tuple[str, str]]] = [
    ("/v1/schedules/default.flights.nothing", "schedule"),
    ("/v1/programs/default.flights.nothing", "program"),
    ("/v1/jobs/default.flights.nothing.1.1", "job"),
    ("/v1/jobs/default.flights.nothing.1.1/why", "job"),
    ("/v1/runs/nothing", "run"),
    ("/v1/runs/nothing/logs", "run"),
]


async def test_what_does_not_exist_is_a_problem_that_says_what(client: httpx.AsyncClient) -> None:
    for path, kind in _NOT_FOUND:
        answer = await client.get(path)
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["kind"] == kind


_BAD_PARAMETERS: Final[list[tuple[str, str]]] = [
    ("/v1/jobs?limit=0", "limit"),
    ("/v1/jobs?state=NONE", "state"),
    ("/v1/jobs?schedule=weekly", "$"),
    ("/v1/runs?limit=many", "limit"),
    ("/v1/schedules/a.b", "$"),
]


async def test_a_bad_parameter_is_named(client: httpx.AsyncClient) -> None:
    for path, where in _BAD_PARAMETERS:
        answer = await client.get(path)
        assert answer.status_code == 400, answer.text
        assert answer.json()["path"].startswith(where)


async def test_an_unknown_address_is_a_problem_too(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v2/anything")
    assert (answer.status_code, answer.json()["status"]) == (404, 404)
    assert (await client.patch("/v1/events")).status_code == 405


async def test_health_and_metrics(deployed: httpx.AsyncClient, services: Services) -> None:
    assert (await deployed.get("/health/live")).status_code == 200
    assert (await deployed.get("/health/ready")).json()["checks"] == {"database": "ok", "log": "ok"}
    text = (await deployed.get("/metrics")).text
    assert 'streamsched_schedules{enabled="true"} 1.0' in text
    assert 'route="/v1/apps/{namespace}/{app}"' in text
    await services.broker.close()
    unready = await deployed.get("/health/ready")
    assert unready.status_code == 503
    assert unready.json()["checks"]["database"] == "ok"
