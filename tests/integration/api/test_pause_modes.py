"""The modes of a pause over HTTP: what is accepted and refused, and what is said."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.postgres

WEEKLY = "/v1/schedules/default.flights.weekly"


@pytest.mark.parametrize(
    ("body", "mode", "keep"),
    [
        ({}, "keep", True),
        ({"keep": True}, "keep", True),
        ({"keep": False}, "drop", False),
        ({"mode": "drop"}, "drop", False),
        ({"mode": "drain"}, "drain", True),
        ({"mode": "backlog", "keep": True}, "backlog", True),
    ],
)
async def test_a_pause_says_its_mode(deployed: httpx.AsyncClient, body: dict[str, Any], mode: str, keep: bool) -> None:
    answer = await deployed.post(f"{WEEKLY}/pause", json=body)

    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["state"], found["enabled"]) == ("paused", False)
    assert found["pause"] == {"mode": mode, "keep": keep, "until": None, "note": ""}
    (line, *_) = (await deployed.get(f"{WEEKLY}/history")).json()["history"]
    assert line["detail"]["mode"] == mode


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"mode": "sleep"}, "$.mode: must be one of keep, drop, drain, backlog"),
        ({"mode": 7}, "$.mode: "),
        ({"mode": "drop", "keep": True}, "$.keep: is true, which mode 'drop' is not; leave it out"),
        ({"mode": "drain", "keep": False}, "$.keep: is false, which mode 'drain' is not; leave it out"),
    ],
)
async def test_a_wrong_mode_changes_nothing(deployed: httpx.AsyncClient, body: dict[str, Any], said: str) -> None:
    answer = await deployed.post(f"{WEEKLY}/pause", json=body)

    assert answer.status_code == 400
    assert said in answer.json()["detail"]
    assert (await deployed.get(WEEKLY)).json()["state"] == "enabled"


async def test_an_app_drains_and_its_plan_loses_nothing(deployed: httpx.AsyncClient) -> None:
    path = "/v1/apps/default/flights/pause"
    plan = (await deployed.post(path, json={"mode": "drain"}, params={"dry_run": True})).json()
    assert (plan["differs"], plan["loses"]) == (True, False)

    answer = await deployed.post(path, json={"mode": "drain"}, params={"plan": plan["plan"]})

    assert answer.status_code == 200, answer.text
    assert {each["state"] for each in answer.json()["schedules"]} == {"paused"}
    refused = await deployed.post(f"{WEEKLY}/runs", json={})
    assert refused.status_code == 409
    assert "is draining" in refused.json()["detail"]
