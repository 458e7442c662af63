"""Launchers go by PostgreSQL's clock: one whose own is wrong takes no living run for lost."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from streamsched.config import Settings
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import EventName
from streamsched.domain.schedules.schedule import PublishJob
from streamsched.launcher.start import start
from streamsched.process.cancellation import cancel
from streamsched.roles.launcher import launcher_loops
from streamsched.roles.services import open_services
from streamsched.testing.clock import SettableClock

from .conftest import PROGRAM, World, schedule

pytestmark = pytest.mark.postgres


async def ended(world: World, run: str) -> datetime:
    """When that run ended, as soon as it has."""
    async with asyncio.timeout(60):
        while True:
            at = (await world.run(run)).ended_at
            if at is not None:
                return at
            await asyncio.sleep(0.05)


async def test_a_launcher_whose_clock_is_wrong_takes_no_living_run_for_lost(world: World) -> None:
    await world.define(schedule("quick"))
    await world.execute(PublishJob(EventName("default", "said"), {}))
    by_hand = await start(world.runs, world.clock, PROGRAM, {}, token="x")
    for run, silent in (("alive", timedelta(0)), ("gone", timedelta(days=1))):
        at = datetime.now(UTC) - silent
        await world.add_run(run, program=str(PROGRAM), at=at, state=RunState.RUNNING, runner="far:1:1")
    ahead = SettableClock(datetime.now(UTC) + timedelta(hours=3))
    async with open_services(Settings.from_env({}, database_url=world.dsn), own=ahead) as services:
        loops = launcher_loops(services, {})
        tasks = [asyncio.ensure_future(loops[name]()) for name in ("launcher", "inline")]
        try:
            await ended(world, "gone")
            at = await ended(world, by_hand)
        finally:
            await cancel(*tasks)

    assert abs(at - datetime.now(UTC)) < timedelta(hours=1)
    assert (await world.run("alive")).state == "RUNNING"
