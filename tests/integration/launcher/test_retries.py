"""Failed runs are repeated as their schedule wants it, and launches keep to their pace."""

from __future__ import annotations

from datetime import timedelta

import pytest

from streamsched.domain.constraints.constraint import Concurrency
from streamsched.domain.constraints.group import Group
from streamsched.domain.constraints.pace import Pace
from streamsched.domain.jobs.failure import Failure
from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.retry import Retry
from streamsched.launcher.loop import Launcher
from streamsched.launcher.run_monitor import RunMonitor, RunTimeouts
from streamsched.ports.runs import RunEnd, StopRequest
from streamsched.store.runs.run_monitor import LostRun, SilentRun

from .conftest import MINUTE, World, schedule

pytestmark = pytest.mark.postgres

POLICY = Retry(3, frozenset({Failure.ERROR, Failure.LOST}), delay=MINUTE)
AGAIN = schedule("again", retry=POLICY, constraints=(Group("w", 1), Concurrency(1, wait=True)), overlap=Overlap.QUEUE)
JOB = "default.app.again.1.1"


async def fail(world: World, run: str, code: int = 1, state: RunState = RunState.FAILED) -> None:
    now = world.clock.now()
    assert await world.run_store.claim(run, runner="h:1:1", log_path="/log", now=now)
    assert await world.run_store.finish(run, RunEnd(state, f"exit code {code}", now, code))


@pytest.fixture
async def begun(world: World) -> World:
    await world.define(AGAIN)
    await world.satisfy(world.ready(AGAIN, 1), world.ready(AGAIN, 2))
    await world.launcher.run_once()
    return world


async def announced(world: World) -> int:
    return len(await world.published("program-status"))


async def test_a_failed_run_is_repeated_after_a_growing_pause_and_only_its_last_end_is_announced(begun: World) -> None:
    for attempt in (1, 2, 3):
        run = f"{JOB}.r{attempt}"
        assert begun.runners.spawned[-1] == run
        before = await announced(begun)
        await fail(begun, run)
        if attempt == 3:
            assert await announced(begun) == before + 2  # started, and at last failed
            break
        assert await announced(begun) == before + 1
        assert await begun.holders() == [f"{JOB}.r{attempt + 1}"]
        pause = POLICY.pause(run, attempt)
        assert await begun.run_monitor.next_due_at() == begun.clock.now() + pause
        await begun.launcher.run_once()
        assert begun.runners.spawned[-1] == run, "not before its pause is over"
        begun.clock.advance(pause)
        await begun.launcher.run_once()

    history = await begun.reasons(action="run.created")
    assert history[1] == f"attempt 2 of 3, for run {JOB}.r1 failed (error): exit code 1"
    await begun.launcher.run_once()
    assert begun.runners.spawned[-1] == "default.app.again.1.2.r1", "the last end frees what it held"


async def test_an_end_of_another_class_is_not_repeated(begun: World) -> None:
    await fail(begun, f"{JOB}.r1", -9)

    assert (await begun.jobs.get(JOB)).runs == (f"{JOB}.r1",)


async def test_a_run_that_a_user_wants_to_end_and_a_changed_schedule_get_no_further_attempt(begun: World) -> None:
    now = begun.clock.now()
    assert await begun.run_store.claim(f"{JOB}.r1", runner="h:1:1", log_path="", now=now)
    await begun.runs.stop(f"{JOB}.r1", StopRequest("ann"), now=now)
    await begun.run_store.finish(f"{JOB}.r1", RunEnd(RunState.FAILED, "", now, 1))
    assert (await begun.jobs.get(JOB)).runs == (f"{JOB}.r1",)

    await begun.launcher.run_once()
    second = "default.app.again.1.2.r1"
    assert await begun.run_store.claim(second, runner="h:1:1", log_path="", now=now)
    await begun.change_generation()
    await begun.run_store.finish(second, RunEnd(RunState.FAILED, "", now, 1))
    assert (await begun.jobs.get("default.app.again.1.2")).runs == (second,)


async def test_a_lost_run_follows_the_policy_of_its_schedule(begun: World) -> None:
    now = begun.clock.now()
    assert await begun.run_store.claim(f"{JOB}.r1", runner="h:1:1", log_path="", now=now)

    lost = await begun.run_store.mark_lost(SilentRun(f"{JOB}.r1", 1, "h:1:1", now), "gone", now=now, attempts=1)

    assert lost == LostRun(f"{JOB}.r1", f"{JOB}.r2")
    assert await begun.run_monitor.next_due_at() == now + POLICY.pause(f"{JOB}.r1", 1)


