"""Follow-up: runs whose runner never came, or is gone, with a clock that is set."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from streamsched.codec import event as event_codec
from streamsched.domain.constraints.constraint import Concurrency
from streamsched.domain.constraints.process_room import ProcessKind
from streamsched.domain.errors import ConflictError, UnavailableError
from streamsched.domain.events.event import Event, Outcome
from streamsched.domain.jobs.run import RunState
from streamsched.ports.runner import RunnerId
from streamsched.ports.runs import RunEnd, StopRequest

from .conftest import World, schedule

pytestmark = pytest.mark.postgres

PLAIN = schedule("plain")
JOB = "default.app.plain.1.1"
RUN = f"{JOB}.r1"
OTHER = "default.app.plain.1.2.r1"
HERE = RunnerId("here", 7, 100)


def read(raw: bytes) -> Event:
    return event_codec.decode(raw, fallback_id="none", fallback_time=datetime.now(UTC))


async def admitted(world: World) -> None:
    await world.define(PLAIN)
    await world.satisfy(world.ready(PLAIN, 1))
    await world.launcher.run_once()


async def running(world: World, run: str = RUN) -> None:
    now = world.clock.now()
    assert await world.run_store.claim(run, runner=str(HERE), log_path="/log", now=now)
    await world.run_store.mark_started(run, runner=str(HERE), now=now)


async def insert_running(world: World, runs: int, runner: RunnerId) -> None:
    """Further runs of that runner, of the program of `RUN`, silent since that was created."""
    first = await world.run(RUN)
    for n in range(runs):
        await world.add_run(
            f"more.{n}", program=first.program, at=first.created_at, state=RunState.RUNNING, runner=str(runner)
        )


async def actions(world: World, subject: str) -> list[str]:
    return await world.actions(subject)


async def test_a_run_that_is_not_claimed_gets_runner_after_runner_and_then_the_launch_has_failed(world: World) -> None:
    await admitted(world)
    for seconds, spawned in ((14, 1), (1, 2), (29, 2), (1, 3), (59, 3)):
        world.clock.advance(timedelta(seconds=seconds))
        await world.launcher.run_once()
        assert len(world.runners.spawned) == spawned

    world.clock.advance(timedelta(seconds=10))
    await world.launcher.run_once()

    assert (await world.jobs.get(JOB)).state == "LAUNCH_FAILED"
    run = await world.runs.get(RUN)
    assert run.state == "FAILED"
    assert "3 runner processes were started" in run.reason


async def test_a_runner_that_never_heard_that_it_has_the_run_asks_again_and_no_other_gets_it(world: World) -> None:
    await admitted(world)
    now = world.clock.now()
    first = await world.run_store.claim(RUN, runner="h:1:1", log_path="/log", now=now)

    assert await world.run_store.claim(RUN, runner="h:2:1", log_path="/log", now=now) is None
    assert await world.run_store.claim(RUN, runner="h:1:1", log_path="/log", now=now) == first
    assert (await actions(world, RUN)).count("run.claimed") == 1


async def test_a_process_that_cannot_be_started_is_noted_and_tried_again(world: World) -> None:
    def refuse(run: str, kind: ProcessKind) -> None:
        raise UnavailableError("fork: out of memory")

    spawn, world.runners.spawn = world.runners.spawn, refuse  # type: ignore[method-assign]
    await admitted(world)
    assert await actions(world, RUN) == ["run.created", "run.spawn_failed"]

    world.runners.spawn = spawn  # type: ignore[method-assign]
    world.clock.advance(timedelta(seconds=15))
    await world.launcher.run_once()

    assert world.runners.spawned == [RUN]


async def test_a_burst_of_runs_waits_for_room_on_its_host(world: World) -> None:
    await world.define(PLAIN)
    await world.satisfy(*(world.ready(PLAIN, n) for n in range(1, 6)))
    world.runners.free = 2
    await world.launcher.run_once()
    assert len(world.runners.spawned) == 2

    world.runners.free = 0
    await world.launcher.run_once()
    assert len(world.runners.spawned) == 2
    assert await world.run_monitor.next_due_at() == world.clock.now() + timedelta(milliseconds=250)

    world.runners.free = 9
    await world.launcher.run_once()
    assert len(world.runners.spawned) == 5


async def test_a_full_host_looks_for_room_no_sooner_than_it_needs_any(world: World) -> None:
    await admitted(world)
    in_an_hour = world.clock.now() + timedelta(hours=1)
    await world.postpone_runners(in_an_hour)
    world.runners.free = 0

    assert await world.run_monitor.next_due_at() == in_an_hour


async def test_the_launcher_sleeps_until_the_next_runner_is_wanted(world: World) -> None:
    await admitted(world)

    assert await world.run_monitor.next_due_at() == world.clock.now() + timedelta(seconds=15)
    await running(world)
    assert await world.run_monitor.next_due_at() is None


async def test_a_run_whose_runner_is_gone_is_lost_and_its_job_tried_three_times(world: World) -> None:
    await admitted(world)
    world.runners.living[HERE] = False
    for attempt in (1, 2, 3):
        await running(world, f"{JOB}.r{attempt}")
        world.clock.advance(timedelta(seconds=16))
        assert await world.run_monitor.check_runs() == [f"{JOB}.r{attempt}"]

    assert (await world.jobs.get(JOB)).runs == tuple(f"{JOB}.r{attempt}" for attempt in (1, 2, 3))
    assert {run.state for run in await world.runs.list_recent()} == {RunState.LOST}
    announced = [read(value) for value in await world.published()]
    ends = [event for event in announced if event.fact.outcome is not Outcome.STARTED]  # type: ignore[union-attr]
    assert [(event.id, event.fact.outcome) for event in ends] == [(f"{JOB}.r3:LOST", Outcome.FAILED)]  # type: ignore[union-attr]


async def test_a_runner_of_another_host_is_given_up_only_after_long_silence(world: World) -> None:
    await admitted(world)
    await running(world)
    world.clock.advance(timedelta(minutes=9))
    assert await world.run_monitor.check_runs() == []

    world.clock.advance(timedelta(minutes=2))
    assert await world.run_monitor.check_runs() == [RUN]


async def test_while_the_clock_is_in_doubt_no_run_is_too_long_or_silent_for_too_long(world: World) -> None:
    await admitted(world)
    await running(world)
    await world.limit_runs(world.clock.now() + timedelta(hours=1))
    world.clock.advance(timedelta(days=365))
    world.clock.in_doubt = True

    assert await world.run_monitor.check_runs() == []
    assert [run.stop_requested for run in await world.stored_runs()] == [None]

    world.clock.in_doubt = False
    assert await world.run_monitor.check_runs() == [RUN]


async def test_runs_that_cannot_be_judged_yet_hide_no_others(world: World) -> None:
    await admitted(world)
    await insert_running(world, 250, RunnerId("far", 1, 1))
    world.clock.advance(timedelta(seconds=1))
    await running(world)
    world.runners.living[HERE] = False
    world.clock.advance(timedelta(seconds=16))

    assert await world.run_monitor.check_runs() == [RUN]


async def test_a_silent_runner_with_many_runs_is_checked_once_in_a_pass(world: World) -> None:
    await admitted(world)
    await insert_running(world, 250, HERE)
    world.runners.living[HERE] = True
    world.clock.advance(timedelta(minutes=1))
    world.runners.checked.clear()

    assert await world.run_monitor.check_runs() == []
    assert world.runners.checked == [HERE]


async def test_a_runner_that_was_given_up_is_notified(world: World) -> None:
    await admitted(world)
    await running(world)
    world.runners.living[HERE] = False
    world.clock.advance(timedelta(seconds=16))
    await world.run_monitor.check_runs()

    with pytest.raises(ConflictError):
        await world.run_store.heartbeat(RUN, runner=str(HERE), now=world.clock.now())
    assert not await world.run_store.finish(RUN, RunEnd(RunState.COMPLETED, "", world.clock.now(), 0))


async def test_a_heartbeat_in_the_last_moment_saves_the_run(world: World) -> None:
    await admitted(world)
    await running(world)
    world.clock.advance(timedelta(seconds=16))
    [silent] = await world.run_store.silent_runs(world.clock.now() - timedelta(seconds=15), limit=10)
    await world.run_store.heartbeat(RUN, runner=str(HERE), now=world.clock.now())

    assert await world.run_store.mark_lost(silent, "gone", now=world.clock.now(), attempts=3) is None
    assert (await world.runs.get(RUN)).state == "RUNNING"


async def test_a_lost_run_of_a_disabled_schedule_is_not_tried_again(world: World) -> None:
    await admitted(world)
    await running(world)
    await world.disable()
    world.runners.living[HERE] = False
    world.clock.advance(timedelta(seconds=16))
    await world.run_monitor.check_runs()

    assert (await world.jobs.get(JOB)).runs == (RUN,)
    assert "job.not_retried" in await actions(world, JOB)


async def test_a_lost_run_keeps_its_slot_for_its_next_attempt(world: World) -> None:
    one = schedule("plain", constraints=(Concurrency(1, wait=True),))
    await world.define(one)
    await world.satisfy(world.ready(one, 1), world.ready(one, 2))
    await world.launcher.run_once()
    await running(world)
    world.runners.living[HERE] = False
    world.clock.advance(timedelta(seconds=16))
    await world.launcher.run_once()

    assert await world.states() == {"plain.1.1": "LAUNCHED", "plain.1.2": "PENDING_CONSTRAINT"}
    assert world.runners.spawned == [RUN, f"{JOB}.r2"]


async def test_a_run_whose_arguments_are_no_object_is_shown_without(world: World) -> None:
    await admitted(world)
    for stored in ("garbage", 1e300, None, [1]):
        await world.put_text("arguments", stored)
        assert (await world.runs.get(RUN)).arguments == {}


async def test_a_run_that_waits_for_a_runner_can_be_stopped_at_once(world: World) -> None:
    await admitted(world)

    await world.runs.stop(RUN, StopRequest("not today"), now=world.clock.now())

    assert (await world.runs.get(RUN)).state == "KILLED"
    job = await world.jobs.get(JOB)
    assert (job.state, job.reason) == ("LAUNCH_FAILED", "not today")
    with pytest.raises(ConflictError):
        await world.runs.stop(RUN, StopRequest("again"), now=world.clock.now())


async def test_the_end_is_stored_once(world: World) -> None:
    await admitted(world)
    await running(world)
    ending = RunEnd(RunState.COMPLETED, "", world.clock.now(), 0)

    assert await world.run_store.finish(RUN, ending)
    assert not await world.run_store.finish(RUN, ending)
    assert await world.size("outbox") == 2


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        ("NEW.reason = 'a line'", "the reason of its end cannot be stored"),
        ("NEW.id = 'default.app.plain.1.1.r1'", ""),
    ],
)
async def test_an_end_that_cannot_be_stored_keeps_no_other_run_from_ending(
    world: World, refused: str, reason: str
) -> None:
    await world.define(PLAIN)
    await world.satisfy(world.ready(PLAIN, 1), world.ready(PLAIN, 2))
    await world.launcher.run_once()
    for run in (RUN, OTHER):
        await running(world, run)
    world.runners.living[HERE] = False
    world.runners.endings = {
        RUN: RunEnd(RunState.COMPLETED, "a line", world.clock.now(), 0),
        OTHER: RunEnd(RunState.FAILED, "another", world.clock.now(), 1),
    }
    world.clock.advance(timedelta(seconds=16))
    await world.refuse(refused)

    assert await world.run_monitor.check_runs() == [RUN, OTHER][not reason :]
    assert (await world.runs.get(RUN)).reason == reason
    assert (await world.runs.get(RUN)).state == ("COMPLETED" if reason else "RUNNING")
    assert (await world.runs.get(OTHER)).reason == "another"
