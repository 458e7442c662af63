"""Jobs and runs as people read them, and their actions; `tests/acceptance/test_pages.py` sees them live."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.jobs.run import RunState
from streamsched.ports.runs import RunEnd
from streamsched.roles.services import Services
from streamsched.store.runs.run_store import PostgresRunStore
from streamsched.web.pages.run import whole_characters
from tests.integration.web.conftest import Browser, LogIn

pytestmark = pytest.mark.postgres

SCRIPT = "<script>alert(1)</script>"
APP = {
    "programs": [{"name": "join", "type": "bash", "command": "true"}],
    "schedules": [
        {
            "name": "weekly",
            "program": "join",
            "trigger": {"type": "PARTITION", "dataset": "flights", "numPartitions": 7},
        }
    ],
}


async def submitted(log_in: LogIn) -> tuple[Browser, str]:
    """A browser, and a job that waits: no launcher runs here."""
    browser = await log_in()
    await browser.http.put("/v1/apps/default/flights", json=APP, headers=browser.authorization)
    made = await browser.send("/ui/schedules/default.flights.weekly/run", arguments=f"day={SCRIPT}", note=SCRIPT)
    job = made.headers["location"].partition("/ui/jobs/")[2].partition("?")[0]
    return browser, job


async def with_run(log_in: LogIn, services: Services, log: Path) -> tuple[Browser, str]:
    """A run that has ended, with this log."""
    browser = await log_in()
    await browser.http.put("/v1/apps/default/flights", json=APP, headers=browser.authorization)
    body = {"now": True, "arguments": {"day": SCRIPT}}
    answer = await browser.http.post("/v1/programs/default.flights.join/runs", json=body, headers=browser.authorization)
    run, store, now = answer.json()["run"], PostgresRunStore(services.pool), services.clock.now()
    runner = "host:1:1"
    assert await store.claim(run, runner=runner, log_path=str(log), now=now) is not None
    await store.mark_started(run, runner=runner, now=now)
    await store.finish(run, RunEnd(RunState.FAILED, f"exit code 3: {SCRIPT}", services.clock.now(), exit_code=3))
    return browser, run


async def test_a_waiting_job_says_why_and_takes_orders(log_in: LogIn) -> None:
    browser, job = await submitted(log_in)
    listed = (await browser.get("/ui/jobs", state="PENDING_CONSTRAINT", schedule="default.flights.weekly")).text
    assert f'<tr id="j-{job}">' in listed
    assert "No job is like that" in (await browser.get("/ui/jobs", state="ABORTED")).text
    page = (await browser.get(f"/ui/jobs/{job}", done="submitted")).text
    assert ("A job was made." in page, "Why it waits" in page, "<script>alert" in page) == (True, True, False)
    for order, said in (("hold", "It is held until it is released"), ("release", "It waits for its constraints again")):
        sent = await browser.send(f"/ui/jobs/{job}/{order}", note="by ana")
        assert (sent.status_code, sent.headers["location"]) == (303, f"/ui/jobs/{job}?done={order}")
        assert said in (await browser.http.get(sent.headers["location"])).text
    assert (await browser.send(f"/ui/jobs/{job}/nonsense")).status_code == 404
    assert (await browser.get("/ui/jobs/default.flights.weekly.1.99")).status_code == 404
    for page, field in (("jobs", "schedule"), ("runs", "program"), ("backfills", "schedule")):
        for text in ("sales", "a.b.c.d", "a b.c"):
            found = await browser.get(f"/ui/{page}", **{field: text})
            assert (found.status_code, f"“{text}” is no name: write app.name" in found.text) == (200, True)
    assert f'<tr id="j-{job}">' in (await browser.get("/ui/jobs", schedule="flights.weekly")).text
    assert (await browser.get("/ui/jobs", after="nonsense")).status_code == 400


async def test_a_run_shows_its_log_which_is_never_run(log_in: LogIn, services: Services, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {n} ö {SCRIPT}\n" for n in range(600)))
    browser, run = await with_run(log_in, services, log)
    page = (await browser.get(f"/ui/runs/{run}")).text
    assert ("line 599 ö &lt;script&gt;" in page, "line 99 ö" in page, "the last 500 lines" in page) == (
        True,
        False,
        True,
    )
    assert "<script>alert" not in page
    assert "It ended as <b>failed</b>" in page
    found = (await browser.get(f"/ui/runs/{run}", find="LINE 598 ")).text
    assert ("line 598 ö" in found, "line 599 ö" in found) == (True, False)
    part = await browser.get(f"/ui/runs/{run}/log", offset="0")
    assert part.text == log.read_text()
    assert part.headers["streamsched-log-offset"] == str(log.stat().st_size)
    assert (await browser.get(f"/ui/runs/{run}/log", offset="x")).status_code == 400
    log.unlink()
    gone = await browser.get(f"/ui/runs/{run}")
    assert (gone.status_code, "The log cannot be read by this process" in gone.text) == (200, True)


async def test_things_are_found_by_name_and_id(log_in: LogIn, services: Services, tmp_path: Path) -> None:
    browser, job = await submitted(log_in)
    assert f'href="/ui/jobs/{job}"' in (await browser.get("/ui/find", q=job.removeprefix("default."))).text
    assert 'href="/ui/schedules/default.flights.weekly"' in (await browser.get("/ui/find", q="week")).text
    assert "Nothing has that name" in (await browser.get("/ui/find", q=SCRIPT)).text
    assert "<script>alert" not in (await browser.get("/ui/find", q=SCRIPT)).text
    other = await log_in(Grant(role=AccessRole.VIEWER, namespace="ops"))
    assert "Nothing has that name" in (await other.get("/ui/find", q=job, namespace="ops")).text
    _, run = await with_run(log_in, services, tmp_path / "none")
    assert f'href="/ui/runs/{run}"' in (await browser.get("/ui/find", q=run)).text


async def test_runs_are_listed_and_a_run_that_ended_is_not_killed(
    log_in: LogIn, services: Services, tmp_path: Path
) -> None:
    browser, run = await with_run(log_in, services, tmp_path / "none")
    listed = (await browser.get("/ui/runs", state="FAILED", program="default.flights.join")).text
    assert (f'<tr id="r-{run}">' in listed, "<script>alert" in listed) == (True, False)
    assert (await browser.send(f"/ui/runs/{run}/kill")).status_code == 409
    refused = await browser.send(f"/ui/runs/{run}/rerun")
    assert (refused.status_code, "has no job" in refused.text) == (409, True)
    home = (await browser.get("/ui/")).text
    assert "of 1 failed in 24 h" in home


@pytest.mark.parametrize("text", ["", "a", "aö", "ö€😀", "€€"])
def test_a_part_of_a_log_ends_with_a_whole_character(text: str) -> None:
    whole = text.encode()
    for cut in range(len(whole) + 1):
        part = whole_characters(whole[:cut])
        assert whole[:cut].startswith(part)
        assert part.decode() == text[: len(part.decode())]
        assert cut - len(part) < 4


async def test_a_traced_run_and_a_traced_job_show_their_trace(
    log_in: LogIn, services: Services, tmp_path: Path
) -> None:
    browser, run = await with_run(log_in, services, tmp_path / "log")
    _, job = await submitted(log_in)
    for page in f"/ui/runs/{run}", f"/ui/jobs/{job}":
        assert "trace <span" not in (await browser.get(page)).text.lower()
    await services.pool.execute("UPDATE runs SET spans = 'due'")
    await services.pool.execute("UPDATE jobs SET spans = 'due'")

    for kind, name in ("runs", run), ("jobs", job):
        trace = (await browser.http.get(f"/v1/{kind}/{name}", headers=browser.authorization)).json()["trace"]
        assert len(trace) == 32
        assert f'race <span class="mono text">{trace}</span>' in (await browser.get(f"/ui/{kind}/{name}")).text
