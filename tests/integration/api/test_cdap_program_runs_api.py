"""Runs of a program over CDAP's addresses, on real PostgreSQL; a launcher that would run them is not there."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from streamsched.testing.clock import SettableClock
from tests.integration.api.test_cdap_api import APP, plain

pytestmark = pytest.mark.postgres

JOIN = f"{APP}/workflows/join"
NAMESPACE = "/v3/namespaces/default"


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(datetime(2024, 1, 1, 12, tzinfo=UTC))


async def start(client: httpx.AsyncClient, at: str = JOIN, **arguments: Any) -> None:
    answer = await client.post(f"{at}/start", json=arguments or None)
    assert (answer.status_code, answer.text) == (200, "")


async def test_a_program_is_started_shown_and_stopped(deployed: httpx.AsyncClient, clock: SettableClock) -> None:
    made = round(clock.now().timestamp())
    assert (await deployed.get(f"{JOIN}/status")).json() == {"status": "STOPPED"}
    assert plain(await deployed.post(f"{JOIN}/stop")) == (400, "Program 'default.flights.join' is not running.")

    await start(deployed, region="EU", n=3)

    assert (await deployed.get(f"{JOIN}/status")).json() == {"status": "STARTING"}
    (run,) = (await deployed.get(f"{JOIN}/runs")).json()
    assert (run["starting"], run["status"], {"start", "end"} & run.keys()) == (made, "PENDING", set())
    assert json.loads(run["properties"]["runtimeArgs"]) == {"region": "EU", "n": "3"}
    assert (await deployed.get(f"{JOIN}/runs/{run['runid']}")).json() == run

    clock.advance(timedelta(minutes=1))
    assert (await deployed.post(f"{JOIN}/stop")).status_code == 200
    ended = (await deployed.get(f"{APP}/versions/1.0/spark/join/runs/{run['runid']}")).json()
    assert ended == {**run, "status": "KILLED", "end": made + 60}
    assert plain(await deployed.post(f"{JOIN}/runs/{run['runid']}/stop"))[0] == 400


async def test_runs_are_listed_by_status_and_time(deployed: httpx.AsyncClient, clock: SettableClock) -> None:
    noon = round(clock.now().timestamp())
    for minute in range(4):
        await start(deployed, minute=str(minute))
        clock.advance(timedelta(minutes=1))
    await start(deployed, f"{APP}/workflows/report")
    newest = (await deployed.get(f"{JOIN}/runs?limit=1")).json()[0]
    assert (await deployed.post(f"{JOIN}/runs/{newest['runid']}/stop")).status_code == 200

    async def minutes(query: str = "") -> list[int]:
        found = await deployed.get(f"{JOIN}/runs?{query}")
        assert found.status_code == 200, found.text
        return [(each["starting"] - noon) // 60 for each in found.json()]

    assert await minutes() == await minutes("status=all") == [3, 2, 1, 0]
    assert await minutes("limit=2") == [3, 2]
    assert await minutes("status=killed") == [3]
    assert await minutes("status=PENDING") == [2, 1, 0]
    assert await minutes("status=REJECTED") == []
    assert await minutes(f"start={noon + 60}&end={noon + 180}") == [2, 1]
    assert await minutes(f"start={noon + 60}&end={2**62}") == [3, 2, 1]


def named(program: str, kind: str = "Workflow", **more: Any) -> dict[str, Any]:
    return {"appId": "flights", "programType": kind, "programId": program, **more}


WRONG = [named("nobody"), named("join", "Poem"), {"appId": "flights"}, 7]
REFUSALS = [
    (404, "'program:default.flights.-SNAPSHOT.nobody' was not found."),
    (400, "$: Unknown category name 'Poem'. Must be one of workflows"),
    (400, "$[5].programType: is missing"),
    (400, "$[6]: must be an object but is a number"),
]


async def test_several_programs_are_started_shown_and_stopped(deployed: httpx.AsyncClient) -> None:
    async def post(at: str, *asked: Any) -> list[dict[str, Any]]:
        answer = await deployed.post(f"{NAMESPACE}/{at}", json=asked)
        assert answer.status_code == 200, answer.text
        return answer.json()

    asked = [named("join", runtimeargs={"region": "EU", "n": 3}), named("join", "SPARK"), named("report"), *WRONG]
    *started, odd = await post("start", *asked, named("report", runtimeargs={"a": []}))
    assert (odd["statusCode"], odd["error"]) == (
        400,
        "$[7].runtimeargs.a: must be text, a number or a boolean but is []",
    )
    said = [(each["statusCode"], each["error"]) for each in started[3:]]
    assert [(code, error[: len(text)]) for (code, error), (_, text) in zip(said, REFUSALS, strict=True)] == REFUSALS
    runs = [each["runId"] for each in started[:3]]
    assert started[:3] == [
        {**named("join"), "statusCode": 200, "runId": runs[0]},
        {**named("join", "SPARK"), "statusCode": 200, "runId": runs[1]},
        {**named("report"), "statusCode": 200, "runId": runs[2]},
    ]
    record = (await deployed.get(f"{JOIN}/runs/{runs[0]}")).json()
    assert json.loads(record["properties"]["runtimeArgs"]) == {"region": "EU", "n": "3"}

    await deployed.post(f"{APP}/workflows/report/stop")
    shown = await post("status", named("join"), named("report"), named("join"), *WRONG)
    assert [each.get("status") for each in shown[:3]] == ["STARTING", "STOPPED", "STARTING"]
    assert [each["statusCode"] for each in shown[3:]] == [404, 400, 400, 400]

    stopped = await post("stop", named("join"), named("report"), named("join"), *WRONG)
    assert sorted((each["statusCode"], each.get("runId", "")) for each in stopped[:2]) == sorted(
        (200, run) for run in runs[:2]
    )
    assert stopped[2] == {
        **named("report"),
        "statusCode": 400,
        "error": "Program 'default.flights.report' is not running.",
    }
    assert [each["statusCode"] for each in stopped[3:]] == [400, 404, 400, 400, 400]
    assert (await post("status", named("join")))[0] == {**named("join"), "statusCode": 200, "status": "STOPPED"}


@pytest.mark.parametrize("at", ["start", "stop", "status"])
async def test_a_batch_is_a_list_of_at_most_1000(deployed: httpx.AsyncClient, at: str) -> None:
    answer = await deployed.post(f"{NAMESPACE}/{at}", json=[named("join")] * 1001)
    assert plain(answer) == (413, "the list has 1,001 elements; send at most 1,000 in each request")
    assert plain(await deployed.post(f"{NAMESPACE}/{at}", json={}))[0] == 400
    assert (await deployed.get(f"{JOIN}/runs")).json() == []
    assert (await deployed.post(f"{NAMESPACE}/{at}", json=[])).json() == []


@pytest.mark.parametrize(
    ("at", "answer"),
    [
        ("workflows/join/runs?status=odd", (400, "Invalid program run status 'odd'. Must be one of ALL,")),
        ("workflows/join/runs?start=5&end=4", (400, "Invalid end time 4. It must be greater than the start time 5")),
        ("workflows/join/runs?limit=0", (400, "limit: ")),
        ("workflows/nothing/runs", (404, "'program:default.flights.-SNAPSHOT.nothing' was not found.")),
        ("poems/join/status", (400, "$: Unknown category name 'poems'.")),
        ("workflows/join/runs/x", (404, "No run record found for program default.flights.join and runID: x")),
    ],
)
async def test_what_cannot_be_answered_is_said_in_plain_text(
    deployed: httpx.AsyncClient, at: str, answer: tuple[int, str]
) -> None:
    status, said = plain(await deployed.get(f"{APP}/{at}"))

    assert (status, said[: len(answer[1])]) == answer


async def test_a_run_is_found_below_its_own_program_only(deployed: httpx.AsyncClient) -> None:
    await start(deployed)
    (run,) = (await deployed.get(f"{JOIN}/runs")).json()
    other = f"{APP}/workflows/report/runs/{run['runid']}"

    assert plain(await deployed.get(other))[0] == 404
    assert plain(await deployed.post(f"{other}/stop"))[0] == 404
    assert plain(await deployed.post(f"{JOIN}/start", json={"a": []})) == (
        400,
        "$.a: must be text, a number or a boolean but is []",
    )
