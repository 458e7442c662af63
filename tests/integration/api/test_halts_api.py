"""A schedule in error, as people see it: why, what waits, and what a replay makes of it. On the log in PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

import httpx
import pytest

from streamsched.domain.fold.cell import Cell
from streamsched.domain.fold.fold import Folded, TriggerState, fold
from streamsched.domain.signals.signal import Occurred, Signal
from streamsched.roles.launcher import launcher_loops
from streamsched.roles.services import Services
from streamsched.stream.agents import schedule_home
from tests.support.shard_cluster import ShardCluster, event_ids, landed

WEEKLY = "/v1/schedules/default.flights.weekly"


@pytest.fixture
def bad(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Ids of events that a fold with a mistake in it cannot take."""
    names: set[str] = set()

    def mistaken(state: TriggerState | None, signal: Signal, *, at: datetime, cells: Mapping[str, Cell]) -> Folded:
        if isinstance(signal, Occurred) and signal.event.id in names:
            raise ArithmeticError(f"no idea what to do with {signal.event.id}")
        return fold(state, signal, at=at, cells=cells)

    monkeypatch.setattr(schedule_home, "fold", mistaken)
    return names


@pytest.fixture
async def cluster(services: Services) -> AsyncIterator[ShardCluster]:
    """Shards that run, and the copies people ask."""
    made = ShardCluster(services.broker, services.settings.shards)
    await made.start()
    loops = launcher_loops(services, {})
    copying = [asyncio.ensure_future(loops[name]()) for name in ("progress", "verdicts")]
    yield made
    for task in copying:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    await made.stop()


async def seen(client: httpx.AsyncClient, path: str, holds: Callable[[Any], bool]) -> Any:
    async with asyncio.timeout(30):
        while not holds(found := (await client.get(path)).json()):  # noqa: ASYNC110 - copies follow the log
            await asyncio.sleep(0.05)
    return found


async def test_an_error_is_shown_with_its_reason_and_replayed(
    deployed: httpx.AsyncClient, cluster: ShardCluster, bad: set[str]
) -> None:
    bad.add("flights-2")
    await cluster.emit(*(landed(n) for n in range(7)))

    error = (await seen(deployed, WEEKLY, lambda found: found["error"] and found["error"]["parked"] == 5))["error"]
    assert error["why"] == "ArithmeticError: no idea what to do with flights-2"
    assert (error["signal"], error["attempts"]) == ("event flights-2 of test", 0)
    (listed,) = (await deployed.get("/v1/schedules")).json()["schedules"]
    assert listed["error"] == error
    reported = await seen(deployed, "/v1/events/flights-4/verdicts", lambda found: found["verdicts"])
    assert "is parked until the schedule is replayed" in reported["verdicts"][0]["text"]

    again = await deployed.post(f"{WEEKLY}/replay")
    assert again.status_code == 202, again.text
    await seen(deployed, WEEKLY, lambda found: found["error"] and found["error"]["attempts"] == 1)

    bad.clear()
    assert (await deployed.post(f"{WEEKLY}/replay")).status_code == 202
    await seen(deployed, WEEKLY, lambda found: found["error"] is None)
    (job,) = await cluster.jobs()
    assert event_ids(job) == [f"flights-{n}" for n in range(7)]
    reported = await seen(deployed, "/v1/events/flights-4/verdicts", lambda found: len(found["verdicts"]) == 2)
    assert [each["verdict"] for each in reported["verdicts"]] == ["parked", "counted"]


async def test_one_that_is_well_cannot_be_replayed(deployed: httpx.AsyncClient) -> None:
    answer = await deployed.post(f"{WEEKLY}/replay")
    assert answer.status_code == 409, answer.text
    assert "is not in error" in answer.text
    assert (await deployed.post("/v1/schedules/default.flights.unknown/replay")).status_code == 404
