"""The end of a run wakes those that it may let go, however many wait for something else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamsched.domain.constraints.constraint import Concurrency, Delay
from streamsched.domain.jobs.job import JobCommand
from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.overlap import Overlap
from streamsched.ports.runs import RunEnd

from .conftest import MINUTE, World, schedule

pytestmark = pytest.mark.postgres

ONE_AT_A_TIME = schedule("one", constraints=(Concurrency(1, wait=True),))


async def end(world: World, run: str) -> None:
    now = world.clock.now()
    assert await world.run_store.claim(run, runner="host:1:1", log_path="/log", now=now)
    assert await world.run_store.finish(run, RunEnd(RunState.COMPLETED, "", now, 0))


@pytest.mark.parametrize("hidden", ["held", "delayed"])
async def test_jobs_that_no_end_of_a_run_can_help_hide_none_that_it_lets_go(world: World, hidden: str) -> None:
    one = replace(ONE_AT_A_TIME, overlap=Overlap.QUEUE)
    elders = schedule("elders", overlap=Overlap.QUEUE, constraints=(Delay(MINUTE),) if hidden == "delayed" else ())
    await world.define(one, elders)
    await world.satisfy(world.ready(one, 1), *(world.ready(elders, n) for n in range(1, 101)))
    if hidden == "held":
        await world.hold_jobs(str(elders.ref))
    await world.launcher.run_once()
    await world.satisfy(world.ready(one, 2))
    await world.launcher.run_once()
    assert (await world.states())["one.1.2"] == "PENDING_CONSTRAINT"

    await end(world, "default.app.one.1.1.r1")

    assert await world.launcher.run_once() == 1
    assert (await world.states())["one.1.2"] == "PENDING_LAUNCH"


async def test_a_check_by_a_release_that_spares_no_job_is_heeded_when_a_run_ends(world: World) -> None:
    one = replace(ONE_AT_A_TIME, constraints=(Concurrency(1, wait=True), Delay(MINUTE)), overlap=Overlap.QUEUE)
    await world.define(one)
    await world.satisfy(world.ready(one, 1), world.ready(one, 2))
    await world.launcher.run_once()
    await world.jobs.command("default.app.one.1.1", JobCommand.FORCE, "ann", now=world.clock.now())
    await world.launcher.run_once()
    world.clock.advance(MINUTE)
    await world.pool.execute(
        "UPDATE jobs SET next_check_at = NULL, checked_at = $1 WHERE sequence = 2", world.clock.now()
    )

    await end(world, "default.app.one.1.1.r1")
    await world.launcher.run_once()

    assert (await world.states())["one.1.2"] == "PENDING_LAUNCH"
