"""Who did what to a schedule and why, and what is not permitted, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from streamsched.api.app import make_api
from streamsched.domain.errors import InvalidError
from streamsched.launcher.plugins import Answer
from streamsched.roles.api import api_services
from streamsched.roles.services import Services

pytestmark = pytest.mark.postgres

WEEKLY = "/v1/schedules/default.flights.weekly"


async def done(client: httpx.AsyncClient) -> list[tuple[str, str]]:
    answer = await client.get(f"{WEEKLY}/history")
    return [(line["action"], line["reason"]) for line in answer.json()["history"]]


async def test_every_change_says_who_wanted_it_and_why(deployed: httpx.AsyncClient) -> None:
    for verb, body in (
        ("disable", {"reason": "ann: disks are moved"}),
        ("enable", {"reason": "ann: done"}),
        ("pause", {"note": "until monday", "reason": "bob: weekend"}),
        ("enable", {}),
        ("pause", {"note": "once more"}),
    ):
        answer = await deployed.post(f"{WEEKLY}/{verb}", json=body)
        assert answer.status_code == 200, answer.text
    await deployed.post("/v1/apps/default/flights/enable", json={"reason": "eve: all of them"})
    await deployed.delete(WEEKLY, params={"reason": "ann: nobody reads it"})

    assert await done(deployed) == [
        ("deleted", "ann: nobody reads it"),
        ("resumed", "with its app: eve: all of them"),
        ("paused", "once more"),
        ("resumed", ""),
        ("paused", "bob: weekend"),
        ("enabled", "ann: done"),
        ("disabled", "ann: disks are moved"),
        ("created", "deployed"),
    ]


@pytest.mark.parametrize(
    ("verb", "body", "said"),
    [
        ("disable", {"reason": 7}, "$.reason: must be a text"),
        ("enable", {"why": "x"}, "$.why: unknown field"),
        ("pause", {"reason": [], "keep": True}, "$.reason: must be a text"),
    ],
)
async def test_what_is_no_reason_is_refused(
    deployed: httpx.AsyncClient, verb: str, body: dict[str, object], said: str
) -> None:
    answer = await deployed.post(f"{WEEKLY}/{verb}", json=body)

    assert answer.status_code == 400
    assert answer.json()["detail"].startswith(said)
    assert await done(deployed) == [("created", "deployed")]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"name": "nowhere", "config": {}}, "$.constraints[0].name: no plug-in 'nowhere' is installed here"),
        ({"name": "picky", "config": {"limit": 0}}, "$.constraints[0].config.limit: must be more than 0"),
    ],
)
async def test_a_plug_in_that_is_not_there_or_refuses_its_settings_is_a_400_with_its_place(
    deployed: httpx.AsyncClient, services: Services, monkeypatch: pytest.MonkeyPatch, asked: Any, said: str
) -> None:
    def picky(settings: Mapping[str, Any]) -> Answer:
        raise InvalidError("$.limit", f"must be more than {settings['limit']}")

    monkeypatch.setattr("streamsched.launcher.plugins.find_installed", lambda: {"picky": lambda: picky})
    trigger = {"type": "PARTITION", "dataset": "flights", "numPartitions": 7}
    body = {"program": "join", "trigger": trigger, "constraints": [{"type": "PLUGIN", **asked}]}
    transport = httpx.ASGITransport(app=make_api(api_services(services)))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.put(WEEKLY, json=body)

    assert (answer.status_code, answer.json()["detail"][: len(said)]) == (400, said)
    assert await done(deployed) == [("created", "deployed")]
