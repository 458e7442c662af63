"""Launchers go by PostgreSQL's clock: one whose own is wrong takes no living run for lost."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from streamsched.config import Settings
from streamsched.domain.names import EventName
from streamsched.domain.schedules.schedule import PublishJob
from streamsched.launcher.start import start
from streamsched.process.cancellation import cancel
from streamsched.roles.launcher import launcher_loops
from streamsched.roles.services import open_services
from streamsched.testing.clock import SettableClock

from .conftest import PROGRAM, World, schedule

pytestmark = pytest.mark.postgres

ALIVE = """
INSERT INTO runs (id, attempt, program, executable, arguments, state, created_at, runner, heartbeat_at)
SELECT id, 1, $1, '{}', '{}', 'RUNNING', now(), 'far:1:1', now() - silent
FROM (VALUES ('alive', interval '0'), ('gone', interval '1 day')) AS n (id, silent)
"""


async def ended(pool: asyncpg.Pool, run: str) -> datetime:
    """When that run ended, as soon as it has."""
    async with asyncio.timeout(60):
        while True:
            at = await pool.fetchval("SELECT ended_at FROM runs WHERE id = $1", run)
            if at is not None:
                return at
            await asyncio.sleep(0.05)


async def test_a_launcher_whose_clock_is_wrong_takes_no_living_run_for_lost(world: World) -> None:
    await world.define(schedule("quick"))
    await world.execute(PublishJob(EventName("default", "said"), {}))
    by_hand = await start(world.runs, world.clock, PROGRAM, {}, token="x")
    await world.pool.execute(ALIVE, str(PROGRAM))
    ahead = SettableClock(datetime.now(UTC) + timedelta(hours=3))
    async with open_services(Settings.from_env({}, database_url=world.dsn), own=ahead) as services:
        loops = launcher_loops(services, {})
        tasks = [asyncio.ensure_future(loops[name]()) for name in ("launcher", "inline")]
        try:
            await ended(world.pool, "gone")
            at = await ended(world.pool, by_hand)
        finally:
            await cancel(*tasks)

    assert abs(at - datetime.now(UTC)) < timedelta(hours=1)
    assert await world.column("SELECT state FROM runs WHERE id = 'alive'") == ["RUNNING"]
