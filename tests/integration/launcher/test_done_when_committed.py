"""A run that dies after its outputs were committed: its job is done, if the program's owner said so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamsched.domain.jobs.failure import Failure
from streamsched.domain.jobs.run import RunState
from streamsched.domain.jobs.run_commit import RunCommit
from streamsched.domain.names import DatasetRef
from streamsched.domain.programs.output import ProgramOutput
from streamsched.domain.schedules.process_job import BashJob
from streamsched.domain.schedules.retry import Retry
from streamsched.domain.schedules.schedule import Program
from streamsched.ports.runs import RunEnd, StopRequest
from streamsched.store.runs.run_commits import RunCommitStore
from streamsched.store.runs.run_monitor import LostRun, SilentRun

from .conftest import MINUTE, PROGRAM, World, schedule

pytestmark = pytest.mark.postgres

WRITES = schedule("writes", retry=Retry(3, frozenset({Failure.ERROR, Failure.CRASH, Failure.LOST}), delay=MINUTE))
JOB = "default.app.writes.1.1"
DAILY, HOURLY = DatasetRef("default", "daily"), DatasetRef("default", "hourly")
DECLARES = Program(
    PROGRAM, BashJob("true"), {}, (ProgramOutput(DAILY), ProgramOutput(HOURLY)), done_when_committed=True
)


async def claimed(world: World, program: Program = DECLARES) -> str:
    """The first run of the job, in the hands of its runner."""
    await world.define(WRITES)
    await world.put_program(program)
    await world.satisfy(world.ready(WRITES, 1))
    await world.launcher.run_once()
    assert await world.run_store.claim(f"{JOB}.r1", runner="h:1:1", log_path="/log", now=world.clock.now())
    return f"{JOB}.r1"


async def commit(world: World, run: str, *datasets: DatasetRef) -> None:
    await RunCommitStore(world.pool).add(
        [
            RunCommit(run=run, commit="c", dataset=each, at=world.clock.now(), partitions=1, rows=1, bytes=1)
            for each in datasets
        ]
    )


async def die(world: World, run: str, state: RunState = RunState.FAILED) -> None:
    now = world.clock.now()
    await world.run_store.finish(run, RunEnd(state, "killed by signal 9", now, -9))


async def test_a_run_that_fails_after_all_its_commits_has_completed(world: World) -> None:
    run = await claimed(world)
    await commit(world, run, DAILY, HOURLY)

    await die(world, run)

    assert (await world.jobs.get(JOB)).runs == (run,)
    ended = await world.runs.get(run)
    assert ended.state is RunState.COMPLETED
    assert ended.reason.startswith("its outputs are committed")
    assert ended.reason.endswith("killed by signal 9")


async def test_a_run_that_is_lost_after_all_its_commits_has_completed(world: World) -> None:
    run = await claimed(world)
    await commit(world, run, DAILY, HOURLY)
    now = world.clock.now()

    lost = await world.run_store.mark_lost(SilentRun(run, 1, "h:1:1", now), "gone", now=now, attempts=3)

    assert lost == LostRun(run, None, "its outputs are committed, which is enough (done_when_committed)")
    assert (await world.runs.get(run)).state is RunState.COMPLETED


async def test_commits_of_earlier_attempts_count(world: World) -> None:
    run = await claimed(world)
    await commit(world, run, DAILY)
    await die(world, run)
    world.clock.advance(10 * MINUTE)
    await world.launcher.run_once()
    again = f"{JOB}.r2"
    assert await world.run_store.claim(again, runner="h:2:2", log_path="/log", now=world.clock.now())
    await commit(world, again, HOURLY)

    await die(world, again)

    assert (await world.runs.get(again)).state is RunState.COMPLETED


@pytest.mark.parametrize(
    ("program", "committed"),
    [
        (DECLARES, (DAILY,)),
        (replace(DECLARES, done_when_committed=False), (DAILY, HOURLY)),
        (Program(PROGRAM, BashJob("true")), (DAILY, HOURLY)),
    ],
)
async def test_otherwise_it_is_repeated(world: World, program: Program, committed: tuple[DatasetRef, ...]) -> None:
    run = await claimed(world, program)
    await commit(world, run, *committed)

    await die(world, run)

    assert (await world.runs.get(run)).state is RunState.FAILED
    assert (await world.jobs.get(JOB)).runs == (run, f"{JOB}.r2")


async def test_a_run_that_a_person_killed_is_killed(world: World) -> None:
    run = await claimed(world)
    await commit(world, run, DAILY, HOURLY)
    await world.runs.stop(run, StopRequest("ann"), now=world.clock.now())

    await die(world, run, RunState.KILLED)

    assert (await world.runs.get(run)).state is RunState.KILLED
