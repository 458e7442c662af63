"""Plans of changes over HTTP: what would be lost, and changes that are made only as they were planned."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from streamsched.domain.jobs.job import JobState
from streamsched.roles.services import Services
from tests.support.world import StoredWorld

from .conftest import APP

pytestmark = pytest.mark.postgres

WEEKLY = "/v1/schedules/default.flights.weekly"
FLIGHTS = "/v1/apps/default/flights"


@pytest.fixture
async def counted(deployed: httpx.AsyncClient, services: Services) -> httpx.AsyncClient:
    """`weekly` has three of seven partitions, as its shard last reported, and one job that waits."""
    progress = {"text": "7 new partitions of default.flights", "have": 3, "need": 7, "holds": False}
    await StoredWorld(services.pool).add_progress("default.flights.weekly", progress, datetime.now(UTC))
    await waiting_job(services, 1)
    return deployed


async def waiting_job(services: Services, sequence: int) -> None:
    job, now = f"default.flights.weekly.1.{sequence}", datetime.now(UTC)
    world = StoredWorld(services.pool)
    await world.add_job(job, program="default.flights.join", at=now, state=JobState.PENDING_CONSTRAINT)


async def states(services: Services) -> list[str]:
    return [job.state for job in await StoredWorld(services.pool).stored_jobs()]


async def test_a_pause_keeps_unless_it_says_otherwise(counted: httpx.AsyncClient, services: Services) -> None:
    planned = (await counted.post(f"{WEEKLY}/pause?dry_run=true")).json()
    assert (planned["differs"], planned["loses"]) == (True, False)

    paused = (await counted.post(f"{WEEKLY}/pause")).json()

    assert (paused["state"], paused["enabled"], paused["pause"]["keep"]) == ("paused", False, True)
    assert paused["dropped"] == {"accumulated": [], "waitingJobs": 0, "openKeys": 0, "parkedSignals": 0}
    assert await states(services) == ["PENDING_CONSTRAINT"]
    again = await counted.post(f"{WEEKLY}/pause")
    assert (again.status_code, again.json()["detail"]) == (409, "schedule 'default.flights.weekly' is already paused")
    assert (await counted.post(f"{WEEKLY}/enable")).json()["state"] == "enabled"
    actions = [line["action"] for line in (await counted.get(f"{WEEKLY}/history")).json()["history"]]
    assert actions == ["resumed", "paused", "created"]


@pytest.mark.parametrize(("verb", "state"), [("pause", "paused"), ("disable", "disabled")])
@pytest.mark.parametrize("of", [WEEKLY, FLIGHTS])
async def test_what_drops_says_what(
    counted: httpx.AsyncClient, services: Services, verb: str, state: str, of: str
) -> None:
    body = {"keep": False} if verb == "pause" else {}
    planned = (await counted.post(f"{of}/{verb}?dry_run=true", json=body)).json()
    (each,) = planned["schedules"]
    assert planned["loses"]
    assert (each["accumulated"][0]["have"], each["waitingJobs"]) == (3, 1)
    assert await states(services) == ["PENDING_CONSTRAINT"], "nothing has changed yet"

    done = await counted.post(f"{of}/{verb}", params={"plan": planned["plan"]}, json=body)

    assert done.status_code == 200, done.text
    found = done.json()
    shown = found if of == WEEKLY else found["schedules"][0]
    assert (shown["state"], shown["dropped"]["waitingJobs"]) == (state, 1)
    assert shown["dropped"]["accumulated"] == [{"leaf": "7 new partitions of default.flights", "have": 3, "need": 7}]
    assert found["endedJobs"] == ["default.flights.weekly.1.1"]
    assert await states(services) == ["OBSOLETE"]
    assert (await counted.get(WEEKLY)).json()["state"] == state


async def test_disabling_what_is_paused_drops_what_the_pause_kept(counted: httpx.AsyncClient) -> None:
    await counted.post(f"{WEEKLY}/pause")

    disabled = (await counted.post(f"{WEEKLY}/disable")).json()

    assert disabled["state"] == "disabled"
    assert disabled["endedJobs"] == ["default.flights.weekly.1.1"]
    assert (await counted.post(f"{WEEKLY}/disable")).status_code == 409


@pytest.mark.parametrize("between", ["a generation", "a waiting job"])
async def test_a_change_that_is_not_the_planned_one_any_more_is_refused(
    deployed: httpx.AsyncClient, services: Services, between: str
) -> None:
    asked: list[tuple[str, str, Any]] = [
        ("PUT", FLIGHTS, {**APP, "schedules": []}),
        ("POST", f"{WEEKLY}/disable", {}),
        ("POST", f"{FLIGHTS}/disable", {}),
        ("POST", f"{WEEKLY}/pause", {"keep": False}),
        ("PUT", WEEKLY, {**APP["schedules"][0], "consumption": "paired"}),  # type: ignore[dict-item]
        ("DELETE", WEEKLY, None),
        ("DELETE", "/v1/programs/default.flights.join", None),
    ]
    plans = []
    for method, path, body in asked:
        planned = await deployed.request(method, path, params={"dry_run": True}, json=body)
        assert planned.status_code == 200, planned.text
        plans.append(planned.json()["plan"])
    if between == "a generation":
        for verb in ("pause", "enable"):
            assert (await deployed.post(f"{WEEKLY}/{verb}")).status_code == 200
    else:
        await waiting_job(services, 1)
    before = (await deployed.get(WEEKLY)).json()["generation"]

    for (method, path, body), plan in zip(asked, plans, strict=True):
        refused = await deployed.request(method, path, params={"plan": plan}, json=body)

        assert (refused.status_code, refused.json().get("kind")) == (409, "plan"), (method, path, refused.text)
    assert (await deployed.get(WEEKLY)).json()["generation"] == before

    for (method, path, body), code in zip(asked[4:], (200, 204, 200), strict=True):
        planned = await deployed.request(method, path, params={"dry_run": True}, json=body)
        made = await deployed.request(method, path, params={"plan": planned.json()["plan"]}, json=body)
        assert made.status_code == code, made.text


async def test_a_deployment_remembers_the_file_it_came_from(deployed: httpx.AsyncClient) -> None:
    async def planned() -> Any:
        return (await deployed.put(FLIGHTS, params={"dry_run": True}, json=APP)).json()

    assert (await planned())["deployedFrom"] is None
    assert (await planned())["installation"]
    await deployed.put(FLIGHTS, params={"origin": "host:/a/app.py"}, json=APP)
    assert (await planned())["deployedFrom"] == "host:/a/app.py"
    await deployed.put(FLIGHTS, json=APP)
    assert (await planned())["deployedFrom"] == "host:/a/app.py", "who names none leaves it"
    assert "@" not in (await planned())["installation"]


async def test_cdap_suspends_as_it_always_did(counted: httpx.AsyncClient, services: Services) -> None:
    at = "/v3/namespaces/default/apps/flights/schedules/weekly"

    assert (await counted.post(f"{at}/suspend")).status_code == 200

    assert await states(services) == ["OBSOLETE"]
    assert (await counted.get(f"{at}/status")).json() == {"status": "SUSPENDED"}
    assert (await counted.get(WEEKLY)).json()["state"] == "disabled"


async def test_lists_are_filtered_by_app_and_state(deployed: httpx.AsyncClient) -> None:
    other = {**APP, "schedules": [{**APP["schedules"][0], "name": name} for name in ("on", "kept", "off")]}  # type: ignore[dict-item]
    await deployed.put("/v1/apps/default/flights_2", json=other)
    await deployed.post("/v1/schedules/default.flights_2.kept/pause")
    await deployed.post("/v1/schedules/default.flights_2.off/disable")
    for app in ("flights", "flights_2"):
        await deployed.post(f"/v1/programs/default.{app}.join/runs", json={"now": True})

    async def ids(path: str, kind: str, **params: Any) -> list[str]:
        answer = await deployed.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return [each["id"].removeprefix("default.") for each in answer.json()[kind]]

    async def schedules(**params: Any) -> list[str]:
        return await ids("/v1/schedules", "schedules", **params)

    assert await schedules(app="default.flights") == ["flights.weekly"]
    assert await schedules(state="enabled") == ["flights.weekly", "flights_2.on"]
    assert await schedules(state=["paused", "disabled"]) == ["flights_2.kept", "flights_2.off"]
    assert await schedules(state="paused", app="default.flights_2") == ["flights_2.kept"]
    assert await schedules(state="error") == []
    assert len(await ids("/v1/programs", "programs", app="default.flights_2")) == 2
    assert [run.split(".")[0] for run in await ids("/v1/runs", "runs", app="default.flights_2")] == ["flights_2"]
    assert await ids("/v1/jobs", "jobs", app="default.flights") == []
    assert (await deployed.get("/v1/jobs?app=flights")).status_code == 400
    assert (await deployed.get("/v1/schedules?state=broken")).status_code == 400


async def test_the_next_ticks_of_all_schedules_come_in_order(deployed: httpx.AsyncClient) -> None:
    def clock(minutes: int) -> dict[str, Any]:
        return {"type": "EVERY", "interval": f"{minutes}m"}

    schedules = {f"c{minutes}": {"program": "join", "trigger": clock(minutes)} for minutes in (7, 11, 13)}
    answer = await deployed.put("/v1/apps/default/clocks", json={**APP, "schedules": schedules})
    assert answer.status_code == 200, answer.text
    await deployed.post("/v1/schedules/default.clocks.c11/pause")
    await deployed.post("/v1/schedules/default.clocks.c13/disable")

    ticks = (await deployed.get("/v1/ticks?limit=5")).json()["ticks"]

    assert [each["at"] for each in ticks] == sorted(each["at"] for each in ticks)
    assert [each["schedule"][-3:].lstrip(".") for each in ticks] == ["c7", "c11", "c7", "c7", "c11"]
    assert {each["schedule"]: each["state"] for each in ticks} == {
        "default.clocks.c7": "enabled",
        "default.clocks.c11": "paused",
    }
    assert (await deployed.get("/v1/ticks", params={"until": ticks[1]["at"]})).json()["ticks"] == ticks[:2]
    assert (await deployed.get("/v1/ticks?app=default.flights")).json()["ticks"] == []