async def test_a_burst_of_ready_jobs_is_started_at_the_pace_of_all_launchers_together(world: World) -> None:
    many = schedule("many", overlap=Overlap.QUEUE)
    await world.define(many)
    await world.satisfy(*(world.ready(many, n) for n in range(1, 41)))
    paced = RunTimeouts(pace=Pace(2, 5), jitter=0)
    launchers = [
        Launcher(
            world.decisions, RunMonitor(world.run_store, world.runners, world.clock, paced), world.notifier, world.clock
        )
        for _ in range(2)
    ]
    for launcher in launchers:
        await launcher.run_once()
    assert len(world.runners.spawned) == 5

    world.clock.advance(timedelta(seconds=2))
    for launcher in launchers:
        await launcher.run_once()
    assert len(world.runners.spawned) == 5 + 4
    assert await RunMonitor(world.run_store, world.runners, world.clock, paced).next_due_at() is not None


async def test_a_run_that_takes_too_long_is_asked_to_end_and_repeated_as_a_timeout(world: World) -> None:
    policy = Retry(2, frozenset({Failure.TIMEOUT}), delay=MINUTE)
    slow = schedule("slow", max_duration=10 * MINUTE, retry=policy)
    await world.define(slow)
    await world.satisfy(world.ready(slow, 1))
    await world.launcher.run_once()
    for run, runs in (("default.app.slow.1.1.r1", 2), ("default.app.slow.1.1.r2", 2)):
        assert await world.run_store.claim(run, runner="h:1:1", log_path="", now=world.clock.now())
        world.clock.advance(9 * MINUTE)
        assert await world.run_store.heartbeat(run, runner="h:1:1", now=world.clock.now()) is None
        await world.run_monitor.check_runs()
        assert await world.run_store.heartbeat(run, runner="h:1:1", now=world.clock.now()) is None

        world.clock.advance(MINUTE)
        await world.run_store.heartbeat(run, runner="h:1:1", now=world.clock.now())
        await world.run_monitor.check_runs()
        stop = await world.run_store.heartbeat(run, runner="h:1:1", now=world.clock.now())
        assert stop is not None
        assert stop == StopRequest("it runs longer than it may")
        await world.run_store.finish(run, RunEnd(RunState.KILLED, stop.why, world.clock.now(), -15))
        assert len((await world.jobs.get("default.app.slow.1.1")).runs) == runs


async def test_a_timeout_is_not_repeated_unless_configured_and_an_end_in_time_is_none(world: World) -> None:
    slow = schedule("slow", max_duration=10 * MINUTE, retry=Retry(3, frozenset({Failure.ERROR}), delay=MINUTE))
    await world.define(slow)
    await world.satisfy(world.ready(slow, 1), world.ready(slow, 2))
    await world.launcher.run_once()
    now = world.clock.now()
    for n, (state, code) in enumerate([(RunState.KILLED, -15), (RunState.COMPLETED, 0)], start=1):
        run = f"default.app.slow.1.{n}.r1"
        assert await world.run_store.claim(run, runner="h:1:1", log_path="", now=now)
        await world.run_store.stop_overdue(now + 10 * MINUTE)
        await world.run_store.finish(run, RunEnd(state, "", now + 11 * MINUTE, code))

        assert (await world.jobs.get(f"default.app.slow.1.{n}")).runs == (run,)


async def test_a_run_that_a_user_killed_is_no_timeout_however_late(world: World) -> None:
    slow = schedule("slow", max_duration=10 * MINUTE, retry=Retry(3, delay=MINUTE))
    await world.define(slow)
    await world.satisfy(world.ready(slow, 1))
    await world.launcher.run_once()
    run, now = "default.app.slow.1.1.r1", world.clock.now()
    assert await world.run_store.claim(run, runner="h:1:1", log_path="", now=now)
    await world.runs.stop(run, StopRequest("ann"), now=now)
    await world.run_store.stop_overdue(now + 10 * MINUTE)
    await world.run_store.finish(run, RunEnd(RunState.KILLED, "ann", now + 11 * MINUTE, -15))

    assert (await world.jobs.get("default.app.slow.1.1")).runs == (run,)
