"""PagerDuty's admin interface and its batch: codes, messages, and what they do to tasks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import httpx
import pytest

from streamsched.dialects.pagerduty.codec.task import Task, TaskKey, to_json
from streamsched.roles.services import Services
from streamsched.store.tasks.queues import QueueStore

NOON = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0)
TASKS = [Task(f"incident {n % 3}", NOON + timedelta(seconds=n // 3), f"k{n}", {"n": str(n)}) for n in range(9)]


@pytest.fixture
async def scheduled(client: httpx.AsyncClient) -> httpx.AsyncClient:
    answer = await client.post("/api/v1/tasks", json=[to_json(each) for each in TASKS])
    assert answer.status_code == 202, answer.text
    assert [each["verdict"] for each in answer.json()["tasks"]] == ["made"] * 9
    return client


async def test_the_process_answers(client: httpx.AsyncClient) -> None:
    assert (await client.get("/api/v1/status")).status_code == 200


async def test_a_task_is_shown_dropped_and_shown_again(scheduled: httpx.AsyncClient) -> None:
    key = {"key": str(TASKS[4].key).replace(".000", "")}
    found = (await scheduled.get("/api/v1/task", params=key)).json()
    assert found["errors"] == []
    assert found["task"].pop("partitionId") in range(16)
    assert found["task"].pop("enqueueingTime").endswith("Z")
    assert found["task"] == {
        "key": str(TASKS[4].key),
        "data": {"n": "4"},
        "numberOfAttempts": 0,
        "status": "Incomplete",
        "details": {"attempts": []},
    }

    for _ in range(2):
        answer = await scheduled.put("/api/v1/task", params=key, json={"task": {"status": "Dropped"}})
        assert (answer.status_code, answer.content) == (204, b"")
    assert (await scheduled.get("/api/v1/task", params=key)).json()["task"]["status"] == "Dropped"
    again = await scheduled.post("/api/v1/tasks", json=[to_json(TASKS[4])])
    assert [each["verdict"] for each in again.json()["tasks"]] == ["ended"], "within 14 days it does not run again"


async def test_a_window_is_listed_in_the_order_of_keys_and_paged_through_ties(scheduled: httpx.AsyncClient) -> None:
    window = {"from": TASKS[0].key.scheduled_time, "to": NOON + timedelta(hours=1)}
    window = {name: time.isoformat().replace("+00:00", "Z") for name, time in window.items()}
    seen: list[str] = []
    more: dict[str, Any] = {}
    while True:
        answer = (await scheduled.get("/api/v1/tasks", params={**window, **more, "limit": 4})).json()
        page = [each["key"] for each in answer["tasks"]]
        seen += [key for key in page if key not in seen]
        if len(page) < 4:
            break
        last = TaskKey.parse(page[-1])
        more = {"from": str(last)[8:32], "fromOrderingId": last.ordering_id, "fromUniquenessKey": last.uniqueness_key}

    assert seen == [str(each.key) for each in sorted(TASKS, key=lambda each: each.key)]


_BAD_WINDOWS: Final[list[tuple[dict[str, str], str]]] = [
    ({"to": "2026-01-01T01:00:00Z", "limit": "1"}, "from must be given"),
    ({}, "from and to and limit must be given"),
    ({"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T01:00:00Z", "limit": "x"}, "limit"),
    ({"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T01:00:00Z", "limit": "0"}, "limit"),
    ({"from": "2026-01-01T00:00:00", "to": "2026-01-01T01:00:00Z", "limit": "1"}, "from"),
    ({"from": "2026-13-01T00:00:00Z", "to": "2026-01-01T01:00:00Z", "limit": "1"}, "from"),
    ({"from": "2026-01-01T01:00:00Z", "to": "2026-01-01T01:00:00Z", "limit": "1"}, "before"),
    ({"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T08:00:01Z", "limit": "1"}, "8 hours"),
]


async def test_a_bad_window_is_refused(scheduled: httpx.AsyncClient) -> None:
    for params, reason in _BAD_WINDOWS:
        answer = await scheduled.get("/api/v1/tasks", params=params)

        assert answer.status_code == 400
        assert reason in answer.json()["errors"][0]


@pytest.mark.parametrize("key", ["", "TaskKey", "TaskKey(x,a,b)", f"TaskKey(2016-02-09T01:41:12Z,{'a' * 601},b)"])
async def test_a_bad_key_is_refused(scheduled: httpx.AsyncClient, key: str) -> None:
    for method, body in (("GET", None), ("PUT", {"task": {"status": "Dropped"}})):
        answer = await scheduled.request(method, "/api/v1/task", params={"key": key}, json=body)
        assert answer.status_code == 400
        assert "Unable to parse provided task key" in answer.json()["errors"][0]


async def test_a_task_whose_ids_have_commas_is_found_and_dropped(scheduled: httpx.AsyncClient) -> None:
    alone = Task("team a, b", NOON, "call, then mail")
    twins = [Task("x", NOON, "y,z"), Task("x,y", NOON, "z")]
    answer = await scheduled.post("/api/v1/tasks", json=[to_json(each) for each in (alone, *twins)])
    assert answer.status_code == 202, answer.text

    async def get(task: Task, **more: str) -> httpx.Response:
        return await scheduled.get("/api/v1/task", params={"key": str(task.key), **more})

    async def drop(task: Task, **more: str) -> int:
        params = {"key": str(task.key), **more}
        return (await scheduled.put("/api/v1/task", params=params, json={"task": {"status": "Dropped"}})).status_code

    assert (await get(alone)).json()["task"]["key"] == str(alone.key)
    assert await drop(alone) == 204
    assert (await get(alone)).json()["task"]["status"] == "Dropped"

    several = await get(twins[0])
    assert (several.status_code, await drop(twins[0])) == (409, 409)
    assert several.json() == {"errors": ["2 tasks have this key, for commas in their ids; give its orderingId"]}
    assert await drop(twins[1], orderingId="x,y") == 204
    assert (await get(twins[0], orderingId="x")).json()["task"]["status"] == "Incomplete"
    assert (await get(twins[0], orderingId="z")).status_code == 400
    assert (await get(Task("no,body", NOON, "k"))).status_code == 404


_OTHER_STATUSES: Final[list[bytes]] = [
    b"",
    b"{",
    b"[]",
    b'{"task":{}}',
    b'{"task":{"status":"Success"}}',
    b'{"task":1}',
]


async def test_another_status_is_refused(scheduled: httpx.AsyncClient) -> None:
    for body in _OTHER_STATUSES:
        answer = await scheduled.put(
            "/api/v1/task",
            params={"key": str(TASKS[0].key)},
            content=body,
            headers={"Content-Type": "application/json"},
        )

        assert answer.status_code == 400
        assert (await scheduled.get("/api/v1/task", params={"key": str(TASKS[0].key)})).json()["task"]["status"] == (
            "Incomplete"
        )


async def test_what_does_not_exist_is_404(scheduled: httpx.AsyncClient) -> None:
    key = str(TaskKey(NOON, "none", "none"))
    assert (await scheduled.get("/api/v1/task", params={"key": key})).status_code == 404
    dropped = {"task": {"status": "Dropped"}}
    assert (await scheduled.put("/api/v1/task", params={"key": key}, json=dropped)).status_code == 404
    assert (await scheduled.get("/api/v1/task", params={"key": key, "queue": "none"})).status_code == 404


async def test_a_batch_is_stored_as_a_whole_or_refused_with_the_index(scheduled: httpx.AsyncClient) -> None:
    now = datetime.now(UTC)
    good, late = Task("new", now - timedelta(seconds=8), "a"), Task("new", now - timedelta(seconds=12), "b")
    for batch, reason in (
        ([to_json(good), to_json(late)], "$[1]: Attempting to enqueue too far in the past."),
        ([to_json(good), {**to_json(good), "uniquenessKey": ""}], "$[1].uniquenessKey"),
        ({}, "must be a list"),
        ([{}] * 1001, "must be a list"),
    ):
        answer = await scheduled.post("/api/v1/tasks", json=batch)
        assert answer.status_code == 400
        assert reason in answer.json()["errors"][0]
        assert (await scheduled.get("/api/v1/task", params={"key": str(good.key)})).status_code == 404

    assert (await scheduled.post("/api/v1/tasks", json=[to_json(good)])).status_code == 202


async def test_a_queue_that_would_merge_tasks_of_several_times_is_refused(client: httpx.AsyncClient) -> None:
    target = {"type": "worker"}
    for queue in ("scheduler", "other"):
        assert (await client.put(f"/v1/queues/{queue}", json={"target": target})).status_code == 200
        answer = await client.post(f"/api/v1/tasks?queue={queue}", json=[to_json(TASKS[0])])

        assert answer.status_code == 409
        assert f"queue '{queue}' takes tasks of one key at several times for one task" in answer.json()["errors"][0]

    own = {"target": target, "identity": "key_and_due"}
    assert (await client.put("/v1/queues/third", json=own)).status_code == 200
    assert (await client.post("/api/v1/tasks?queue=third", json=[to_json(TASKS[0])])).status_code == 202


async def test_a_failure_is_500(scheduled: httpx.AsyncClient, services: Services) -> None:
    assert (await QueueStore(services.pool).get("scheduler")).tasks == 9
    await services.pool.execute("ALTER TABLE task_queues RENAME TO away")
    answer = await scheduled.get("/api/v1/task", params={"key": str(TASKS[0].key)})

    assert answer.status_code == 500
    assert answer.json()["errors"]
