"""The launcher's loop: constraints, overlap, timeouts and supersession, judged under the program's lock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from streamsched.domain.constraints.constraint import Concurrency, Delay, LastRun
from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.domain.events.event import Event, Ticked
from streamsched.domain.jobs.job import Contribution, JobState, ReadyJob
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import OnTimeout
from streamsched.launcher.loop import Launcher
from streamsched.launcher.start import start
from streamsched.ports.runs import RunEnd

from .conftest import MINUTE, PROGRAM, World, schedule

pytestmark = pytest.mark.postgres

PLAIN = schedule("plain", properties={"b": "schedule", "trigger.job": "mine"})
ONE_AT_A_TIME = schedule("one", constraints=(Concurrency(1, wait=True),))


async def end(world: World, run: str, state: RunState = RunState.COMPLETED) -> None:
    """A runner claims the run, executes it and ends."""
    now = world.clock.now()
    assert await world.run_store.claim(run, runner=f"host:1:{run}", log_path="/log", now=now)
    await world.run_store.mark_started(run, runner=f"host:1:{run}", now=now)
    assert await world.run_store.finish(run, RunEnd(state, "", now, 0))


async def test_a_job_without_constraints_gets_its_run_and_its_runner_in_one_pass(world: World) -> None:
    await world.define(PLAIN)
    await world.satisfy(world.ready(PLAIN, 1))

    await world.launcher.run_once()

    job = await world.jobs.get("default.app.plain.1.1")
    assert (job.state, job.runs) == ("PENDING_LAUNCH", ("default.app.plain.1.1.r1",))
    run = await world.runs.get(job.runs[0])
    assert run.state == "PENDING"
    assert (run.arguments["a"], run.arguments["b"]) == ("program", "schedule")
    assert world.runners.spawned == [run.id]


async def test_one_claim_of_a_run_wins_and_launches_its_job(world: World) -> None:
    await world.define(PLAIN)
    await world.satisfy(world.ready(PLAIN, 1))
    await world.launcher.run_once()

    claims = await asyncio.gather(
        *(
            world.run_store.claim("default.app.plain.1.1.r1", runner=f"h:{n}:0", log_path="", now=world.clock.now())
            for n in range(5)
        )
    )

    [won] = [claim for claim in claims if claim is not None]
    assert won.ready is not None
    assert won.ready.id == "default.app.plain.1.1"
    assert (await world.jobs.get("default.app.plain.1.1")).state == "LAUNCHED"


async def test_a_waiting_job_is_woken_by_the_end_of_the_run_it_waits_for(world: World) -> None:
    await world.define(ONE_AT_A_TIME)
    await world.satisfy(world.ready(ONE_AT_A_TIME, 1), world.ready(ONE_AT_A_TIME, 2))
    await world.launcher.run_once()
    waiting = await world.jobs.get("default.app.one.1.2")
    assert (waiting.state, waiting.next_check_at) == ("PENDING_CONSTRAINT", None)
    assert waiting.waiting[0]["what"] == ["default.app.one.1.1.r1"]

    await end(world, "default.app.one.1.1.r1")
    await world.launcher.run_once()

    assert await world.states() == {"one.1.1": "LAUNCHED", "one.1.2": "PENDING_LAUNCH"}


async def test_a_satisfaction_joins_the_job_of_its_schedule_that_waits(world: World) -> None:
    await world.define(ONE_AT_A_TIME)
    await world.satisfy(*(world.ready(ONE_AT_A_TIME, n, events=n) for n in (1, 2, 3)))
    await world.launcher.run_once()
    await world.satisfy(world.ready(ONE_AT_A_TIME, 4, events=4))
    await world.launcher.run_once()

    assert await world.states() == {
        "one.1.1": "PENDING_LAUNCH",
        "one.1.2": "PENDING_CONSTRAINT",
        "one.1.3": "COALESCED",
        "one.1.4": "COALESCED",
    }
    assert (await world.jobs.get("default.app.one.1.3")).joined == "default.app.one.1.2"

    await end(world, "default.app.one.1.1.r1")
    await world.launcher.run_once()
    run = "default.app.one.1.2.r1"
    claimed = await world.run_store.claim(run, runner="h:1:0", log_path="", now=world.clock.now())

    assert claimed is not None
    assert claimed.ready is not None
    [contribution] = claimed.ready.contributions
    assert contribution.count == 2 + 3 + 4
    assert [event.id for event in contribution.events][:3] == ["2-0", "2-1", "3-0"]


async def test_who_joined_a_job_is_read_when_it_goes_and_not_at_every_check_of_it(world: World) -> None:
    await world.define(ONE_AT_A_TIME)
    await world.satisfy(*(world.ready(ONE_AT_A_TIME, n) for n in (1, 2, 3)))
    await world.launcher.run_once()
    for job in [job for job in await world.stored_jobs() if job.state == JobState.COALESCED]:
        await world.put_text("jobs", {}, job.id)

    await world.decisions.recheck("default.app.one.1.2")
    assert await world.launcher.run_once() == 1
    waiting = await world.jobs.get("default.app.one.1.2")
    assert waiting.reason == "1 of 1 runs of default.app.load are active: default.app.one.1.1.r1"

    await end(world, "default.app.one.1.1.r1")
    await world.launcher.run_once()
    assert (await world.jobs.get("default.app.one.1.2")).reason.startswith("it cannot be decided: $.v: is missing")


async def test_more_than_a_portion_that_joined_goes_with_the_job_whole_and_in_order(world: World) -> None:
    await world.define(ONE_AT_A_TIME)
    await world.satisfy(*(ticked(world, n) for n in range(1, 1204)))
    while await world.launcher.run_once():
        pass
    answer = await world.jobs.snapshot("default.app.one.1.2")
    assert [part.count for part in answer.ready.contributions] == [1202]

    await end(world, "default.app.one.1.1.r1")
    await world.launcher.run_once()
    now = world.clock.now()
    claimed = await world.run_store.claim("default.app.one.1.2.r1", runner="h:1:0", log_path="", now=now)

    assert claimed is not None
    assert claimed.ready is not None
    [part] = claimed.ready.contributions
    assert [event.id for event in part.events] == [str(n) for n in range(2, 1204)]
    assert claimed.arguments["trigger.logical_start_time"] == (now + 1203 * MINUTE).isoformat()


def ticked(world: World, n: int) -> ReadyJob:
    due = world.clock.now() + n * MINUTE
    event = Event(str(n), "test", due, Ticked(ONE_AT_A_TIME.ref, 1, "leaf", due))
    return replace(world.ready(ONE_AT_A_TIME, n), contributions=(Contribution("leaf", 1, (event,)),))


async def test_a_delayed_job_starts_at_its_time_and_never_before(world: World) -> None:
    delayed = schedule("delayed", constraints=(Delay(5 * MINUTE),))
    await world.define(delayed)
    await world.satisfy(world.ready(delayed, 1))
    await world.launcher.run_once()
    assert await world.decisions.next_due_at() == world.clock.now() + 5 * MINUTE

    world.clock.advance(5 * MINUTE - timedelta(microseconds=1))
    await world.launcher.run_once()
    assert await world.states() == {"delayed.1.1": "PENDING_CONSTRAINT"}

    world.clock.advance(timedelta(microseconds=1))
    await world.launcher.run_once()
    assert await world.states() == {"delayed.1.1": "PENDING_LAUNCH"}


async def test_the_end_of_a_run_turns_a_wait_for_it_into_a_wait_until(world: World) -> None:
    spaced = schedule("spaced", constraints=(LastRun(10 * MINUTE, wait=True),))
    await world.define(spaced)
    await world.satisfy(world.ready(spaced, 1), world.ready(spaced, 2))
    await world.launcher.run_once()
    await end(world, "default.app.spaced.1.1.r1")
    await world.launcher.run_once()

    assert (await world.jobs.get("default.app.spaced.1.2")).next_check_at == world.clock.now() + 10 * MINUTE


async def test_a_job_waits_no_longer_than_its_timeout(world: World) -> None:
    limited = schedule("limited", constraints=(Concurrency(1, wait=True),), timeout=MINUTE, on_timeout=OnTimeout.LAUNCH)
    await world.define(limited)
    await world.satisfy(world.ready(limited, 1), world.ready(limited, 2))
    await world.launcher.run_once()
    assert (await world.jobs.get("default.app.limited.1.2")).next_check_at == world.clock.now() + MINUTE

    world.clock.advance(MINUTE)
    await world.launcher.run_once()

    assert (await world.jobs.get("default.app.limited.1.2")).state == "PENDING_LAUNCH"


@pytest.mark.parametrize("change", [World.disable, World.change_generation, World.delete_schedule])
async def test_a_waiting_job_of_a_schedule_that_moves_on_becomes_obsolete(
    world: World, change: Callable[[World], Awaitable[None]]
) -> None:
    await world.define(ONE_AT_A_TIME)
    await world.satisfy(world.ready(ONE_AT_A_TIME, 1), world.ready(ONE_AT_A_TIME, 2))
    await world.launcher.run_once()

    await change(world)
    world.clock.advance(MINUTE)
    await world.launcher.run_once()

    assert (await world.states())["one.1.2"] == "OBSOLETE"


async def test_an_admitted_run_of_a_schedule_that_was_disabled_is_never_started(world: World) -> None:
    await world.define(PLAIN)
    await world.satisfy(world.ready(PLAIN, 1))
    await world.launcher.run_once()
    await world.disable()

    claimed = await world.run_store.claim(
        "default.app.plain.1.1.r1", runner="h:1:0", log_path="", now=world.clock.now()
    )

    assert claimed is None
    assert await world.states() == {"plain.1.1": "OBSOLETE"}
    assert (await world.runs.get("default.app.plain.1.1.r1")).state == "KILLED"


async def test_jobs_of_a_removed_program_become_obsolete(world: World) -> None:
    await world.define(PLAIN)
    await world.satisfy(world.ready(PLAIN, 1))
    await world.remove_programs()

    await world.launcher.run_once()

    assert await world.states() == {"plain.1.1": "OBSOLETE"}


async def test_a_definition_that_cannot_be_read_holds_its_own_jobs_and_no_others(world: World) -> None:
    await world.define(PLAIN)
    other = schedule("other", program=ProgramRef("default", "app", "other"))
    await world.define(other)
    await world.satisfy(world.ready(PLAIN, 1), world.ready(other, 1))
    await world.put_text("programs", {}, str(PROGRAM))

    await world.launcher.run_once()

    assert await world.states() == {"other.1.1": "PENDING_LAUNCH", "plain.1.1": "PENDING_CONSTRAINT"}
    held = await world.jobs.get("default.app.plain.1.1")
    assert held.reason.startswith("it cannot be decided: its program cannot be read: $.name")
    assert held.next_check_at == world.clock.now() + MINUTE


@pytest.mark.parametrize("timeout", [None, 60 * MINUTE], ids=["waits for ever", "waits for an hour"])
async def test_a_job_whose_wake_up_was_lost_is_found_by_the_sweep(world: World, timeout: timedelta | None) -> None:
    one = replace(ONE_AT_A_TIME, timeout=timeout)
    await world.define(one)
    await world.satisfy(world.ready(one, 1), world.ready(one, 2))
    await world.launcher.run_once()
    await world.fail_runs(world.clock.now())

    world.clock.advance(2 * MINUTE)
    await world.launcher.run_once()

    assert (await world.states())["one.1.2"] == "PENDING_LAUNCH"


async def test_launchers_and_hands_together_never_pass_a_programs_limit(world: World) -> None:
    """Each admission happens with fewer than `limit` runs active, whatever started them; the history proves it."""
    limit = 3
    busy = [schedule(f"s{n}", constraints=(Concurrency(limit, wait=True),), overlap=Overlap.QUEUE) for n in range(4)]
    await world.define(*busy)
    await world.satisfy(*(world.ready(each, n) for each in busy for n in range(1, 11)))
    seen: list[int] = []
    finished: set[str] = set()

    async def launch() -> None:
        launcher = Launcher(world.decisions, world.run_monitor, world.notifier, world.clock)
        while len(finished) < 40:
            await launcher.run_once()
            await asyncio.sleep(0.005)

    async def by_hand() -> None:
        for n in range(30):
            try:
                await start(world.runs, world.clock, PROGRAM, {}, at_most=limit, token=f"t{n}")
            except ConflictError:
                await asyncio.sleep(0.01)

    async def execute() -> None:
        while len(finished) < 40:
            for run in await world.runs.list_recent(states=[RunState.PENDING]):
                seen.append(len(await world.active()))
                await end(world, run.id)
                if run.job:
                    finished.add(run.id)
            await asyncio.sleep(0.005)

    await asyncio.wait_for(asyncio.gather(launch(), launch(), launch(), by_hand(), execute()), 120)

    assert max(seen) <= limit
    assert set((await world.states()).values()) == {"LAUNCHED"}
    assert sum(run.job is not None for run in await world.stored_runs()) == 40


async def test_a_run_by_hand_is_found_again_by_its_token_and_counts_for_constraints(world: World) -> None:
    await world.define(ONE_AT_A_TIME)
    run = await start(world.runs, world.clock, PROGRAM, {"b": "hand"}, token="x")
    assert await start(world.runs, world.clock, PROGRAM, {}, token="x") == run
    assert (await world.runs.get(run)).arguments == {"a": "program", "b": "hand"}

    await world.satisfy(world.ready(ONE_AT_A_TIME, 1))
    await world.launcher.run_once()

    assert await world.states() == {"one.1.1": "PENDING_CONSTRAINT"}
    assert world.runners.spawned == [run]


async def test_a_running_launcher_is_woken_by_what_comes_in_and_ends_when_cancelled(world: World) -> None:
    await world.define(PLAIN)
    async with asyncio.timeout(30):
        async with world.notifier.listen("launcher"):  # its connection is open before anything rings
            launcher = asyncio.create_task(world.launcher.run())
            intake = asyncio.create_task(world.intake().run())
            await world.emit([world.ready(PLAIN, 1)])
            await world.runners.called.wait()
        launcher.cancel()
        intake.cancel()
        ended = await asyncio.gather(launcher, intake, return_exceptions=True)

    assert world.runners.spawned == ["default.app.plain.1.1.r1"]
    assert all(isinstance(each, asyncio.CancelledError) for each in ended)


async def test_a_run_by_hand_of_an_unknown_program_is_refused(world: World) -> None:
    with pytest.raises(NotFoundError):
        await start(world.runs, world.clock, ProgramRef("default", "app", "none"), {})
