"""Overlap: what a satisfaction means for the job that still waits and for the run that still runs."""

from __future__ import annotations

import pytest

from streamsched.domain.constraints.constraint import Concurrency
from streamsched.domain.constraints.group import Group
from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.overlap import Overlap
from streamsched.launcher.why import explain_job
from streamsched.ports.runs import RunEnd, StopRequest
from streamsched.store.runs.run_monitor import LostRun, SilentRun

from .conftest import World, schedule

pytestmark = pytest.mark.postgres

WAITS = (Concurrency(1, wait=True),)
LATEST = schedule("latest", constraints=WAITS, overlap=Overlap.LATEST)
SKIP = schedule("skip", overlap=Overlap.SKIP)
CANCEL = schedule("cancel", overlap=Overlap.CANCEL_RUNNING)
KILL = schedule("kill", overlap=Overlap.KILL_RUNNING, constraints=(Concurrency(1), Group("warehouse", 1, wait=False)))


def run_of(name: str, sequence: int) -> str:
    return f"default.app.{name}.1.{sequence}.r1"


async def begin(world: World, run: str) -> None:
    now = world.clock.now()
    assert await world.run_store.claim(run, runner="h:1:1", log_path="/log", now=now)
    await world.run_store.mark_started(run, runner="h:1:1", now=now)


async def beat(world: World, run: str) -> StopRequest | None:
    return await world.run_store.heartbeat(run, runner="h:1:1", now=world.clock.now())


async def test_a_satisfaction_is_skipped_while_the_run_before_is_active(world: World) -> None:
    await world.define(SKIP)
    await world.satisfy(world.ready(SKIP, 1), world.ready(SKIP, 2))
    await world.launcher.run_once()
    await begin(world, run_of("skip", 1))
    await world.satisfy(world.ready(SKIP, 3))
    await world.launcher.run_once()
    await world.run_store.finish(run_of("skip", 1), RunEnd(RunState.COMPLETED, "", world.clock.now(), 0))
    await world.satisfy(world.ready(SKIP, 4))
    await world.launcher.run_once()

    assert list((await world.states()).values()) == ["LAUNCHED", "ABORTED", "ABORTED", "PENDING_LAUNCH"]
    skipped = await world.jobs.get("default.app.skip.1.3")
    assert skipped.reason == f"skipped: the run before is active: {run_of('skip', 1)}"


@pytest.mark.parametrize(("policy", "at_once"), [(CANCEL, False), (KILL, True)])
async def test_a_newer_job_ends_the_run_before_and_starts_when_it_has_ended(
    world: World, policy: object, at_once: bool
) -> None:
    assert policy in (CANCEL, KILL)
    known = CANCEL if policy is CANCEL else KILL
    name = known.ref.name
    await world.define(known)
    await world.satisfy(world.ready(known, 1))
    await world.launcher.run_once()
    await begin(world, run_of(name, 1))
    assert await beat(world, run_of(name, 1)) is None

    await world.satisfy(world.ready(known, 2))
    await world.launcher.run_once()
    assert await beat(world, run_of(name, 1)) == StopRequest(f"job default.app.{name}.1.2 takes its place", at_once)
    answer = await explain_job(f"default.app.{name}.1.2", jobs=world.jobs, clock=world.clock)
    assert answer.summary == f"it waits: {run_of(name, 1)} must end first: overlap is {known.overlap}"
    assert [holder.run for holder in answer.clauses[-1].holders] == [run_of(name, 1)]

    await world.run_store.finish(run_of(name, 1), RunEnd(RunState.KILLED, "told", world.clock.now(), -9))
    await world.launcher.run_once()
    assert list((await world.states()).values()) == ["LAUNCHED", "PENDING_LAUNCH"]


async def test_a_run_that_is_not_executed_yet_ends_in_the_same_pass(world: World) -> None:
    await world.define(CANCEL)
    await world.satisfy(world.ready(CANCEL, 1))
    world.runners.free = 0
    await world.launcher.run_once()
    await world.satisfy(world.ready(CANCEL, 2))
    await world.launcher.run_once()
    assert (await world.runs.get(run_of("cancel", 1))).state == "KILLED"
    await world.launcher.run_once()

    assert list((await world.states()).values()) == ["LAUNCH_FAILED", "PENDING_LAUNCH"]


async def test_a_runner_that_comes_for_a_run_that_is_to_end_gets_nothing(world: World) -> None:
    await world.define(CANCEL)
    await world.satisfy(world.ready(CANCEL, 1))
    await world.launcher.run_once()
    await world.request_stop()

    assert await world.run_store.claim(run_of("cancel", 1), runner="h:1:1", log_path="", now=world.clock.now()) is None
    assert (await world.runs.get(run_of("cancel", 1))).reason == "ann"


async def test_a_run_that_is_to_end_and_is_lost_gets_no_further_attempt(world: World) -> None:
    await world.define(CANCEL)
    await world.satisfy(world.ready(CANCEL, 1))
    await world.launcher.run_once()
    run = run_of("cancel", 1)
    await begin(world, run)
    await world.satisfy(world.ready(CANCEL, 2))
    await world.launcher.run_once()

    lost = await world.run_store.mark_lost(
        SilentRun(run, 1, "h:1:1", world.clock.now()), "gone", now=world.clock.now(), attempts=3
    )

    assert lost == LostRun(run, None)
    await world.launcher.run_once()
    assert (await world.states())["cancel.1.2"] == "PENDING_LAUNCH"


async def test_runs_of_other_schedules_of_the_program_are_never_ended(world: World) -> None:
    other = schedule("other")
    await world.define(other, CANCEL)
    await world.satisfy(world.ready(other, 1))
    await world.launcher.run_once()
    await begin(world, run_of("other", 1))
    await world.satisfy(world.ready(CANCEL, 1))
    await world.launcher.run_once()

    assert await beat(world, run_of("other", 1)) is None
    assert (await world.states())["cancel.1.1"] == "PENDING_LAUNCH"
