"""Submissions over HTTP: a job for each idempotency key, clear refusals, and the former meaning by `now`."""

from __future__ import annotations

from typing import Any, Final

import httpx
import pytest

from streamsched.roles.services import Services
from tests.support.world import StoredWorld

pytestmark = pytest.mark.postgres

JOIN, WEEKLY = "/v1/programs/default.flights.join/runs", "/v1/schedules/default.flights.weekly/runs"
KEYED = {
    "programs": [{"name": "join", "type": "bash", "command": "true"}],
    "schedules": [
        {
            "name": "daily",
            "program": "join",
            "trigger": {
                "type": "PER",
                "by": ["date"],
                "trigger": {"type": "PARTITION", "dataset": "sales", "numPartitions": 1},
            },
        }
    ],
}


async def jobs(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    return (await client.get("/v1/jobs")).json()["jobs"]


async def test_a_job_is_made_once_for_each_idempotency_key(deployed: httpx.AsyncClient) -> None:
    body = {"arguments": {"day": "1"}, "reason": "ann: it was wrong"}
    headers = {"Idempotency-Key": "march 7"}

    answers = [await deployed.post(WEEKLY, json=body, headers=headers) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [202, 202]
    job = answers[0].json()["job"]
    assert [answer.json() for answer in answers] == [{"job": job, "repeated": False}, {"job": job, "repeated": True}]
    shown = (await deployed.get(answers[0].headers["Location"])).json()
    assert (shown["id"], shown["schedule"], shown["state"]) == (job, "default.flights.weekly", "PENDING_CONSTRAINT")
    assert shown["submission"] == {
        "reason": "ann: it was wrong",
        "arguments": {"day": "1"},
        "key": {},
        "rerunOf": None,
        "muted": False,
        "backfill": None,
    }
    explained = (await deployed.get(f"/v1/jobs/{job}/why")).json()
    assert explained["satisfiedBy"] == ["a submission by hand: ann: it was wrong"]
    assert [(line["action"], line["reason"]) for line in explained["history"]] == [
        ("job.submitted", "by hand: ann: it was wrong")
    ]
    other = await deployed.post(WEEKLY, json={}, headers=headers)
    assert (other.status_code, len(await jobs(deployed))) == (409, 1)
    assert (await deployed.post(WEEKLY, json={})).json()["job"] != (await deployed.post(WEEKLY, json={})).json()["job"]


async def test_a_program_alone_is_submitted_and_listed_without_a_schedule(deployed: httpx.AsyncClient) -> None:
    answer = await deployed.post(JOIN, json={"token": "abc"})

    assert answer.json() == {"job": "default.flights.join.submitted-abc", "repeated": False}
    [listed] = await jobs(deployed)
    assert (listed["id"], listed["schedule"], listed["program"]) == (
        "default.flights.join.submitted-abc",
        None,
        "default.flights.join",
    )
    assert (
        (await deployed.get(f"/v1/jobs/{listed['id']}/why")).json()["summary"].startswith("nothing stands in its way")
    )
    held = await deployed.post(f"/v1/jobs/{listed['id']}/hold", json={"reason": "ann"})
    assert held.status_code == 202


_REFUSED: Final[list[tuple[str, dict[str, object], dict[str, str], int, str]]] = [
    ("/v1/programs/default.flights.nowhere/runs", {}, {}, 404, "program 'default.flights.nowhere' was not found"),
    ("/v1/schedules/default.flights.nowhere/runs", {}, {}, 404, "schedule 'default.flights.nowhere' was not found"),
    ("/v1/schedules/nowhere/runs", {}, {}, 400, "$: 'nowhere' is not of the form namespace.app.name"),
    (WEEKLY, {"key": {"date": "1"}}, {}, 400, "$.key: is given, but the schedule's trigger has no key"),
    (WEEKLY, {"now": True}, {}, 400, "$.now"),
    (WEEKLY, {"arguments": {"a": "\0"}}, {}, 400, "$.arguments"),
    (WEEKLY, {"arguments": {"trigger.key": "1"}}, {}, 400, "$.arguments.trigger.key: is a fact of the trigger"),
    (WEEKLY, {"arguments": {"a": 1}}, {}, 400, "$.arguments.a: must be a text"),
    (WEEKLY, {"arguments": {f"n{n}": "v" for n in range(1001)}}, {}, 400, "$.arguments: must have at most 1000"),
    (WEEKLY, {"reason": "\0"}, {}, 400, "$.reason"),
    (WEEKLY, {}, {"Idempotency-Key": ""}, 400, "Idempotency-Key: must have 1 to 255 characters but has 0"),
    (WEEKLY, {}, {"Idempotency-Key": "x" * 256}, 400, "Idempotency-Key: must have 1 to 255 characters"),
    (JOIN, {"key": {"date": "1"}}, {}, 400, "$.key"),
    (JOIN, {"atMost": 1}, {}, 400, "$.atMost: is only for a run that starts at once: set `now`"),
    (JOIN, {"force": True}, {}, 400, "$.force: is only for a run that starts at once: set `now`"),
    (JOIN, {"token": "a"}, {"Idempotency-Key": "b"}, 400, "$.token: is not the key of header Idempotency-Key"),
]


async def test_what_cannot_be_submitted_is_refused_and_starts_nothing(deployed: httpx.AsyncClient) -> None:
    for path, body, headers, code, said in _REFUSED:
        answer = await deployed.post(path, json=body, headers=headers)

        assert (answer.status_code, answer.json()["detail"].startswith(said)) == (code, True), answer.text
        assert await jobs(deployed) == []
        assert (await deployed.get("/v1/runs")).json()["runs"] == []


async def test_the_key_of_a_correlating_schedule_is_named_by_its_column(client: httpx.AsyncClient) -> None:
    assert (await client.put("/v1/apps/default/sales", json=KEYED)).status_code == 200
    path = "/v1/schedules/default.sales.daily/runs"

    missing = await client.post(path, json={})
    wrong = await client.post(path, json={"key": {"day": "2013-01-01"}})

    assert (missing.status_code, missing.json()["reason"]) == (
        400,
        "is missing: the schedule has one accumulation for each date",
    )
    assert (wrong.status_code, wrong.json()["reason"]) == (400, "names day, but the schedule's key is date")
    for name in ("date", "key.date"):
        hides = await client.post(path, json={"key": {"date": "2013-01-01"}, "arguments": {name: "2013-01-02"}})
        said = "is a column of the key, which each job has from its own key"
        assert (hides.status_code, hides.json()["detail"]) == (400, f"$.arguments.{name}: {said}")
    assert await jobs(client) == []
    assert (await client.post(path, json={"key": {"date": "2013-01-01"}})).status_code == 202


async def test_a_disabled_schedule_refuses(deployed: httpx.AsyncClient) -> None:
    await deployed.post("/v1/schedules/default.flights.weekly/disable")

    answer = await deployed.post(WEEKLY, json={})

    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "schedule 'default.flights.weekly' is disabled; enable it, or start its program 'default.flights.join' alone",
    )
    assert await jobs(deployed) == []


async def test_now_starts_a_run_without_a_job_and_its_history_has_the_reason(
    deployed: httpx.AsyncClient, services: Services
) -> None:
    body = {"now": True, "reason": "ann: quickly"}

    answers = [await deployed.post(JOIN, json=body, headers={"Idempotency-Key": "a/b"}) for _ in range(2)]

    run = answers[0].json()["run"]
    assert (answers[0].status_code, answers[1].json()) == (202, {"run": run})
    assert "/" not in run
    assert (await deployed.get(f"/v1/runs/{run}")).json()["job"] is None
    reasons = await StoredWorld(services.pool).reasons(run)
    assert reasons == ["by hand: ann: quickly"]
    assert await jobs(deployed) == []
