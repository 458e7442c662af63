"""Why a schedule started nothing, over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx
import pytest

from streamsched.roles.services import Services
from tests.support.world import StoredWorld

pytestmark = pytest.mark.postgres


async def test_a_schedule_says_why_it_started_nothing(deployed: httpx.AsyncClient) -> None:
    answer = (await deployed.get("/v1/schedules/default.flights.weekly/why-not")).json()

    assert answer["schedule"] == "default.flights.weekly"
    assert answer["summary"].startswith("nothing satisfied it")
    assert [line["text"].partition(":")[0] for line in answer["lines"]] == ["created"]


async def test_a_span_that_makes_no_sense_is_refused(deployed: httpx.AsyncClient) -> None:
    url = "/v1/schedules/default.flights.weekly/why-not"
    turned = {"since": "2026-03-02T00:00:00Z", "until": "2026-03-01T00:00:00Z"}

    assert (await deployed.get(url, params=turned)).status_code == 400
    assert (await deployed.get(url, params={"since": "yesterday"})).status_code == 400
    assert (await deployed.get("/v1/schedules/default.flights.none/why-not")).status_code == 404


async def test_a_span_may_be_named_by_durations(deployed: httpx.AsyncClient) -> None:
    url = "/v1/schedules/default.flights.weekly/why-not"

    assert (await deployed.get(url, params={"since": "2h"})).json()["lines"]
    assert (await deployed.get(url, params={"since": "2h", "until": "1h"})).json()["lines"] == []
    refused = await deployed.get(url, params={"since": "1h", "until": "2h"})
    assert (refused.status_code, refused.json()["path"]) == (400, "$.since")


@pytest.mark.parametrize(
    ("said", "codes"),
    [
        ("4000000d", [200, 200, 200]),
        ("0001-01-01T00:00:00Z", [200, 200, 200]),
        ("9999-12-31T23:59:59Z", [400, 200, 200]),
        ("9" * 400 + "s", [400, 400, 400]),
    ],
)
async def test_no_span_is_too_long_to_be_answered(deployed: httpx.AsyncClient, said: str, codes: list[int]) -> None:
    url = "/v1/schedules/default.flights.weekly/why-not"
    asked = ({"since": said}, {"until": said}, {"since": said, "until": said})
    assert [(await deployed.get(url, params=params)).status_code for params in asked] == codes


async def test_progress_that_was_damaged_by_hand_is_as_if_there_were_none(
    deployed: httpx.AsyncClient, services: Services
) -> None:
    await StoredWorld(services.pool).add_progress("default.flights.weekly", [], datetime.now(UTC))

    answer = await deployed.get("/v1/schedules/default.flights.weekly/why-not")

    assert answer.status_code == 200, answer.text


async def test_events_without_a_key_are_counted_with_an_example_everywhere(
    deployed: httpx.AsyncClient, services: Services
) -> None:
    progress = {"text": "x", "have": 0, "need": 1, "keyless_events": 12, "keyless_why": "hour='5am' names no hour"}
    await StoredWorld(services.pool).add_progress("default.flights.weekly", progress, datetime.now(UTC))
    url = "/v1/schedules/default.flights.weekly"

    losses = {
        "expiredKeys": 0,
        "droppedKeys": 0,
        "refusedEvents": 0,
        "keylessEvents": 12,
        "keylessWhy": "hour='5am' names no hour",
    }
    assert (await deployed.get(url)).json()["losses"] == losses
    assert (await deployed.get(f"{url}/keys")).json()["losses"] == losses
    assert (
        (await deployed.get(f"{url}/why-not"))
        .json()["summary"]
        .endswith("; 12 events had no key, or not for all partitions: hour='5am' names no hour")
    )
