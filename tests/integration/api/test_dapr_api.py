"""The native routes for Dapr's jobs: history, prefixes, and export and import with counters, all or none."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any, Final

import httpx
import pytest

from streamsched.dialects.dapr.codec.scope import DaprApp
from streamsched.domain.errors import InvalidError
from streamsched.ports.clock import Clock
from streamsched.roles.services import Services
from streamsched.testing.clock import SettableClock
from tests.integration.tasks.task_world import TaskWorld

JOBS = "/v1/dapr/default/orders/jobs"
LINES = {"Content-Type": "application/x-ndjson"}


async def imported(
    client: httpx.AsyncClient, content: bytes, app: str = "orders", *, overwrite: bool = False
) -> httpx.Response:
    return await client.post(
        f"/v1/dapr/default/{app}/import", content=content, headers=LINES, params={"overwrite": overwrite}
    )


def lines_of(*values: object) -> bytes:
    return b"\n".join(json.dumps(each).encode() for each in values)


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
                task = await stream.next_task()
                if fail:
                    stream.fail(task.token, "HTTP 500")
                else:
                    stream.acknowledge(task.token, "OK")
                await owner.wait_until_delivered()
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


@pytest.mark.parametrize(
    ("misfire", "late"),
    [("one", (60, 59)), ("skip", (60, 59)), ("all", (60, 0)), ("one", (600_000, 599_999))],
)
async def test_a_job_shows_how_many_of_its_ticks_were_skipped(
    client: httpx.AsyncClient, world: TaskWorld, clock: SettableClock, misfire: str, late: tuple[int, int]
) -> None:
    minutes, skipped = late
    await client.post(f"{JOBS}/j", json={"schedule": "@every 1m", "misfire": misfire})
    clock.advance(timedelta(minutes=minutes - 1))
    await fired(world, 1)
    found = (await client.get(f"{JOBS}/j")).json()
    exported = (await client.get(f"{JOBS.removesuffix('jobs')}export")).content
    assert (await imported(client, exported, "other")).status_code == 200
    other = (await client.get("/v1/dapr/default/other/jobs/j")).json()

    assert (found["fired"], found.get("skipped", 0), other.get("skipped", 0)) == (1, skipped, skipped)
    name = 'streamsched_queue_ticks_skipped_total{queue="dapr.default.orders"}'
    counted = [line for line in world.metrics.render().decode().splitlines() if line.startswith(name)]
    assert counted == ([f"{name} {float(skipped)}"] if skipped else [])


async def test_a_job_whose_ticks_are_all_skipped_shows_them(
    client: httpx.AsyncClient, world: TaskWorld, clock: SettableClock
) -> None:
    await client.post(f"{JOBS}/j", json={"schedule": "0 0 * * * *", "misfire": "skip"})
    due = datetime.fromisoformat((await client.get(f"{JOBS}/j")).json()["nextFire"])
    clock.set(due + timedelta(hours=200, minutes=30))
    async with world.owning() as owner:
        with world.workers.connect([DaprApp("default", "orders").queue], credit=10):
            await owner.run_once()
            await owner.run_once()
    found = (await client.get(f"{JOBS}/j")).json()

    assert (found["fired"], found["skipped"]) == (0, 100), "of a cron up to 100 in one gap"


async def test_the_next_deliveries_of_a_job(
    client: httpx.AsyncClient, world: TaskWorld, clock: SettableClock, services: Services
) -> None:
    began = clock.now()

    async def asked(name: str, count: int) -> list[float]:
        answer = await client.get(f"{JOBS}/{name}/next", params={"count": count})
        assert answer.json()["name"] == name
        return [(datetime.fromisoformat(each) - began).total_seconds() for each in answer.json()["next"]]

    await client.post(f"{JOBS}/j", json={"schedule": "@every 1m", "repeats": 4})
    await client.post(f"{JOBS}/next", json={"dueTime": "90s"})
    assert await asked("j", 3) == [60, 120, 180]
    assert await asked("j", 1000) == [60, 120, 180, 240]
    assert await asked("next", 3) == [90]
    await fired(world, 1, fail=True)
    retried, *later = await asked("j", 9)
    assert (retried > 60, later) == (True, [120, 180, 240])
    assert (await client.get(f"{JOBS}/none/next")).status_code == 404
    for wrong in (0, 1001, "x"):
        assert (await client.get(f"{JOBS}/j/next", params={"count": wrong})).status_code == 400


async def test_repeats_up_to_the_largest_and_a_job_that_ticked_two_billion_times(
    client: httpx.AsyncClient, world: TaskWorld, services: Services
) -> None:
    most = 2**32 - 1
    made = await client.post(f"{JOBS}/j", json={"schedule": "@every 1m", "repeats": most})
    assert (made.status_code, made.json()["repeats"]) == (201, most), made.text
    await services.pool.execute("UPDATE tasks SET fired = $1", 2**31 - 1)
    await fired(world, 1)
    found = (await client.get(f"{JOBS}/j")).json()

    assert (found["fired"], found["repeats"]) == (2**31 - 1, most)
    assert "nextFire" in found
    beyond = await client.post(f"{JOBS}/k", json={"schedule": "@every 1m", "repeats": most + 1})
    assert (beyond.status_code, "$.repeats" in beyond.text) == (400, True)


async def test_all_jobs_of_an_app_are_deleted_when_asked_for(client: httpx.AsyncClient) -> None:
    for app, name in (("orders", "a"), ("orders", "b"), ("orders-2", "a")):
        await client.post(f"/v1/dapr/default/{app}/jobs/{name}", json={"dueTime": "1h"})
    for wrong in ({}, {"prefix": ""}, {"all": "false"}, {"all": "true", "prefix": "a"}):
        assert (await client.delete(JOBS, params=wrong)).status_code == 400
    assert (await client.delete(JOBS, params={"all": "true"})).json() == {"deleted": 2}

    assert (await client.get(JOBS)).json() == {"jobs": []}
    assert len((await client.get("/v1/dapr/default/orders-2/jobs")).json()["jobs"]) == 1


async def test_an_import_goes_on_where_the_export_was(
    client: httpx.AsyncClient, world: TaskWorld, clock: SettableClock
) -> None:
    body = {"schedule": "@every 1m", "repeats": 3, "ttl": "1h", "data": {"a": 1}}
    assert (await client.post(f"{JOBS}/j", json=body)).status_code == 201
    await fired(world, 2)
    assert (await client.post(f"{JOBS}/once", json={"dueTime": "PT2H", "data": "x"})).status_code == 201
    exported = (await client.get("/v1/dapr/default/orders/export")).content
    before = (await client.get(JOBS)).json()["jobs"]
    twice = await imported(client, exported)
    assert (await client.delete(JOBS, params={"prefix": "o"})).json() == {"deleted": 1}
    half = await imported(client, exported)
    left = (await client.get(JOBS)).json()["jobs"]
    over = await imported(client, exported, overwrite=True)
    after = (await client.get(JOBS)).json()["jobs"]
    await fired(world, 1)

    assert (twice.status_code, half.status_code) == (409, 409)
    assert "job already exists: 'j'" in half.json()["detail"]
    assert [each["name"] for each in left] == ["j"], "all or none"
    assert (over.status_code, over.json()) == (200, {"imported": 2})
    assert after == before
    assert (await client.get(f"{JOBS}/j")).status_code == 404, "its third tick was the last"
    other = await imported(client, exported, "billing")
    assert other.json() == {"imported": 2}
    assert [each["name"] for each in (await client.get("/v1/dapr/default/billing/jobs")).json()["jobs"]] == [
        "j",
        "once",
    ]


_OTHER_FORMS: Final[list[tuple[list[Any], str]]] = [
    ([{"version": 2}, {"jobs": 0}], "$[0].version"),
    ([], "$"),
    ([5], "$[0]"),
    ([{"version": 1}], "$"),
    ([{"version": 1}, {"jobs": 1}], "$[1].jobs"),
    ([{"version": 1}, {"name": "j"}, {"jobs": 1}], "$[1].counters"),
    ([{"version": 1}, {"jobs": 0}, {"name": "j"}], "$[2]"),
    ([{"version": 1}, 5, {"jobs": 1}], "$[1]"),
]


async def test_an_import_of_another_form_is_refused(client: httpx.AsyncClient) -> None:
    for lines, path in _OTHER_FORMS:
        answer = await imported(client, lines_of(*lines))

        assert (answer.status_code, answer.json()["path"]) == (400, path)


@pytest.mark.parametrize("field", ["dueAt", "fired", "createdAt", "failures"])
async def test_counters_out_of_bounds_are_refused(client: httpx.AsyncClient, field: str) -> None:
    assert (await client.post(f"{JOBS}/j", json={"schedule": "@daily"})).status_code == 201
    head, job, end = map(json.loads, (await client.get("/v1/dapr/default/orders/export")).text.splitlines())
    job["counters"][field] = -(2**40) if field in ("fired", "failures") else "0001-01-01T00:00:00+05:00"
    answer = await imported(client, lines_of(head, job, end), overwrite=True)

    assert (answer.status_code, field in answer.json()["path"]) == (400, True), answer.text


async def test_one_invalid_job_keeps_all_out(client: httpx.AsyncClient) -> None:
    assert (await client.post(f"{JOBS}/j", json={"schedule": "@daily"})).status_code == 201
    head, job, _ = map(json.loads, (await client.get("/v1/dapr/default/orders/export")).text.splitlines())
    many = [{**job, "name": f"k{number}"} for number in range(1200)]
    many[700]["schedule"] = "never"
    answer = await imported(client, lines_of(head, *many, {"jobs": len(many)}))

    assert (answer.status_code, answer.json()["path"]) == (400, "$[701].schedule")
    assert [each["name"] for each in (await client.get(JOBS)).json()["jobs"]] == ["j"]
    many[700]["schedule"] = "@daily"
    assert (await imported(client, lines_of(head, *many, {"jobs": len(many)}))).json() == {"imported": 1200}
    names = [each["name"] for each in (await client.get(JOBS)).json()["jobs"]]
    assert (len(names), names) == (1201, sorted(names))


async def test_lines_are_read_by_imports_alone(client: httpx.AsyncClient) -> None:
    assert (await client.post(f"{JOBS}/j", content=b"{}", headers=LINES)).status_code == 400
    assert (await client.post("/v1/queues/q/tasks", content=b"{}", headers=LINES)).status_code == 415


async def test_names_of_apps_are_checked(client: httpx.AsyncClient) -> None:
    for address in ("/v1/dapr/a.b/orders/jobs", "/v1/dapr/default/a b/jobs", f"/v1/dapr/default/{'x' * 129}/jobs"):
        assert (await client.get(address)).status_code == 400
    with pytest.raises(InvalidError):
        DaprApp("", "a")
