"""Why a schedule started nothing, over HTTP."""

from __future__ import annotations

import httpx
import pytest

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
    assert (await deployed.get(url, params={"since": "yesterday"})).status_code in {400, 422}
    assert (await deployed.get("/v1/schedules/default.flights.none/why-not")).status_code == 404
