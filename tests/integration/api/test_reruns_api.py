"""Reruns over HTTP."""

from __future__ import annotations

import httpx
import pytest

from streamsched.bootstrap import Services
from streamsched.domain.jobs.run import RunState
from streamsched.ports.clock import Clock
from streamsched.ports.runs import RunEnd
from streamsched.store.runs.run_store import PostgresRunStore

pytestmark = pytest.mark.postgres

JOB = "default.flights.weekly.submitted-t"
RUN = f"{JOB}.r1"


@pytest.fixture
async def failed(deployed: httpx.AsyncClient, services: Services, clock: Clock) -> httpx.AsyncClient:
    """A client of an API with one job, whose run failed. No launcher runs: the run is made here."""
    answer = await deployed.post(
        "/v1/schedules/default.flights.weekly/runs", json={"arguments": {"day": "1"}}, headers={"Idempotency-Key": "t"}
    )
    assert answer.json()["job"] == JOB
    await services.pool.execute(
        "WITH moved AS (UPDATE jobs SET state = 'PENDING_LAUNCH', next_check_at = NULL RETURNING id, program) "
        "INSERT INTO runs (id, job, attempt, program, executable, arguments, state, created_at, spawn_at) "
        "SELECT m.id || '.r1', m.id, 1, m.program, p.definition, '{}', 'PENDING', now(), now() "
        "FROM moved m JOIN programs p ON p.id = m.program"
    )
    store = PostgresRunStore(services.pool)
    assert await store.claim(RUN, runner="h:1:1", log_path=None, now=clock.now())
    assert await store.finish(RUN, RunEnd(RunState.FAILED, "exit code 1", clock.now(), 1))
    return deployed


async def test_a_run_and_its_job_are_repeated_once(failed: httpx.AsyncClient) -> None:
    answers = [
        await failed.post(f"/v1/runs/{RUN}/rerun", json={"reason": "ann", "mute": True}),
        await failed.post(f"/v1/jobs/{JOB}/rerun", json={"mute": True}),
        await failed.post(f"/v1/jobs/{JOB}/rerun", json={"mute": True}, headers={"Idempotency-Key": "k"}),
    ]

    again = f"{JOB}.rerun-1"
    assert [answer.status_code for answer in answers] == [202, 202, 202]
    assert [answer.json() for answer in answers] == [
        {"job": again, "repeated": False},
        {"job": again, "repeated": True},
        {"job": f"{JOB}.rerun-k", "repeated": False},
    ]
    shown = (await failed.get(answers[0].headers["Location"])).json()
    assert shown["submission"] == {
        "reason": "ann",
        "arguments": {"day": "1"},
        "key": {},
        "rerunOf": RUN,
        "muted": True,
        "backfill": None,
    }
    run = (await failed.get(f"/v1/runs/{RUN}")).json()
    assert (run["muted"], run["rerunOf"]) == (False, None)
    lines = (await failed.get(f"/v1/jobs/{JOB}/why")).json()["history"]
    assert [line["reason"] for line in lines if line["action"] == "job.rerun"] == [
        f"as {again}",
        f"as {JOB}.rerun-k",
    ]


@pytest.mark.parametrize(
    ("path", "body", "headers", "code", "said"),
    [
        ("jobs/default.flights.weekly.1.9", {}, {}, 404, "job 'default.flights.weekly.1.9' was not found"),
        ("runs/nothing", {}, {}, 404, "run 'nothing' was not found"),
        ("runs/default.flights.join.manual-m.r1", {}, {}, 409, "run 'default.flights.join.manual-m.r1' has no job"),
        (f"jobs/{JOB}", {"arguments": {"a": "\0"}}, {}, 400, "$.arguments"),
        (f"jobs/{JOB}", {"muted": True}, {}, 400, "$.muted"),
        (f"jobs/{JOB}", {}, {"Idempotency-Key": ""}, 400, "Idempotency-Key: must have 1 to 255 characters"),
    ],
)
async def test_what_cannot_be_repeated_is_refused(  # noqa: PLR0917
    failed: httpx.AsyncClient, path: str, body: dict[str, object], headers: dict[str, str], code: int, said: str
) -> None:
    started = await failed.post("/v1/programs/default.flights.join/runs", json={"now": True, "token": "m"})
    assert started.status_code == 202

    answer = await failed.post(f"/v1/{path}/rerun", json=body, headers=headers)

    assert (answer.status_code, answer.json()["detail"].startswith(said)) == (code, True), answer.text
    assert len((await failed.get("/v1/jobs")).json()["jobs"]) == 1
