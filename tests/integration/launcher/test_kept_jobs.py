"""What a change that keeps means for jobs that are satisfied already (ADR 12)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from streamsched.catalog import change
from streamsched.domain.constraints.constraint import Concurrency, Delay
from streamsched.domain.jobs.failure import Failure
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.pause import Pause
from streamsched.domain.schedules.retry import Retry
from streamsched.domain.schedules.schedule import BashJob, Program, Schedule
from streamsched.launcher.why import explain_job
from streamsched.ports.runs import RunEnd
from streamsched.store.catalog.catalog import CatalogStore
from streamsched.store.catalog.records import AppChange, AppRecord

from .conftest import MINUTE, World, schedule

LATER = schedule("s", constraints=(Delay(timedelta(hours=1)),))
NOW = schedule("s")
KEEPING = Pause()


async def decided(world: World, decide: Callable[[AppRecord], AppChange]) -> None:
    now = world.clock.now()
    await CatalogStore(world.pool).change(NOW.ref.owner, [NOW.ref], decide, now=now)


async def updated(world: World, definition: Schedule, *, keep: bool) -> None:
    await decided(world, lambda app: change.update(app, definition, keep=keep, now=world.clock.now()))


async def paused(world: World, pause: Pause) -> None:
    await decided(world, lambda app: change.pause(app, NOW.ref, pause, now=world.clock.now()))


async def resumed(world: World) -> None:
    await decided(world, lambda app: change.enable(app, NOW.ref, now=world.clock.now()))


async def claimed(world: World, run: str) -> bool:
    return await world.run_store.claim(run, runner="h:1:1", log_path="log", now=world.clock.now()) is not None


async def waiting(world: World) -> None:
    """One job of generation 1 that waits."""
    await world.define(LATER)
    await world.satisfy(world.ready(LATER, 1))
    await world.launcher.run_once()
    assert await world.states() == {"s.1.1": "PENDING_CONSTRAINT"}


async def test_a_waiting_job_goes_on_by_the_new_definition(world: World) -> None:
    await waiting(world)

    await updated(world, NOW, keep=True)
    await world.launcher.run_once()

    assert await world.states() == {"s.1.1": "PENDING_LAUNCH"}
    assert await claimed(world, "default.app.s.1.1.r1")
    assert await world.states() == {"s.1.1": "LAUNCHED"}


async def test_without_keeping_it_ends(world: World) -> None:
    await waiting(world)

    await updated(world, NOW, keep=False)

    assert await world.states() == {"s.1.1": "OBSOLETE"}


async def test_of_changes_that_kept_the_last_one_that_did_not_counts(world: World) -> None:
    await waiting(world)
    await updated(world, replace(LATER, description="a"), keep=True)
    await updated(world, replace(LATER, description="b"), keep=True)
    assert await world.states() == {"s.1.1": "PENDING_CONSTRAINT"}

    await updated(world, replace(LATER, description="c"), keep=False)
    await updated(world, replace(LATER, description="d"), keep=True)
    await world.satisfy(world.ready(LATER, 2), world.ready(LATER, 1, generation=3), world.ready(LATER, 1, generation=4))

    assert await world.states() == {
        "s.1.1": "OBSOLETE",
        "s.1.2": "OBSOLETE",
        "s.3.1": "OBSOLETE",
        "s.4.1": "PENDING_CONSTRAINT",
    }


async def test_a_job_that_was_still_in_the_log_goes_on_as_one_that_waited(world: World) -> None:
    await world.define(NOW)
    await world.emit([world.ready(NOW, 1)])

    await updated(world, replace(NOW, description="kept"), keep=True)
    await world.satisfy()
    await world.launcher.run_once()

    assert await world.states() == {"s.1.1": "PENDING_LAUNCH"}


async def test_the_next_satisfaction_joins_the_job_that_was_kept(world: World) -> None:
    await waiting(world)
    await updated(world, replace(LATER, description="kept"), keep=True)

    await world.satisfy(world.ready(LATER, 1, generation=2))
    await world.launcher.run_once()

    assert await world.states() == {"s.1.1": "PENDING_CONSTRAINT", "s.2.1": "COALESCED"}
    assert [job.joined for job in await world.stored_jobs() if job.joined] == ["default.app.s.1.1"]


async def test_the_newest_takes_the_place_of_the_job_that_was_kept(world: World) -> None:
    await waiting(world)
    await updated(world, replace(LATER, overlap=Overlap.LATEST), keep=True)

    await world.satisfy(world.ready(LATER, 1, generation=2))
    await world.launcher.run_once()

    states = await world.states()
    assert states["s.2.1"] == "PENDING_CONSTRAINT"
    assert states["s.1.1"] not in {"PENDING_CONSTRAINT", "PENDING_LAUNCH"}


async def test_a_kept_job_starts_the_program_of_the_new_definition_but_a_ready_one_of_the_old_ends(
    world: World,
) -> None:
    other = Program(ProgramRef("default", "app", "other"), BashJob("true"))
    one_at_a_time = schedule("s", constraints=(Concurrency(1, wait=True),), overlap=Overlap.QUEUE)
    await world.define(one_at_a_time)
    await world.satisfy(world.ready(NOW, 1), world.ready(NOW, 2))
    await world.launcher.run_once()
    assert await world.states() == {"s.1.1": "PENDING_LAUNCH", "s.1.2": "PENDING_CONSTRAINT"}
    await world.put_program(other)

    await updated(world, replace(one_at_a_time, program=other.ref), keep=True)
    await world.launcher.run_once()

    assert await world.states() == {"s.1.1": "OBSOLETE", "s.1.2": "PENDING_LAUNCH"}
    assert not await claimed(world, "default.app.s.1.1.r1")
    assert await claimed(world, "default.app.s.1.2.r1")
    assert {run.id: run.program for run in await world.stored_runs()} == {
        "default.app.s.1.1.r1": "default.app.load",
        "default.app.s.1.2.r1": "default.app.other",
    }


async def test_while_a_schedule_is_paused_its_waiting_jobs_wait_and_say_why(world: World) -> None:
    await waiting(world)
    await paused(world, KEEPING)

    world.clock.advance(timedelta(hours=2))
    await world.launcher.run_once()

    assert await world.states() == {"s.1.1": "PENDING_CONSTRAINT"}
    assert "resumed" in (await explain_job("default.app.s.1.1", jobs=world.jobs, clock=world.clock)).summary
    await resumed(world)
    await world.launcher.run_once()
    assert await world.states() == {"s.1.1": "PENDING_LAUNCH"}


async def test_a_run_that_was_not_claimed_before_the_pause_is_held_back_until_its_end(world: World) -> None:
    await world.define(NOW)
    await world.satisfy(world.ready(NOW, 1))
    await world.launcher.run_once()
    await paused(world, KEEPING)

    assert not await claimed(world, "default.app.s.1.1.r1")
    world.runners.spawned.clear()
    for _ in range(20):  # it is not given up meanwhile
        world.clock.advance(10 * MINUTE)
        await world.launcher.run_once()
    assert world.runners.spawned == []
    assert await world.states() == {"s.1.1": "PENDING_LAUNCH"}

    await resumed(world)
    await world.launcher.run_once()
    assert world.runners.spawned == ["default.app.s.1.1.r1"]
    assert await claimed(world, "default.app.s.1.1.r1")
    assert await world.states() == {"s.1.1": "LAUNCHED"}


@pytest.mark.parametrize("free", [0, 1])
async def test_nothing_is_due_while_a_run_is_held_back(world: World, free: int) -> None:
    await world.define(NOW)
    await world.satisfy(world.ready(NOW, 1))
    await world.launcher.run_once()
    await paused(world, KEEPING)
    assert not await claimed(world, "default.app.s.1.1.r1")
    world.runners.free = free

    assert await world.run_monitor.next_due_at() is None


async def test_disabling_a_paused_schedule_ends_what_it_held_back(world: World) -> None:
    await world.define(NOW)
    await world.satisfy(world.ready(NOW, 1))
    await world.launcher.run_once()
    await paused(world, KEEPING)
    assert not await claimed(world, "default.app.s.1.1.r1")

    await decided(world, lambda app: change.disable(app, NOW.ref, now=world.clock.now()))
    await world.launcher.run_once()
    assert world.runners.spawned[-1] == "default.app.s.1.1.r1"
    assert not await claimed(world, "default.app.s.1.1.r1")

    assert await world.states() == {"s.1.1": "OBSOLETE"}
    assert await world.run_states() == ["KILLED"]


@pytest.mark.parametrize("again", [False, True], ids=["a-first-attempt", "a-second-attempt"])
async def test_a_change_that_keeps_nothing_ends_what_a_pause_held_back(world: World, again: bool) -> None:
    plain = replace(NOW, retry=Retry(2, frozenset({Failure.ERROR}), delay=timedelta(0)))
    await world.define(plain)
    await world.satisfy(world.ready(plain, 1))
    await world.launcher.run_once()
    if again:
        assert await claimed(world, "default.app.s.1.1.r1")
        await world.run_store.finish(
            "default.app.s.1.1.r1", RunEnd(RunState.FAILED, "exit code 1", world.clock.now(), 1)
        )
    [run] = await world.pending()
    await paused(world, KEEPING)
    assert not await claimed(world, run)
    world.runners.spawned.clear()

    await updated(world, replace(plain, description="other"), keep=False)
    await world.launcher.run_once()

    assert world.runners.spawned == [run]
    assert not await claimed(world, run)
    assert (await world.run(run)).state == RunState.KILLED
    assert await world.states() == {"s.1.1": "LAUNCHED" if again else "OBSOLETE"}


async def test_a_change_that_keeps_lets_go_of_those_alone_it_ends(world: World) -> None:
    other = Program(ProgramRef("default", "app", "other"), BashJob("true"))
    plain = replace(NOW, overlap=Overlap.QUEUE, retry=Retry(2, frozenset({Failure.ERROR}), delay=timedelta(0)))
    await world.define(plain)
    await world.satisfy(world.ready(plain, 1), world.ready(plain, 2))
    await world.launcher.run_once()
    assert await claimed(world, "default.app.s.1.1.r1")
    await world.run_store.finish("default.app.s.1.1.r1", RunEnd(RunState.FAILED, "exit code 1", world.clock.now(), 1))
    await world.put_program(other)
    await paused(world, KEEPING)
    for run in ("default.app.s.1.1.r2", "default.app.s.1.2.r1"):
        assert not await claimed(world, run)
    world.runners.spawned.clear()

    await updated(world, replace(plain, program=other.ref), keep=True)
    await world.launcher.run_once()

    assert world.runners.spawned == ["default.app.s.1.2.r1"], "the other is an attempt of a job that goes on"
    assert not await claimed(world, "default.app.s.1.2.r1")
    assert await world.states() == {"s.1.1": "LAUNCHED", "s.1.2": "OBSOLETE"}
    assert {run.id: run.state for run in await world.active()} == {"default.app.s.1.1.r2": "PENDING"}


async def test_a_claim_that_waits_for_a_change_sees_the_job_that_the_change_ended(world: World) -> None:
    other = Program(ProgramRef("default", "app", "other"), BashJob("true"))
    plain = replace(NOW, overlap=Overlap.QUEUE)
    await world.define(plain)
    await world.satisfy(world.ready(plain, 1), world.ready(plain, 2))
    await world.launcher.run_once()
    await world.put_program(other)

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks, world.locked("jobs", "default.app.s.1.2"):
        tasks.create_task(updated(world, replace(plain, program=other.ref), keep=True))
        await world.blocked(1)  # for that job, with the schedule
        claim = tasks.create_task(claimed(world, "default.app.s.1.1.r1"))
        await world.blocked(2)  # for the schedule, with what it knows of the job

    assert not claim.result()
    assert await world.states() == {"s.1.1": "OBSOLETE", "s.1.2": "OBSOLETE"}
    assert (await world.run("default.app.s.1.1.r1")).state == RunState.KILLED
