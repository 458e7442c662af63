"""`GET /v1/schedules/{schedule}/next` of a schedule with `since_last_run`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from streamsched.ports.clock import Clock

pytestmark = pytest.mark.postgres

SCHEDULE = "/v1/schedules/default.flights.compact"
APP = {
    "programs": [{"name": "compact", "type": "bash", "command": "true"}],
    "schedules": [{"name": "compact", "program": "compact", "trigger": {"type": "SINCE_LAST_RUN", "duration": "4h"}}],
}


async def following(client: httpx.AsyncClient) -> dict[str, Any]:
    found = (await client.get(f"{SCHEDULE}/next")).json()
    assert found["leaves"] == []
    (leaf,) = found["sinceLastRun"]
    assert (leaf["when"], leaf["after"]) == ("4h since the last run", "4h")
    return leaf


async def test_next_says_when_since_last_run_holds_at_the_earliest(client: httpx.AsyncClient, clock: Clock) -> None:
    assert (await client.put("/v1/apps/default/flights", json=APP)).status_code == 200
    enabled = await following(client)
    ago = clock.now() + timedelta(hours=4) - datetime.fromisoformat(enabled["at"])
    assert (timedelta(0) <= ago < timedelta(minutes=1), enabled["active"]) == (True, False), enabled

    assert (await client.post(f"{SCHEDULE}/runs", json={})).status_code == 202
    waiting = await following(client)
    assert (waiting["at"], waiting["active"]) == (None, True)
    assert (await client.post(f"{SCHEDULE}/disable")).is_success
    disabled = await following(client)
    assert (disabled["at"], disabled["active"]) == (None, False)
