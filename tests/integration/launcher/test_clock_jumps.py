"""A worker and a launcher while the database's clock is wrong for a moment: time goes on, and nothing ends by it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest

from streamsched.api.app import make_api
from streamsched.codec.triggers import trigger as triggers
from streamsched.config import Settings
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import EventName
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.timed import OnExpiry, Within
from streamsched.domain.triggers.trigger import CustomEvent, Every
from streamsched.process.cancellation import cancel
from streamsched.roles.api import api_services
from streamsched.roles.launcher import launcher_loops
from streamsched.roles.role import Role
from streamsched.roles.services import Services, clock_loops, open_services
from streamsched.roles.worker import worker_loops
from tests.support.world import StoredWorld
from tests.support.wrong_clock import WrongClock

pytestmark = pytest.mark.postgres

YEAR = timedelta(days=365)
SECOND = Every(timedelta(seconds=1))
PA, PB, WA, WB = (CustomEvent(EventName("default", name)) for name in ("pa", "pb", "wa", "wb"))
APP = {
    "programs": [{"name": "say", "type": "publish", "event": "said"}],
    "schedules": [
        {"name": name, "program": "say", "trigger": triggers.to_json(trigger), "overlap": "queue"}
        for name, trigger in {
            "second": SECOND,
            "pair": Per(PA & PB, ("k",)),
            "within": Within(WA & WB, timedelta(hours=2), OnExpiry.RESET),
        }.items()
    ],
}
#: A run on another host that may take an hour.
LONG = """
INSERT INTO runs (id, attempt, program, executable, arguments, state, created_at, runner, heartbeat_at, deadline_at)
VALUES ('long', 1, 'default.jump.say', '{}', '{}', 'RUNNING', pg_catalog.now(), 'far:1:1', pg_catalog.now(),
    pg_catalog.now() + interval '1 hour')
"""


class Installation:
    """A worker, a launcher and an API in this process."""

    def __init__(self, services: Services, client: httpx.AsyncClient) -> None:
        self.pool = services.pool
        self._client = client

    async def deploy(self) -> None:
        answer = await self._client.put("/v1/apps/default/jump", json=APP)
        assert answer.status_code == 200, answer.text

    async def emit(self, name: str, **attributes: str) -> None:
        event = {"id": name, "source": "t", "type": "custom", "data": {"name": name, "attributes": attributes}}
        answer = await self._client.post("/v1/events?check=none", json={**event, "time": "2026-01-01T00:00:00Z"})
        assert answer.status_code == 202, answer.text

    async def jobs(self, schedule: str) -> int:
        stored = await StoredWorld(self.pool).stored_jobs()
        return sum(job.schedule == f"default.jump.{schedule}" for job in stored)

    async def judged(self) -> list[str]:
        rows = await self.pool.fetch("SELECT fact FROM clock_judgements ORDER BY number")
        return [row["fact"] for row in rows]

    async def holders(self) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self.pool.fetch("SELECT name, owner, epoch FROM leases ORDER BY name")]


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    try:
        async with asyncio.timeout(40):
            while not await holds():  # noqa: ASYNC110 - copies follow the log
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"not within 40 s: {what}") from None


@pytest.fixture
async def installation(wrong_clock: WrongClock, database: str) -> AsyncIterator[Installation]:
    settings = Settings.from_env({}, database_url=database, shards=2, api_access="open", heartbeat=timedelta(seconds=1))
    async with open_services(settings) as services, _running(services):
        transport = httpx.ASGITransport(app=make_api(api_services(services)), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield Installation(services, client)


@asynccontextmanager
async def _running(services: Services) -> AsyncIterator[None]:
    loops = {
        **worker_loops(services),
        **launcher_loops(services, os.environ),
        **clock_loops(services, Role.ALL),
    }
    tasks = [asyncio.ensure_future(loop()) for loop in loops.values()]
    try:
        yield
    finally:
        await cancel(*tasks)


@pytest.mark.parametrize(
    "off",
    [YEAR, pytest.param(-YEAR, marks=pytest.mark.long), pytest.param(timedelta(hours=1), marks=pytest.mark.long)],
)
async def test_a_wrong_clock_for_a_moment_silences_kills_and_expires_nothing(
    wrong_clock: WrongClock, installation: Installation, off: timedelta
) -> None:
    at = installation
    await at.deploy()
    await at.pool.execute(LONG)
    for name, attributes in (("pa", {"k": "1"}), ("wa", {})):
        await at.emit(name, **attributes)
    await until(lambda: _at_least(at, "second", 3), "ticks fire")
    await until(lambda: _open(at), "the key is open")
    holders, begun = await at.holders(), await at.jobs("second")

    await wrong_clock.set(off)
    await until(lambda: _judged(at, "jumped"), "the jump is found")
    during = await at.jobs("second")
    await until(lambda: _at_least(at, "second", during + 5), "ticks go on")

    assert begun <= during, "no tick is lost with the judgement"
    assert await at.pool.fetchval("SELECT max(abs(extract(epoch FROM due_at - pg_catalog.now()))) < 60 FROM timers")
    assert await at.pool.fetchval("SELECT max(abs(extract(epoch FROM created_at - pg_catalog.now()))) < 60 FROM jobs")
    assert await _goes_on(at)
    assert await _open(at)
    assert await at.holders() == holders, "no lease changes hands"

    await wrong_clock.set(timedelta(0))
    await until(lambda: _judged(at, "returned"), "it is back")
    for name, attributes in (("pb", {"k": "1"}), ("wb", {})):
        await at.emit(name, **attributes)
    await until(lambda: _at_least(at, "pair", 1), "the key's accumulation is still there")
    await until(lambda: _at_least(at, "within", 1), "the window was still open")

    assert await at.judged() == ["jumped", "returned"]
    assert await at.holders() == holders
    assert await _goes_on(at)


async def _at_least(at: Installation, schedule: str, jobs: int) -> bool:
    return await at.jobs(schedule) >= jobs


async def _judged(at: Installation, fact: str) -> bool:
    return (await at.judged())[-1:] == [fact]


async def _open(at: Installation) -> bool:
    return await StoredWorld(at.pool).size("open_keys") == 1


async def _goes_on(at: Installation) -> bool:
    run = await StoredWorld(at.pool).run("long")
    return run.state == RunState.RUNNING and run.stop_requested is None
