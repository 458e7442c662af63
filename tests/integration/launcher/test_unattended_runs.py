"""Runs whose drivers are in a cluster and whose runner is gone, with a clock that is set and no cluster."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from streamsched.domain.errors import ConflictError
from streamsched.domain.jobs.run import RunState
from streamsched.domain.programs.driver import Driver
from streamsched.domain.programs.spark_deployment import DeployMode
from streamsched.domain.schedules.process_job import SparkJob
from streamsched.ports.runner import NO_RUNNER, RunnerId
from streamsched.ports.runs import Assignment, RunEnd

from .conftest import World, schedule

pytestmark = pytest.mark.postgres

PLAIN = schedule("plain")
RUN = "default.app.plain.1.1.r1"
HERE, NEXT = RunnerId("here", 7, 100), RunnerId("there", 8, 200)
DRIVER = Driver("driver-1", "spark://m:7077", "http://w:8081/log")
SILENT = timedelta(seconds=16)


async def begun(world: World, mode: DeployMode = DeployMode.CLUSTER) -> Assignment:
    """The run is executed by a runner that has ended since."""
    await world.define(PLAIN)
    await world.execute(SparkJob("j.py", master="spark://m:7077", deploy_mode=mode))
    await world.satisfy(world.ready(PLAIN, 1))
    await world.launcher.run_once()
    now = world.clock.now()
    assignment = await world.run_store.claim(RUN, runner=str(HERE), log_path="/log", now=now)
    assert assignment is not None
    await world.run_store.mark_started(RUN, runner=str(HERE), now=now)
    world.runners.spawned.clear()
    world.runners.living[HERE] = False
    return assignment


async def test_another_runner_goes_on_with_the_same_run(world: World) -> None:
    first = await begun(world)
    now = world.clock.now()
    await world.run_store.store_driver(RUN, runner=str(HERE), driver=DRIVER, now=now)
    assert (first.taken_over, first.driver) == (False, None)
    assert (await world.runs.get(RUN)).driver == DRIVER
    assert await world.run_store.claim(RUN, runner=str(NEXT), log_path="/b", now=now) is None

    world.clock.advance(SILENT)
    assert await world.run_monitor.check_runs() == []
    assert world.runners.spawned == [RUN]
    now = world.clock.now()
    second = await world.run_store.claim(RUN, runner=str(NEXT), log_path="/b", now=now)

    assert second == replace(first, taken_over=True, driver=DRIVER)
    assert await world.run_store.claim(RUN, runner=str(NEXT), log_path="/b", now=now) == second
    assert await world.run_store.claim(RUN, runner="h:9:9", log_path="/c", now=now) is None
    with pytest.raises(ConflictError):
        await world.run_store.heartbeat(RUN, runner=str(HERE), now=now)
    with pytest.raises(ConflictError):
        await world.run_store.store_driver(RUN, runner=str(HERE), driver=Driver("driver-2", "spark://m:7077"), now=now)
    await world.run_store.mark_started(RUN, runner=str(NEXT), now=now)
    assert await world.run_store.finish(RUN, RunEnd(RunState.COMPLETED, "", now, 0))
    assert await world.run_states() == ["COMPLETED"]
    actions = await world.actions(RUN)
    assert actions[-4:] == ["run.submitted", "run.unattended", "run.taken_over", "run.completed"]


async def test_a_run_that_none_takes_over_gets_runner_after_runner(world: World) -> None:
    await begun(world)
    for number in (1, 2, 3):
        world.clock.advance(SILENT)
        await world.run_monitor.check_runs()
        await world.run_monitor.check_runs()  # at once: nothing more
        assert world.runners.spawned == [RUN] * number
    assert (await world.run(RUN)).runner == str(NO_RUNNER)

    world.runners.free = 0
    world.clock.advance(SILENT)
    await world.run_monitor.check_runs()
    assert world.runners.spawned == [RUN] * 3


async def test_an_end_on_disk_is_stored_and_nothing_taken_over(world: World) -> None:
    await begun(world)
    world.runners.endings[RUN] = RunEnd(RunState.COMPLETED, "done", world.clock.now(), 0)
    world.clock.advance(SILENT)

    assert await world.run_monitor.check_runs() == [RUN]

    assert world.runners.spawned == []
    assert (await world.runs.get(RUN)).state == "COMPLETED"


@pytest.mark.parametrize("mode", [DeployMode.CLIENT, DeployMode.CONNECT])
async def test_a_run_beside_its_runner_is_lost_as_before(world: World, mode: DeployMode) -> None:
    await begun(world, mode)
    world.clock.advance(SILENT)

    assert await world.run_monitor.check_runs() == [RUN]

    assert (await world.runs.get(RUN)).state == "LOST"
