"""Queues, lanes and tasks over HTTP: what is stored, what is refused, and where."""

from __future__ import annotations

from typing import Any, Final

import httpx
import pytest

QUEUE = {"target": {"type": "worker", "timeout": "30m"}, "grace": "1h", "retry": {"type": "period", "period": "30s"}}


@pytest.fixture
async def queue(client: httpx.AsyncClient) -> httpx.AsyncClient:
    assert (await client.put("/v1/queues/mail", json=QUEUE)).status_code == 200
    return client


async def test_a_queue_is_shown_as_it_was_set_and_again_changes_nothing(queue: httpx.AsyncClient) -> None:
    found = (await queue.get("/v1/queues/mail")).json()

    assert (found["target"], found["retry"], found["grace"]) == (
        {"type": "worker", "timeout": "30m", "maxLosses": 5},
        QUEUE["retry"],
        "1h",
    )
    assert (await queue.put("/v1/queues/mail", json=QUEUE)).json() == found
    assert [each["name"] for each in (await queue.get("/v1/queues")).json()["queues"]] == ["mail"]


async def test_the_number_of_partitions_is_asked_for(client: httpx.AsyncClient) -> None:
    path = "/v1/tasks/partitions"
    shown = {"partitions": 16, "wanted": 16, "settled": True, "step": "nothing", "taken": 0}
    assert (await client.get(path)).json() == shown
    answer = await client.put(path, json={"partitions": 64})
    asked = {"partitions": 16, "wanted": 64, "settled": False, "step": "await_owners", "taken": 0}
    assert (answer.status_code, answer.json()) == (202, asked)
    assert (await client.put(path, json={"partitions": 64})).json() == asked
    for body, at in (({}, "$.partitions"), ({"partitions": 257}, "$.partitions"), ({"partitions": 3, "x": 1}, "$.x")):
        answer = await client.put(path, json=body)
        assert (answer.status_code, answer.json()["path"]) == (400, at)


@pytest.mark.parametrize("losses", [-1, 1.5, "many", 10**9])
async def test_a_bad_bound_of_losses_is_refused(client: httpx.AsyncClient, losses: object) -> None:
    answer = await client.put("/v1/queues/q", json={"target": {"type": "worker", "maxLosses": losses}})
    assert (answer.status_code, answer.json()["path"]) == (400, "$.target.maxLosses")


async def test_tasks_are_registered_listed_explained_and_ended(queue: httpx.AsyncClient) -> None:
    batch = [{"key": f"k{n}", "lane": "c 7/ä", "after": f"{n + 1}m", "data": {"n": n}} for n in range(3)]
    answer = await queue.post("/v1/queues/mail/tasks", json=batch)
    assert answer.status_code == 202
    ids = [each["id"] for each in answer.json()["tasks"]]

    page = (await queue.get("/v1/queues/mail/tasks", params={"lane": "c 7/ä", "limit": 2})).json()
    assert [each["id"] for each in page["tasks"]] == ids[:2]
    rest = (await queue.get("/v1/queues/mail/tasks", params={"limit": 2, "after": page["next"]})).json()
    assert [each["id"] for each in rest["tasks"]] == ids[2:]
    reasons = (await queue.get(f"/v1/tasks/{ids[1]}/why")).json()["reasons"]
    assert reasons[0]["text"] == "its lane is at task 'k0'"
    lane = (await queue.get("/v1/queues/mail/lane", params={"name": "c 7/ä"})).json()
    assert (lane["head"]["id"], lane["tasks"]) == (ids[0], 3)

    assert (await queue.post(f"/v1/tasks/{ids[0]}/cancel", json={"reason": "no"})).json()["state"] == "CANCELLED"
    assert (await queue.post(f"/v1/tasks/{ids[0]}/cancel", json={})).status_code == 200
    assert (await queue.post(f"/v1/tasks/{ids[0]}/run", json={})).status_code == 409
    assert (await queue.post(f"/v1/tasks/{ids[1]}/move", json={"after": "2h"})).json()["state"] == "WAITING"
    ended = (await queue.get("/v1/queues/mail/tasks", params={"ended": True})).json()["tasks"]
    assert [each["id"] for each in ended] == ids[:1]
    assert (await queue.post("/v1/queues/mail/pause", json={})).json()["paused"] is True


_BAD_TASKS: Final[list[tuple[Any, str | None]]] = [
    ({}, "$.key"),
    ({"key": ""}, "$.key"),
    ({"key": "k", "due": "yesterday"}, "$.due"),
    ({"key": "k", "due": "2001-01-01T00:00:00Z"}, "$.due"),
    ({"key": "k", "due": "2030-01-01T00:00:00Z", "after": "1m"}, "$.after"),
    ({"key": "k", "base64": "?"}, "$.base64"),
    ({"key": "k", "data": 1, "text": "a"}, "$.text"),
    ({"key": "k", "lane": "x" * 601}, "$.lane"),
    ({"key": "k", "odd": 1}, "$.odd"),
    ({"key": "k", "recurrence": {"rhythm": {"type": "EVERY", "interval": "1ms"}}}, "$.recurrence.rhythm.interval"),
    ({"key": "k", "recurrence": {"rhythm": {"type": "TIME", "cronExpression": "0 0 30 2 *"}}}, None),
    ({"key": "k", "retry": {"type": "never"}}, "$.retry.type"),
    ([{"key": "k"}, {"key": "k", "after": "-1"}], "$[1].after"),
    ([{"key": "k"}] * 1001, "$"),
]


async def test_a_bad_task_is_refused_with_its_path_and_none_is_stored(queue: httpx.AsyncClient) -> None:
    for body, path in _BAD_TASKS:
        answer = await queue.post("/v1/queues/mail/tasks", json=body)

        assert answer.status_code == 400, answer.text
        assert path is None or answer.json()["path"] == path
        assert (await queue.get("/v1/queues/mail")).json()["tasks"] == 0


async def test_what_does_not_exist_is_404(queue: httpx.AsyncClient) -> None:
    for path in ("/v1/queues/none", "/v1/queues/none/tasks", "/v1/queues/none/lane?name=a", "/v1/tasks/none"):
        assert (await queue.get(path)).status_code == 404, path
    assert (await queue.post("/v1/queues/none/tasks", json={"key": "k"})).status_code == 404
    assert (await queue.put("/v1/queues/bad name", json=QUEUE)).status_code == 400
