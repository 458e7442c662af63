"""Entity tags: a change is refused when the thing has changed since it was read, and an answer is not sent twice."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.integration.api.conftest import APP

pytestmark = pytest.mark.postgres

_APP, _SCHEDULE = "/v1/apps/default/flights", "/v1/schedules/default.flights.weekly"
_PROFILE, _POOL = "/v1/namespaces/default/spark-profiles/large", "/v1/pools/nightly"


def schedule(partitions: int) -> dict[str, Any]:
    return {
        "program": "join",
        "trigger": {"type": "PARTITION", "dataset": "flights", "numPartitions": partitions},
    }


def app(command: str) -> dict[str, Any]:
    return {**APP, "programs": [{"name": "join", "type": "bash", "command": command}, *APP["programs"][1:]]}


#: Path, a first and a second body, and whether it can be deleted.
THINGS = [
    pytest.param(_SCHEDULE, schedule(2), schedule(3), True, id="schedule"),
    pytest.param(_APP, app("echo 1"), app("echo 2"), True, id="app"),
    pytest.param(_PROFILE, {"conf": {"spark.x": "1"}}, {"conf": {"spark.x": "2"}}, True, id="profile"),
    pytest.param(_POOL, {"size": 1}, {"size": 2}, False, id="pool"),
]


@pytest.mark.parametrize(("path", "first", "second", "deletes"), THINGS)
async def test_a_change_of_what_was_read_applies_and_one_of_an_older_reading_does_not(
    deployed: httpx.AsyncClient, path: str, first: dict[str, Any], second: dict[str, Any], deletes: bool
) -> None:
    assert (await deployed.put(path, json=first)).status_code == 200
    tag = (await deployed.get(path)).headers["etag"]
    same = await deployed.get(path, headers={"If-None-Match": f'W/{tag}, "other"'})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)

    changed = await deployed.put(path, json=second, headers={"If-Match": tag})
    late = await deployed.put(path, json=first, headers={"If-Match": tag})

    assert changed.status_code == 200, changed.text
    assert (late.status_code, late.json()["title"]) == (412, "Precondition Failed"), late.text
    now = await deployed.get(path, headers={"If-None-Match": tag})
    assert (now.status_code, now.headers["etag"] == tag) == (200, False)
    assert now.headers["etag"].partition("-")[0] == late.headers["etag"].rstrip('"')
    if deletes:
        assert (await deployed.delete(path, headers={"If-Match": tag})).status_code == 412
    again = await deployed.put(path, json=first, headers={"If-Match": f'"old", {late.headers["etag"]}'})
    assert again.status_code == 200, "the tag of a refusal can be sent"
    if deletes:
        assert (await deployed.delete(path, headers={"If-Match": "*"})).status_code in {200, 204}


async def test_of_changes_of_one_reading_at_a_time_one_applies(deployed: httpx.AsyncClient) -> None:
    tag = (await deployed.get(_SCHEDULE)).headers["etag"]

    answers = await asyncio.gather(
        *(deployed.put(_SCHEDULE, json=schedule(n), headers={"If-Match": tag}) for n in range(2, 7))
    )

    assert sorted(each.status_code for each in answers) == [200, 412, 412, 412, 412]


async def test_a_pause_is_another_revision_and_a_counted_event_is_not(deployed: httpx.AsyncClient) -> None:
    tag = (await deployed.get(_SCHEDULE)).headers["etag"]
    await deployed.post(f"{_SCHEDULE}/pause", json={"mode": "keep"})

    late = await deployed.put(_SCHEDULE, json=schedule(2), headers={"If-Match": tag})

    assert late.status_code == 412
    app_tag = (await deployed.get(_APP)).headers["etag"]
    await deployed.post(f"{_SCHEDULE}/enable")
    assert (await deployed.put(_APP, json=APP, headers={"If-Match": app_tag})).status_code == 412


@pytest.mark.parametrize(("path", "body"), [(_SCHEDULE, schedule(2)), (_APP, app("echo 1"))], ids=["schedule", "app"])
async def test_a_plan_of_an_older_reading_is_refused_too(
    deployed: httpx.AsyncClient, path: str, body: dict[str, Any]
) -> None:
    old = {"If-Match": (await deployed.get(path)).headers["etag"]}
    tried: dict[str, Any] = {"params": {"dry_run": "true"}}
    assert (await deployed.put(path, json=body, headers=old, **tried)).status_code == 200
    assert (await deployed.delete(path, headers=old, **tried)).status_code == 200

    assert (await deployed.put(path, json=body, headers=old)).status_code == 200

    for answer in (
        await deployed.put(path, json=body, headers=old, **tried),
        await deployed.delete(path, headers=old, **tried),
    ):
        assert (answer.status_code, "etag" in answer.headers) == (412, True), answer.text
    now = {"If-Match": (await deployed.get(path)).headers["etag"]}
    assert (await deployed.put(path, json=body, headers=now, **tried)).status_code == 200


async def test_what_does_not_exist_matches_nothing_and_what_is_no_tag_is_refused(client: httpx.AsyncClient) -> None:
    for path, body in ((_PROFILE, {}), (_POOL, {"size": 1}), (_APP, {"programs": [], "schedules": []})):
        answer = await client.put(path, json=body, headers={"If-Match": "*"})
        assert (answer.status_code, "etag" in answer.headers) == (412, False), answer.text
        assert (await client.get(path)).status_code == 404
    for tag in ("7", '"7', '"7" "8"', ""):
        answer = await client.put(_SCHEDULE, json=schedule(2), headers={"If-Match": tag})
        assert (answer.status_code, answer.json()["path"]) == (400, "If-Match"), answer.text
