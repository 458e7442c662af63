"""Backfills over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import httpx
import pytest

from streamsched.ports.clock import Clock
from streamsched.roles.services import Services
from streamsched.store.jobs.backfill_feed import BackfillFeed
from streamsched.testing.clock import SettableClock

pytestmark = pytest.mark.postgres

APP = {
    "programs": [{"name": "load", "type": "bash", "command": "true", "defaults": {"mode": "full"}}],
    "schedules": [
        {"name": "nightly", "program": "load", "trigger": {"type": "TIME", "cronExpression": "0 6 * * *"}},
        {
            "name": "keyed",
            "program": "load",
            "trigger": {
                "type": "PER",
                "by": ["region", "date"],
                "trigger": {"type": "PARTITION", "dataset": "orders", "numPartitions": 1},
            },
        },
    ],
}
NIGHTLY = "/v1/schedules/default.sales.nightly/backfills"
JANUARY = {"from": "2013-01-01", "to": "2013-01-31"}
ID = "default.sales.nightly.backfill-jan"


@pytest.fixture
def clock() -> Clock:
    return SettableClock(datetime(2026, 3, 1, 12, tzinfo=UTC))


@pytest.fixture
async def sales(client: httpx.AsyncClient) -> httpx.AsyncClient:
    answer = await client.put("/v1/apps/default/sales", json=APP)
    assert answer.status_code == 200, answer.text
    return client


async def start(client: httpx.AsyncClient, body: dict[str, Any], key: str = "jan") -> httpx.Response:
    return await client.post(NIGHTLY, json=body, headers={"Idempotency-Key": key})


async def test_a_dry_run_shows_the_jobs_and_makes_none(sales: httpx.AsyncClient) -> None:
    answer = await sales.post(
        f"{NIGHTLY}?dry_run=true&limit=2",
        json={**JANUARY, "arguments": {"mode": "quick"}},
        headers={"Idempotency-Key": "jan"},
    )

    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["counts"] == {
        "jobs": 31,
        "skipped": 0,
        "waiting": 31,
        "active": 0,
        "succeeded": 0,
        "failed": 0,
        "dropped": 0,
    }
    assert len(found["jobs"]) == 2
    first = found["jobs"][0]
    given = first.pop("arguments")
    assert first == {
        "job": f"{ID}.1",
        "logicalTime": "2013-01-01T06:00:00Z",
        "key": None,
        "events": 1,
        "known": "missing",
        "latest": None,
    }
    assert (given["mode"], given["trigger.logical_start_time"]) == ("quick", "2013-01-01T06:00:00+00:00")
    assert (await sales.get("/v1/backfills")).json() == {"backfills": []}


async def test_it_is_started_once_listed_shown_paused_resumed_and_cancelled(
    sales: httpx.AsyncClient, services: Services, clock: Clock
) -> None:
    answers = [
        await start(sales, {**JANUARY, "maxActive": 2, "maxFailures": 20, "mute": True, "reason": "ann"})
        for _ in range(2)
    ]
    assert [(answer.status_code, answer.json()["repeated"]) for answer in answers] == [(202, False), (202, True)]
    assert answers[0].headers["Location"] == f"/v1/backfills/{ID}"
    assert (await start(sales, {**JANUARY, "maxActive": 3})).status_code == 409
    assert await BackfillFeed(services.pool).feed(now=clock.now(), limit=9) == 2

    shown = (await sales.get(f"/v1/backfills/{ID}")).json()
    assert shown == {
        "id": ID,
        "schedule": "default.sales.nightly",
        "state": "RUNNING",
        "stateReason": "",
        "counts": {
            "jobs": 31,
            "skipped": 0,
            "waiting": 29,
            "active": 2,
            "succeeded": 0,
            "failed": 0,
            "dropped": 0,
        },
        "createdAt": "2026-03-01T12:00:00Z",
        "changedAt": "2026-03-01T12:00:00Z",
        "endedAt": None,
        **JANUARY,
        "only": "missing",
        "order": "oldest",
        "maxActive": 2,
        "maxFailures": 20,
        "mute": True,
        "arguments": {},
        "reason": "ann",
    }
    listed = (await sales.get("/v1/backfills?limit=1&schedule=default.sales.nightly")).json()
    assert listed == {"backfills": [shown]}
    assert (await sales.get(NIGHTLY)).json() == listed
    jobs = (await sales.get(f"/v1/backfills/{ID}/jobs?limit=2")).json()
    assert [(job["number"], job["job"], job["state"], job["outcome"]) for job in jobs["jobs"]] == [
        (1, f"{ID}.1", "ACTIVE", "PENDING_CONSTRAINT"),
        (2, f"{ID}.2", "ACTIVE", "PENDING_CONSTRAINT"),
    ]
    more = (await sales.get(f"/v1/backfills/{ID}/jobs?state=WAITING&limit=1&after={jobs['next']}")).json()
    assert (more["jobs"][0]["number"], more["jobs"][0]["outcome"], more["next"]) == (3, None, "3")
    job = (await sales.get(f"/v1/jobs/{ID}.1")).json()
    assert (job["satisfiedAt"], job["submission"]["backfill"], job["submission"]["muted"]) == (
        "2026-03-01T12:00:00Z",
        ID,
        True,
    )
    states = []
    for order in ("pause", "pause", "resume", "cancel"):
        answer = await sales.post(f"/v1/backfills/{ID}/{order}", json={"reason": "bob"})
        states.append((answer.status_code, answer.json()["state"], answer.json()["stateReason"]))
    assert states == [(202, state, "bob") for state in ("PAUSED", "PAUSED", "RUNNING", "CANCELLED")]
    refused = await sales.post(f"/v1/backfills/{ID}/resume", json={})
    assert (refused.status_code, refused.json()["detail"]) == (409, f"backfill '{ID}' is CANCELLED")


async def test_several_columns_are_all_combinations(sales: httpx.AsyncClient) -> None:
    body = {"keys": {"region": ["EU", "US"], "date": "2013-01-01..2013-01-31"}}
    answer = await sales.post("/v1/schedules/default.sales.keyed/backfills?dry_run=true", json=body)

    found = answer.json()
    assert found["counts"]["jobs"] == 62
    assert found["jobs"][31]["key"] == "US/2013-01-01"
    assert found["jobs"][31]["arguments"]["region"] == "US"


async def test_manifests_and_partitions(sales: httpx.AsyncClient) -> None:
    partitions = ["region=EU/date=2013-01-01", "region=US/date=2013-01-01", "region=EU/date=2013-01-02"]
    body = {"dataset": "orders", "partitions": partitions}
    answer = await sales.post("/v1/schedules/default.sales.keyed/backfills?dry_run=true", json=body)

    assert [(job["key"], job["events"]) for job in answer.json()["jobs"]] == [
        ("EU/2013-01-01", 1),
        ("EU/2013-01-02", 1),
        ("US/2013-01-01", 1),
    ]


_REFUSED: Final[list[tuple[str, dict[str, Any], int, str]]] = [
    ("nothing", JANUARY, 404, "schedule 'default.sales.nothing' was not found"),
    ("nightly", {}, 400, "$: must have one span"),
    ("nightly", {"from": "2013-01-31", "to": "2013-01-01"}, 400, "$.to: is 2013-01-01, before the beginning"),
    (
        "nightly",
        {"from": "2013-01-01T07:00Z", "to": "2013-01-01T08:00Z"},
        400,
        "$.to: leaves the span without ticks",
    ),
    ("nightly", {"from": "2013-01-01", "to": "2213-01-01"}, 400, "$.to: is 2213-01-01, in the future"),
    ("nightly", {"from": "1500-01-01", "to": "2013-01-01"}, 400, "$.to: makes the span more than 100000 ticks"),
    (
        "nightly",
        {"from": "1980-01-01", "to": "2013-01-01"},
        400,
        "$.confirmed: is missing: the backfill would make 12055",
    ),
    (
        "nightly",
        {**JANUARY, "arguments": {"logical.start.time": "1"}},
        400,
        "$.arguments.logical.start.time: is a fact",
    ),
    ("nightly", {"keys": {"date": "2013-01-01"}}, 400, "$.keys: is given, but the schedule's trigger has no key"),
    ("keyed", {"keys": {"day": "1"}}, 400, "$.keys: names day, but the schedule's key is region and date"),
    ("keyed", {"keys": {"region": "EU", "date": ""}}, 400, "$.keys.date: '' has an empty value"),
    ("keyed", {"keys": {"region": "EU", "date": "2..1"}}, 400, "$.keys.date: range 2..1 is reversed"),
    (
        "keyed",
        {"keys": {"region": "EU", "date": "1"}, "arguments": {"date": "2"}},
        400,
        "$.arguments.date: is a column of the key",
    ),
]


async def test_what_does_not_fit_is_refused_and_nothing_starts(sales: httpx.AsyncClient) -> None:
    for schedule, body, code, said in _REFUSED:
        answer = await sales.post(f"/v1/schedules/default.sales.{schedule}/backfills", json=body)

        assert (answer.status_code, answer.json()["detail"][: len(said)]) == (code, said)
        assert (await sales.get("/v1/backfills")).json() == {"backfills": []}
        assert (await sales.get("/v1/jobs")).json() == {"jobs": []}


@pytest.mark.parametrize("path", ["", "/jobs", "/pause"])
async def test_an_unknown_backfill_is_not_found(sales: httpx.AsyncClient, path: str) -> None:
    method = "POST" if path == "/pause" else "GET"
    answer = await sales.request(method, f"/v1/backfills/none{path}", json={} if path == "/pause" else None)

    assert (answer.status_code, answer.json()["detail"]) == (404, "backfill 'none' was not found")
