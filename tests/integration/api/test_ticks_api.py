"""The next ticks over HTTP, of schedules and of triggers that are not deployed."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx
import pytest

from streamsched.testing.clock import SettableClock

pytestmark = pytest.mark.postgres

NOW = datetime(2026, 3, 28, 12, tzinfo=UTC)
NIGHTLY = {"type": "TIME", "cronExpression": "30 2 * * *", "timeZone": "Europe/Berlin", "jitter": "10m"}


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(NOW)


async def test_the_next_ticks_of_a_schedule_mark_odd_days(deployed: httpx.AsyncClient) -> None:
    body = {"application": "flights", "name": "nightly", "program": "join", "trigger": NIGHTLY, "enabled": False}
    assert (await deployed.post("/v1/schedules", json=body)).status_code == 201
    found = (await deployed.get("/v1/schedules/default.flights.nightly/next?count=2")).json()
    assert (found["schedule"], found["enabled"], len(found["leaves"])) == ("default.flights.nightly", False, 1)
    leaf = found["leaves"][0]
    assert leaf["when"] == "cron '30 2 * * *' in Europe/Berlin"
    assert [(tick["at"], tick["local"]) for tick in leaf["ticks"]] == [
        ("2026-03-29T01:00:00Z", "2026-03-29T03:00:00+02:00"),
        ("2026-03-30T00:30:00Z", "2026-03-30T02:30:00+02:00"),
    ]
    assert [[note["kind"] for note in tick["notes"]] for tick in leaf["ticks"]] == [["gap"], []]
    assert all(tick["at"] < tick["firesAt"] < tick["at"][:14] + "40:00Z" for tick in leaf["ticks"])


async def test_a_schedule_that_waits_for_events_alone_has_no_ticks(deployed: httpx.AsyncClient) -> None:
    assert (await deployed.get("/v1/schedules/default.flights.weekly/next")).json()["leaves"] == []


async def test_the_timer_waits_for_the_jittered_time(deployed: httpx.AsyncClient) -> None:
    body = {"application": "flights", "name": "nightly", "program": "join", "trigger": NIGHTLY}
    created = (await deployed.post("/v1/schedules", json=body)).json()
    found = (await deployed.get("/v1/schedules/default.flights.nightly/next?count=1")).json()
    shown = (await deployed.get("/v1/schedules/default.flights.nightly")).json()
    assert shown["nextTickAt"] == found["leaves"][0]["ticks"][0]["firesAt"], created


async def test_a_trigger_that_is_not_deployed(client: httpx.AsyncClient) -> None:
    days = {"weekdays": ["SUN"], "name": "sundays"}
    trigger = {"type": "TIME", "cronExpression": "0 0 4 ? * *", "dialect": "quartz", "calendar": days}
    found = (await client.post("/v1/triggers/next?count=1", json=trigger)).json()["leaves"][0]
    assert [tick["at"] for tick in found["ticks"]] == ["2026-03-30T04:00:00Z"]
    assert found["omitted"] == [
        {"day": "2026-03-29", "kind": "closed", "text": "calendar sundays closes it: every SUN"}
    ]


@pytest.mark.parametrize(
    ("query", "body", "code", "path"),
    [
        ("", {"type": "TIME", "cronExpression": "0 0 30 2 *"}, 400, "$.cronExpression"),
        ("?count=0", NIGHTLY, 400, None),
    ],
)
async def test_what_never_ticks_is_refused(
    client: httpx.AsyncClient, query: str, body: dict[str, str], code: int, path: str | None
) -> None:
    answer = await client.post(f"/v1/triggers/next{query}", json=body)
    assert answer.status_code == code
    assert path is None or answer.json()["path"] == path
