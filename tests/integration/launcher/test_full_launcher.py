"""A launcher whose every place is held by long runs of one pool, with ten thousand jobs behind them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from streamsched.codec.schedules.schedule import program_to_json
from streamsched.domain.constraints.pool import Pool
from streamsched.domain.constraints.process_room import ProcessKind
from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.process_job import BashJob
from streamsched.domain.schedules.schedule import Program, Schedule
from streamsched.launcher.recovery import Recovery
from streamsched.launcher.why import explain_job
from streamsched.ports.clock import SystemClock
from streamsched.ports.runner import RunnerId
from streamsched.process.cancellation import cancel
from streamsched.spark.processes import LocalRunners, this_process
from streamsched.store.runs.launchers import LauncherLeases

from .conftest import World, sharing
from .test_runner import Place, eventually

pytestmark = [pytest.mark.postgres, pytest.mark.long]

PLACES = 4
FULL = sharing("full", Pool("a", 20))
OTHER = sharing("other", Pool("b", 20))


class Full(Place):
    """A launcher as in production, with few places and warm starts; its loops run."""

    def __init__(self, world: World, data_dir: Path) -> None:
        super().__init__(world, data_dir)
        self.runners = LocalRunners(data_dir, self.environ, warm=True, places={ProcessKind.HOST: PLACES})
        self.run_monitor._runners = self.runners
        leases = LauncherLeases(world.pool)
        self.recovery = Recovery(
            leases, self.runners, this_process(), SystemClock(), ttl=timedelta(seconds=30), attempts=3
        )

    async def define(self, each: Schedule, command: str) -> None:
        await self.world.define(each)
        definition = program_to_json(Program(each.program, BashJob(command)))
        await self.world.put_text("programs", definition, str(each.program))

    async def live(self, of: Schedule) -> int:
        runs = await self.world.stored_runs()
        return sum(run.program == str(of.program) and run.started_at is not None for run in runs)

    async def completed(self, of: Schedule) -> int:
        runs = await self.world.stored_runs()
        return sum(run.program == str(of.program) and run.state == RunState.COMPLETED for run in runs)


@asynccontextmanager
async def working(full: Full) -> AsyncIterator[None]:
    await full.recovery.renew()
    loops = [asyncio.create_task(full.recovery.run()), asyncio.create_task(full.launcher.run())]
    try:
        yield
    finally:
        await cancel(*loops)
        for each in [run.runner for run in await full.world.active() if run.runner]:
            runner = psutil.Process(RunnerId.parse(each).pid)
            for process in (*runner.children(recursive=True), runner):
                process.kill()


async def test_a_pool_starts_at_once_while_another_has_every_place_and_ten_thousand_jobs(
    world: World, tmp_path: Path
) -> None:
    full = Full(world, tmp_path)
    await full.define(FULL, "sleep 600")
    await full.define(OTHER, "echo hi")
    await world.satisfy(world.ready(FULL, 1))
    async with working(full):
        began = time.monotonic()
        await eventually(lambda: full.live(FULL))
        usual = time.monotonic() - began
        await world.pool.execute(
            "INSERT INTO jobs (id, schedule, generation, sequence, program, state, satisfied_at, created_at, ready, "
            "next_check_at) SELECT format('default.app.full.1.%s', n), schedule, 1, n, program, 'PENDING_CONSTRAINT', "
            "satisfied_at, created_at, jsonb_set(ready, '{sequence}', to_jsonb(n)), 'epoch' "
            "FROM jobs, generate_series(2, 10001) n"
        )
        await world.pool.execute("ANALYZE jobs")
        await eventually(lambda: _is(full.live(FULL), PLACES))
        await eventually(lambda: _is(world.size("room_waits"), 10_001 - PLACES))
        assert await world.size("group_slots") == PLACES

        await world.satisfy(*(world.ready(OTHER, n) for n in range(1, 4)))
        began = time.monotonic()
        await world.pool.execute("NOTIFY launcher")
        await eventually(lambda: full.live(OTHER))
        took = time.monotonic() - began

        assert took <= max(3.0, usual), f"the first run of all took {usual:.2f} s, the other pool's {took:.2f} s"
        found = await explain_job("default.app.full.1.9000", jobs=world.jobs, clock=SystemClock())
        assert "no room: 4 of 4 processes on launcher" in found.summary
        await eventually(lambda: _is(full.completed(OTHER), 3))
        assert await full.live(FULL) == PLACES


async def _is(found: object, wanted: int) -> bool:
    return await found == wanted  # type: ignore[misc]
