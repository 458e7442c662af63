"""Reruns over HTTP."""

from __future__ import annotations

from typing import Final

import httpx
import pytest

from streamsched.domain.jobs.run import RunState
from streamsched.ports.clock import Clock
from streamsched.ports.runs import RunEnd
from streamsched.roles.services import Services
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


_NOT_REPEATED: Final[list[tuple[str, dict[str, object], dict[str, str], int, str]]] = [
    ("jobs/default.flights.weekly.1.9", {}, {}, 404, "job 'default.flights.weekly.1.9' was not found"),
    ("runs/nothing", {}, {}, 404, "run 'nothing' was not found"),
    ("runs/default.flights.join.manual-m.r1", {}, {}, 409, "run 'default.flights.join.manual-m.r1' has no job"),
    (f"jobs/{JOB}", {"arguments": {"a": "\0"}}, {}, 400, "$.arguments"),
    (f"jobs/{JOB}", {"muted": True}, {}, 400, "$.muted"),
    (f"jobs/{JOB}", {}, {"Idempotency-Key": ""}, 400, "Idempotency-Key: must have 1 to 255 characters"),
]


async def test_what_cannot_be_repeated_is_refused(failed: httpx.AsyncClient) -> None:
    for path, body, headers, code, said in _NOT_REPEATED:
        started = await failed.post("/v1/programs/default.flights.join/runs", json={"now": True, "token": "m"})
        assert started.status_code == 202

        answer = await failed.post(f"/v1/{path}/rerun", json=body, headers=headers)

        assert (answer.status_code, answer.json()["detail"].startswith(said)) == (code, True), answer.text
        assert len((await failed.get("/v1/jobs")).json()["jobs"]) == 1


FAILED_JOBS = "/v1/schedules/default.flights.weekly/reruns"


async def test_failed_jobs_are_shown_and_repeated_once(failed: httpx.AsyncClient) -> None:
    shown = await failed.post(FAILED_JOBS, json={"since": "1h"}, params={"dry_run": "true"})

    assert shown.status_code == 200, shown.text
    (job,) = shown.json()["jobs"]
    assert (job["id"], job["run"], job["outcome"], job["outcomeReason"]) == (JOB, RUN, "FAILED", "exit code 1")
    assert len((await failed.get("/v1/jobs")).json()["jobs"]) == 1
    body = {"since": "1h", "arguments": {"day": "2"}, "reason": "ann", "mute": True}
    made = [await failed.post(FAILED_JOBS, json=body) for _ in range(2)]
    assert [answer.status_code for answer in made] == [202, 202]
    assert [answer.json() for answer in made] == [
        {"jobs": [{"job": f"{JOB}.rerun-1", "repeated": False}]},
        {"jobs": []},
    ], "a waiting rerun counts"
    rerun = (await failed.get(f"/v1/jobs/{JOB}.rerun-1")).json()["submission"]
    assert (rerun["arguments"], rerun["reason"], rerun["muted"], rerun["rerunOf"]) == ({"day": "2"}, "ann", True, RUN)


async def test_a_repeat_with_the_same_key_finds_the_jobs_of_the_first_request(failed: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "monday"}

    first = await failed.post(FAILED_JOBS, json={"since": "1h"}, headers=headers)
    later = await failed.post(FAILED_JOBS, json={"since": "0s"}, headers=headers)
    other = await failed.post(FAILED_JOBS, json={"since": "1h", "mute": True}, headers=headers)

    assert [first.json(), later.json()] == [
        {"jobs": [{"job": f"{JOB}.rerun-monday", "repeated": repeated}]} for repeated in (False, True)
    ]
    assert other.status_code == 409, other.text


@pytest.mark.parametrize(
    "body",
    [{"since": "1h", "runs": []}, {"since": "1h", "runs": ["default.flights.weekly.1.1.r1"]}, {"since": "0s"}],
)
async def test_other_runs_are_left_out(failed: httpx.AsyncClient, body: dict[str, object]) -> None:
    assert (await failed.post(FAILED_JOBS, json=body)).json() == {"jobs": []}


_WRONG_REQUESTS: Final[list[tuple[str, dict[str, object], dict[str, str], int, str]]] = [
    ("nowhere", {}, {}, 404, "schedule 'default.flights.nowhere' was not found"),
    ("weekly", {"since": "yesterday"}, {}, 400, "$.since: 'yesterday' is no duration"),
    ("weekly", {"runs": "all"}, {}, 400, "$.runs"),
    ("weekly", {"runs": [str(number) for number in range(1001)]}, {}, 400, "$.runs"),
    ("weekly", {"arguments": {"a": "\0"}}, {}, 400, "$.arguments"),
    ("weekly", {"wait": True}, {}, 400, "$.wait"),
    ("weekly", {}, {"Idempotency-Key": "x" * 256}, 400, "Idempotency-Key: must have 1 to 255 characters"),
]


async def test_a_wrong_request_for_failed_jobs_is_refused(failed: httpx.AsyncClient) -> None:
    for schedule, body, headers, code, said in _WRONG_REQUESTS:
        answer = await failed.post(f"/v1/schedules/default.flights.{schedule}/reruns", json=body, headers=headers)

        assert (answer.status_code, answer.json()["detail"].startswith(said)) == (code, True), answer.text
        assert len((await failed.get("/v1/jobs")).json()["jobs"]) == 1
