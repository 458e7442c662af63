"""The native routes for Dapr's jobs: history, prefixes, and export and import with counters, all or none."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx
import pytest

from streamsched.bootstrap import Services
from streamsched.codec.dapr.scope import DaprApp
from streamsched.domain.errors import InvalidError
from streamsched.ports.clock import Clock
from streamsched.testing.clock import SettableClock
from tests.integration.tasks.task_world import TaskWorld

JOBS = "/v1/dapr/default/orders/jobs"


@pytest.fixture
def clock() -> Clock:
    return SettableClock()


@pytest.fixture
def world(services: Services, clock: SettableClock) -> TaskWorld:
    """An owner of lanes that goes by the clock of the API."""
    world = TaskWorld(services.pool)
    world.clock = world.receiver.clock = world.workers.clock = clock
    return world


async def fired(world: TaskWorld, times: int, *, fail: bool = False) -> None:
    """Delivers so many ticks of the app's jobs, a minute apart."""
    async with world.owning() as owner:
        with world.workers.connect([DaprApp("default", "orders").queue], credit=10) as stream:
            for _ in range(times):
                world.pass_time(60)
                assert await owner.run_once() == 1
                task = await stream.next()
                if fail:
                    stream.fail(task.token, "HTTP 500")
                else:
                    stream.acknowledge(task.token, "OK")
                await owner.delivered()
                await owner.run_once()


async def test_a_job_is_shown_with_its_last_and_next_ticks_and_its_history(
    client: httpx.AsyncClient, world: TaskWorld, clock: SettableClock
) -> None:
    began = clock.now()
    body = {"schedule": "@every 1m", "data": [1], "misfire": "one", "failurePolicy": {"drop": {}}}
    made = await client.post(f"{JOBS}/j", json=body)
    assert (made.status_code, made.json()["fired"]) == (201, 0)
    await fired(world, 2)
    await fired(world, 1, fail=True)
    found = (await client.get(f"{JOBS}/j")).json()

    assert (found["fired"], found["misfire"]) == (3, "one")
    times = [(began + timedelta(minutes=n)).isoformat().replace("+00:00", "Z") for n in (3, 4)]
    assert [found["lastFire"], found["nextFire"]] == times
    assert [each["state"] for each in found["history"]] == ["FAILED", "SUCCEEDED", "SUCCEEDED"]
    assert found["history"][0]["attempts"][0]["reason"] == "HTTP 500"
    assert (await client.delete(f"{JOBS}/j")).status_code == 204
    assert (await client.delete(f"{JOBS}/j")).status_code == 404


async def test_an_import_goes_on_where_the_export_was(
    client: httpx.AsyncClient, world: TaskWorld, clock: SettableClock
) -> None:
    body = {"schedule": "@every 1m", "repeats": 3, "ttl": "1h", "data": {"a": 1}}
    assert (await client.post(f"{JOBS}/j", json=body)).status_code == 201
    await fired(world, 2)
    assert (await client.post(f"{JOBS}/once", json={"dueTime": "PT2H", "data": "x"})).status_code == 201
    exported = (await client.get("/v1/dapr/default/orders/export")).json()
    before = (await client.get(JOBS)).json()["jobs"]
    twice = await client.post("/v1/dapr/default/orders/import", json={"export": exported})
    assert (await client.delete(JOBS, params={"prefix": "o"})).json() == {"deleted": 1}
    half = await client.post("/v1/dapr/default/orders/import", json={"export": exported})
    left = (await client.get(JOBS)).json()["jobs"]
    over = await client.post("/v1/dapr/default/orders/import", json={"export": exported, "overwrite": True})
    after = (await client.get(JOBS)).json()["jobs"]
    await fired(world, 1)

    assert (twice.status_code, half.status_code) == (409, 409)
    assert "job already exists: 'j'" in half.json()["detail"]
    assert [each["name"] for each in left] == ["j"], "all or none"
    assert (over.status_code, over.json()) == (200, {"imported": 2})
    assert after == before
    assert (await client.get(f"{JOBS}/j")).status_code == 404, "its third tick was the last"
    other = await client.post("/v1/dapr/default/billing/import", json={"export": exported})
    assert other.json() == {"imported": 2}
    assert [each["name"] for each in (await client.get("/v1/dapr/default/billing/jobs")).json()["jobs"]] == [
        "j",
        "once",
    ]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"version": 2}, "$.version"),
        ({"jobs": {}}, "$.jobs"),
        ({"jobs": [{"name": "j"}]}, "$.jobs[0].counters"),
        ({"jobs": [5]}, "$.jobs[0]"),
    ],
)
async def test_an_import_of_another_form_is_refused(
    client: httpx.AsyncClient, change: dict[str, Any], path: str
) -> None:
    body = {"export": {"version": 1, "jobs": [], **change}}
    answer = await client.post("/v1/dapr/default/orders/import", json=body)

    assert (answer.status_code, answer.json()["path"]) == (400, path)


@pytest.mark.parametrize("field", ["dueAt", "fired", "createdAt", "failures"])
async def test_counters_out_of_bounds_are_refused(client: httpx.AsyncClient, field: str) -> None:
    assert (await client.post(f"{JOBS}/j", json={"schedule": "@daily"})).status_code == 201
    exported = (await client.get("/v1/dapr/default/orders/export")).json()
    exported["jobs"][0]["counters"][field] = -(2**40) if field in ("fired", "failures") else "0001-01-01T00:00:00+05:00"
    body = {"export": exported, "overwrite": True}
    answer = await client.post("/v1/dapr/default/orders/import", json=body)

    assert (answer.status_code, field in answer.json()["path"]) == (400, True), answer.text


async def test_names_of_apps_are_checked(client: httpx.AsyncClient) -> None:
    for address in ("/v1/dapr/a.b/orders/jobs", "/v1/dapr/default/a b/jobs", f"/v1/dapr/default/{'x' * 129}/jobs"):
        assert (await client.get(address)).status_code == 400
    with pytest.raises(InvalidError):
        DaprApp("", "a")
