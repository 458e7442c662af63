"""Deadlines: judged when they are due, answered once, said to everybody who listens."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from streamsched.codec import event as event_codec
from streamsched.domain.constraints.constraint import Concurrency
from streamsched.domain.events.event import CustomHappened
from streamsched.domain.jobs.failure import Failure
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.deadline import MISSED, Deadline, DeadlineKind, OnMiss
from streamsched.domain.schedules.retry import Retry
from streamsched.domain.schedules.schedule import BashJob, Program, Schedule
from streamsched.launcher.deadlines import DeadlineWatch
from streamsched.launcher.why import explain_job
from streamsched.ports.runs import RunEnd, StopRequest
from streamsched.store.runs.deadlines import DeadlineStore

from .conftest import MINUTE, World, schedule

pytestmark = pytest.mark.postgres

RESCUE = ProgramRef("default", "app", "rescue")
JOB = "default.app.plain.1.1"
RUN = f"{JOB}.r1"
ONE_AT_A_TIME = (Concurrency(1, wait=True),)


def promising(promise: DeadlineKind, then: OnMiss = OnMiss.WARN, **more: Any) -> Schedule:
    program = "rescue" if then is OnMiss.START else None
    return schedule("plain", deadlines=(Deadline(promise, 10 * MINUTE, then=then, program=program),), **more)


def watch(world: World) -> DeadlineWatch:
    return DeadlineWatch(DeadlineStore(world.pool), world.notifier, world.clock)


async def rescued(world: World) -> None:
    """There is a program that can be started."""
    program = Program(RESCUE, BashJob("true"), {"own": "yes"})
    await world.put_program(program)


async def waiting(world: World, plain: Schedule) -> None:
    """Its job waits, for another run has the only place."""
    await world.define(plain)
    program = plain.program
    other = await world.runs.start(program, {}, token="x", at_most=None, force=False, now=world.clock.now())
    await begin(world, other)
    await world.satisfy(world.ready(plain, 1))
    await world.launcher.run_once()
    assert (await world.jobs.get(JOB)).state is JobState.PENDING_CONSTRAINT


async def launched(world: World, plain: Schedule) -> None:
    await world.define(plain)
    await world.satisfy(world.ready(plain, 1))
    await world.launcher.run_once()


async def begin(world: World, run: str = RUN) -> None:
    assert await world.run_store.claim(run, runner="here:1:1", log_path="/log", now=world.clock.now())
    await world.run_store.mark_started(run, runner="here:1:1", now=world.clock.now())


async def end(world: World, run: str = RUN, state: RunState = RunState.COMPLETED) -> None:
    await world.run_store.finish(run, RunEnd(state, "over", world.clock.now(), 0 if state is RunState.COMPLETED else 1))


async def said(world: World) -> list[CustomHappened]:
    now = datetime.now(UTC)
    facts = [
        event_codec.decode(value, fallback_id="", fallback_time=now).fact for value in await world.published("events")
    ]
    return [fact for fact in facts if isinstance(fact, CustomHappened)]


async def test_a_job_that_starts_too_late_is_reported_and_goes_on(world: World) -> None:
    await waiting(world, promising(DeadlineKind.START, constraints=ONE_AT_A_TIME))
    due = world.clock.now() + 10 * MINUTE
    reported = await explain_job(JOB, jobs=world.jobs, clock=world.clock)
    assert reported.deadlines == (
        "it has to start within 10m of its satisfaction: by 2026-03-01 12:10:00Z, or it is said",
    )
    world.clock.set(due - timedelta(microseconds=1))
    assert await watch(world).run_once() == due, "never early"
    assert await said(world) == []

    world.clock.set(due)
    assert await watch(world).run_once() is None

    [event] = await said(world)
    assert (event.name.name, event.attributes["schedule"]) == (MISSED, "default.app.plain")
    assert event.attributes["promise"] == "start-by"
    job = await world.jobs.get(JOB)
    assert job.state is JobState.PENDING_CONSTRAINT
    assert job.missed == (
        "it was to start within 10m of its satisfaction, that was at 2026-03-01 12:10:00Z: it has not started",
    )
    reported = await explain_job(JOB, jobs=world.jobs, clock=world.clock)
    assert reported.deadlines == (f"missed: {job.missed[0]}",)
    assert "job.deadline_missed" in [line.action for line in reported.history]
    assert (await world.jobs.list_recent())[0].missed == job.missed


async def test_who_waits_too_long_is_cancelled(world: World) -> None:
    await waiting(world, promising(DeadlineKind.START, OnMiss.CANCEL, constraints=ONE_AT_A_TIME))
    world.clock.advance(10 * MINUTE)
    await watch(world).run_once()
    await world.launcher.run_once()

    job = await world.jobs.get(JOB)
    assert job.state is JobState.ABORTED
    assert "it was to" in job.reason


async def test_what_is_kept_says_nothing_however_late_anybody_looks(world: World) -> None:
    plain = schedule(
        "plain",
        deadlines=tuple(Deadline(promise, 10 * MINUTE, then=OnMiss.CANCEL) for promise in DeadlineKind),
    )
    await launched(world, plain)
    await begin(world)
    world.clock.advance(9 * MINUTE)
    await end(world)
    world.clock.advance(timedelta(days=3))

    assert await watch(world).run_once() is None

    assert await said(world) == []
    assert (await world.jobs.get(JOB)).missed == ()
    assert await world.size("deadlines") == 0


async def test_an_end_after_the_deadline_is_missed_even_when_it_was_not_checked_in_between(world: World) -> None:
    await launched(world, promising(DeadlineKind.FINISH))
    await begin(world)
    world.clock.advance(11 * MINUTE)
    await end(world)
    world.clock.advance(timedelta(days=1))
    await watch(world).run_once()

    [missed] = (await world.jobs.get(JOB)).missed
    assert "it ended at 2026-03-01 12:11:00Z only" in missed


async def test_a_run_that_is_not_claimed_is_cancelled_and_one_that_goes_is_asked_to_end(world: World) -> None:
    await launched(world, promising(DeadlineKind.FINISH, OnMiss.CANCEL))
    world.clock.advance(10 * MINUTE)
    await watch(world).run_once()

    assert (await world.runs.get(RUN)).state is RunState.KILLED
    assert (await world.jobs.get(JOB)).state is JobState.LAUNCH_FAILED

    plain = promising(DeadlineKind.FINISH, OnMiss.CANCEL)
    await world.satisfy(world.ready(plain, 2))
    await world.launcher.run_once()
    run = "default.app.plain.1.2.r1"
    await begin(world, run)
    world.clock.advance(10 * MINUTE)
    await watch(world).run_once()
    stop = await world.run_store.heartbeat(run, runner="here:1:1", now=world.clock.now())
    assert stop is not None
    assert stop.why.startswith("it was to finish within 10m")


async def test_a_run_that_takes_too_long_fails_by_timeout_and_each_attempt_has_its_own_time(world: World) -> None:
    retry = Retry(2, frozenset({Failure.TIMEOUT}), timedelta(0))
    await launched(world, promising(DeadlineKind.DURATION, OnMiss.CANCEL, retry=retry))
    for attempt in (1, 2):
        run = f"{JOB}.r{attempt}"
        world.clock.advance(MINUTE)
        await begin(world, run)
        world.clock.advance(10 * MINUTE)
        await watch(world).run_once()
        assert isinstance(await world.run_store.heartbeat(run, runner="here:1:1", now=world.clock.now()), StopRequest)
        await end(world, run, RunState.KILLED)

    assert [event.attributes["run"] for event in await said(world)] == [f"{JOB}.r1", f"{JOB}.r2"]
    assert len((await world.jobs.get(JOB)).runs) == 2


@pytest.mark.parametrize("promise", [DeadlineKind.DURATION, DeadlineKind.FINISH])
async def test_a_run_that_a_person_stops_is_not_overruled_by_a_deadline(world: World, promise: DeadlineKind) -> None:
    await launched(world, promising(promise, OnMiss.CANCEL, retry=Retry(2, delay=timedelta(0))))
    await begin(world)
    world.clock.advance(10 * MINUTE)
    await world.runs.stop(RUN, StopRequest("ann: enough", at_once=True), now=world.clock.now())
    await watch(world).run_once()

    assert await world.run_store.heartbeat(RUN, runner="here:1:1", now=world.clock.now()) == StopRequest(
        "ann: enough", at_once=True
    )
    await end(world, state=RunState.KILLED)
    assert (await world.jobs.get(JOB)).runs == (RUN,)


async def test_a_job_that_is_cancelled_gets_no_further_attempt_though_its_run_was_overdue(world: World) -> None:
    await launched(
        world,
        promising(
            DeadlineKind.FINISH, OnMiss.CANCEL, max_duration=5 * MINUTE, retry=Retry(2, frozenset({Failure.TIMEOUT}))
        ),
    )
    await begin(world)
    world.clock.advance(10 * MINUTE)
    assert await world.run_store.stop_overdue(world.clock.now()) == [RUN]
    await watch(world).run_once()
    await end(world, state=RunState.KILLED)

    assert (await world.jobs.get(JOB)).runs == (RUN,)


async def test_another_program_is_started_and_knows_what_was_missed(world: World) -> None:
    await launched(world, promising(DeadlineKind.FINISH, OnMiss.START))
    await rescued(world)
    await begin(world)
    world.clock.advance(10 * MINUTE)
    await watch(world).run_once()
    await watch(world).run_once()

    [run] = await world.runs.list_recent(program=RESCUE)
    assert (run.state, run.arguments["own"], run.arguments["deadline.job"]) == (RunState.PENDING, "yes", JOB)
    assert run.arguments["deadline.how"] == "it has not finished"
    assert (await world.runs.get(RUN)).state is RunState.RUNNING
    history = (await explain_job(JOB, jobs=world.jobs, clock=world.clock)).history
    assert [line.reason for line in history if line.action == "job.deadline_answered"] == [f"run {run.id}"]


async def test_a_program_that_was_removed_meanwhile_is_missed_aloud(world: World) -> None:
    await launched(world, promising(DeadlineKind.START, OnMiss.START))
    world.clock.advance(10 * MINUTE)
    await watch(world).run_once()

    history = (await explain_job(JOB, jobs=world.jobs, clock=world.clock)).history
    assert "default.app.rescue is not started: it was removed" in [line.reason for line in history]


async def test_many_who_watch_settle_each_deadline_once(world: World) -> None:
    plain = promising(DeadlineKind.START, OnMiss.START, constraints=(Concurrency(100, wait=True),))
    await world.define(plain)
    await rescued(world)
    await world.satisfy(*(world.ready(plain, n) for n in range(1, 31)))
    await world.launcher.run_once()
    world.clock.advance(10 * MINUTE)

    await asyncio.gather(*(watch(world).run_once() for _ in range(5)))

    assert len(await said(world)) == 30
    assert len(await world.runs.list_recent(program=RESCUE)) == 30
