"""Submissions: jobs that a person asks for wait, run and end like those of a trigger, each request once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from streamsched.catalog import change
from streamsched.domain.constraints.constraint import Concurrency, Delay
from streamsched.domain.constraints.group import Group
from streamsched.domain.constraints.pool import Pool
from streamsched.domain.decisions.retention import Retention
from streamsched.domain.errors import ConflictError, InvalidError, NotFoundError
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.pause import Pause
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.schedules.submission_request import SubmissionRequest
from streamsched.domain.triggers.correlation import Per
from streamsched.launcher.retention import ArchiveLoop
from streamsched.launcher.why import explain_job
from streamsched.ports.runs import RunEnd
from streamsched.store.catalog.catalog import CatalogStore
from streamsched.store.jobs.archive import Archive
from streamsched.store.jobs.submissions import SubmissionStore
from streamsched.store.limits.pools import PoolStore

from .conftest import LEAF, MINUTE, PROGRAM, World, schedule

pytestmark = pytest.mark.postgres

ONE_AT_A_TIME = (Concurrency(1, wait=True),)
PLAIN = schedule("s", constraints=ONE_AT_A_TIME, properties={"b": "schedule", "c": "schedule"})


async def submit(world: World, owner: Schedule | ProgramRef, token: str, **fields: Any) -> str:
    ref = owner.ref if isinstance(owner, Schedule) else owner
    request = SubmissionRequest(ref, token, **fields)
    return (await SubmissionStore(world.pool).submit(request, now=world.clock.now())).job


async def decide(world: World) -> dict[str, str]:
    """Launchers check until there is nothing to do; the states of the jobs by the last part of their ids."""
    for _ in range(20):
        if not await world.launcher.run_once():
            return {name.rpartition(".")[2]: state for name, state in (await world.states()).items()}
    raise AssertionError("it never rests")


async def end(world: World, run: str) -> None:
    now = world.clock.now()
    assert await world.run_store.claim(run, runner=f"host:1:{run}", log_path="/log", now=now)
    assert await world.run_store.finish(run, RunEnd(RunState.COMPLETED, "", now, 0))


async def test_a_submission_waits_for_the_constraints_and_starts_with_the_persons_arguments(world: World) -> None:
    await world.define(PLAIN)
    await world.satisfy(world.ready(PLAIN, 1))
    await decide(world)

    job = await submit(world, PLAIN, "t", arguments={"c": "person"}, reason="ann: it was wrong")

    assert job == "default.app.s.submitted-t"
    assert await decide(world) == {"1": "PENDING_LAUNCH", "submitted-t": "PENDING_CONSTRAINT"}
    explained = await explain_job(job, jobs=world.jobs, clock=world.clock)
    assert "1 of 1 runs of default.app.load are active: default.app.s.1.1.r1" in explained.summary
    assert explained.satisfied_by == ("a submission by hand: ann: it was wrong",)
    first = explained.history[0]
    assert (first.action, first.reason) == ("job.submitted", "by hand: ann: it was wrong")
    await end(world, "default.app.s.1.1.r1")
    assert (await decide(world))["submitted-t"] == "PENDING_LAUNCH"
    run = await world.runs.get(f"{job}.r1")
    assert (run.job, run.schedule) == (job, PLAIN.ref)
    assert {name: run.arguments[name] for name in "abc"} == {"a": "program", "b": "schedule", "c": "person"}
    await end(world, run.id)
    record = await world.jobs.get(job)
    assert (record.state, record.submission and record.submission.reason) == (JobState.LAUNCHED, "ann: it was wrong")


async def test_a_repeat_finds_the_first_and_another_request_with_its_key_is_refused(world: World) -> None:
    await world.define(PLAIN, replace(PLAIN, ref=ScheduleRef("default", "app", "load")))
    store, now = SubmissionStore(world.pool), world.clock.now()
    request = SubmissionRequest(PLAIN.ref, "t", {"c": "1"})

    found = await asyncio.gather(*(store.submit(request, now=now) for _ in range(6)))

    assert {each.job for each in found} == {"default.app.s.submitted-t"}
    assert sum(not each.repeated for each in found) == 1
    assert await world.size("jobs") == 1
    assert len(await world.history(action="job.submitted")) == 1
    assert (await store.submit(replace(request, reason="other words"), now=now)).repeated
    with pytest.raises(ConflictError, match="belongs to another request"):
        await store.submit(replace(request, arguments={"c": "2"}), now=now)
    await submit(world, PROGRAM, "t")
    with pytest.raises(ConflictError, match="belongs to another request"):
        await submit(world, schedule("load"), "t")  # the schedule has the name of the program


async def test_a_repeat_finds_the_first_in_the_history_too_and_the_trigger_goes_on(world: World) -> None:
    await world.define(PLAIN)
    job = await submit(world, PLAIN, "t")
    await decide(world)
    await end(world, f"{job}.r1")
    alone = await submit(world, PROGRAM, "alone")
    await decide(world)
    await end(world, f"{alone}.r1")
    world.clock.advance(timedelta(days=1))
    archive = Archive(world.pool)
    keeps = Retention(jobs=timedelta(days=30), audit=timedelta(days=30))

    assert await ArchiveLoop(archive, keeps, world.clock, batch=50).run_once() == 2

    assert await submit(world, PLAIN, "t") == job
    assert await world.size("jobs") == 0
    assert {each.id for each in await world.jobs.list_recent()} == {job, alone}
    assert (await world.jobs.get(alone)).schedule is None
    await world.satisfy(world.ready(PLAIN, 1))
    assert (await world.jobs.get("default.app.s.1.1")).state is JobState.PENDING_CONSTRAINT


async def test_a_submission_without_arguments_is_coalesced_one_with_arguments_is_not(world: World) -> None:
    waits = replace(PLAIN, constraints=(Delay(MINUTE),))
    await world.define(waits)
    await submit(world, waits, "own", arguments={"c": "1"})
    await world.satisfy(world.ready(waits, 1))
    await decide(world)
    await submit(world, waits, "bare")
    await submit(world, waits, "own2", arguments={"c": "2"})
    await world.satisfy(world.ready(waits, 2))

    assert await decide(world) == {
        "1": "PENDING_CONSTRAINT",
        "2": "COALESCED",
        "submitted-own": "PENDING_CONSTRAINT",
        "submitted-own2": "PENDING_CONSTRAINT",
        "submitted-bare": "COALESCED",
    }
    world.clock.advance(MINUTE)
    await decide(world)
    assert {run.arguments.get("c") for run in await world.runs.list_recent()} == {"1", "2", "schedule"}


async def test_a_satisfaction_joins_a_submission_that_waits_and_its_run_has_the_events(world: World) -> None:
    waits = replace(PLAIN, constraints=(Delay(MINUTE),))
    await world.define(waits)
    job = await submit(world, waits, "t")
    await decide(world)
    await world.satisfy(world.ready(waits, 1, events=2))

    assert await decide(world) == {"submitted-t": "PENDING_CONSTRAINT", "1": "COALESCED"}
    world.clock.advance(MINUTE)
    await decide(world)
    assignment = await world.run_store.claim(f"{job}.r1", runner="h:1:1", log_path="/log", now=world.clock.now())
    assert assignment is not None
    assert assignment.ready is not None
    assert [part.count for part in assignment.ready.contributions] == [2]


async def test_a_submission_is_the_newest_of_its_schedule_when_it_comes_and_no_longer_after_a_satisfaction(
    world: World,
) -> None:
    latest = replace(PLAIN, constraints=(Delay(MINUTE),), overlap=Overlap.LATEST)
    await world.define(latest)
    await world.satisfy(world.ready(latest, 1))
    await decide(world)
    for token in ("b", "a"):
        world.clock.advance(timedelta(seconds=1))
        await submit(world, latest, token, arguments={"c": token})
        await decide(world)

    assert await decide(world) == {
        "1": "OBSOLETE",
        "submitted-a": "PENDING_CONSTRAINT",
        "submitted-b": "OBSOLETE",
    }
    replaced = await world.jobs.get("default.app.s.submitted-b")
    assert replaced.reason == "default.app.s.submitted-a took its place: overlap is latest"
    await world.satisfy(world.ready(latest, 2))
    assert (await decide(world))["submitted-a"] == "OBSOLETE"


async def test_overlap_skip_and_the_timeout_apply(world: World) -> None:
    skip = replace(PLAIN, constraints=(), overlap=Overlap.SKIP)
    late = schedule("late", constraints=(Delay(10 * MINUTE),), timeout=MINUTE)
    await world.define(skip, late)
    await world.satisfy(world.ready(skip, 1))
    await decide(world)

    job = await submit(world, skip, "t")
    waiting = await submit(world, late, "t")
    await decide(world)

    assert (await world.jobs.get(job)).reason == "skipped: the run before is active: default.app.s.1.1.r1"
    world.clock.advance(MINUTE)
    await decide(world)
    assert (await world.jobs.get(waiting)).state is JobState.TIMED_OUT


async def test_a_program_alone_waits_for_what_its_schedules_share(world: World) -> None:
    held = schedule("s", constraints=(Group("g", 1), *ONE_AT_A_TIME))
    await world.define(held)
    job = await submit(world, PROGRAM, "t", arguments={"a": "person"}, reason="ann")
    await submit(world, PROGRAM, "u")
    await world.satisfy(world.ready(held, 1))

    states = await decide(world)

    assert states == {"submitted-t": "PENDING_LAUNCH", "submitted-u": "PENDING_CONSTRAINT", "1": "PENDING_CONSTRAINT"}
    run = await world.runs.get(f"{job}.r1")
    assert (run.program, run.schedule, run.arguments["a"], run.arguments["b"]) == (PROGRAM, None, "person", "program")
    explained = await explain_job("default.app.load.submitted-u", jobs=world.jobs, clock=world.clock)
    assert [clause.needs for clause in explained.clauses] == ["fewer than 1 active runs", str(Group("g", 1))]
    await end(world, run.id)
    assert list((await decide(world)).values()).count("PENDING_LAUNCH") == 1


async def test_jobs_of_a_pool_start_in_the_order_of_priority_and_time(world: World) -> None:
    program = ProgramRef("default", "app", "other")
    low = schedule("low", constraints=(Pool("p", 1, -5),), overlap=Overlap.QUEUE)
    plain = replace(schedule("plain", constraints=(Pool("p", 1),), overlap=Overlap.QUEUE), program=program)
    await world.define(low, plain)
    first = await submit(world, low, "first")
    await decide(world)
    await submit(world, low, "low")
    await submit(world, program, "alone")
    await decide(world)
    await PoolStore(world.pool).set("p", None, 2 * MINUTE, "", now=world.clock.now())

    assert await world.line() == [
        "default.app.other.submitted-alone",
        "default.app.low.submitted-low",
    ]
    await world.decisions.recheck_all(before=world.clock.now())
    await end(world, f"{first}.r1")
    assert (await decide(world))["submitted-alone"] == "PENDING_LAUNCH"
    assert (await decide(world))["submitted-low"] == "PENDING_CONSTRAINT"


async def test_a_paused_schedule_keeps_the_job_and_a_disabled_one_refuses_it(world: World) -> None:
    await world.define(PLAIN)
    catalog = CatalogStore(world.pool)

    async def changed(decision: Any) -> None:
        await catalog.change(PLAIN.ref.owner, [PLAIN.ref], decision, now=world.clock.now())

    await changed(lambda app: change.pause(app, PLAIN.ref, Pause(), now=world.clock.now()))
    await submit(world, PLAIN, "t")
    assert await decide(world) == {"submitted-t": "PENDING_CONSTRAINT"}
    await changed(lambda app: change.enable(app, PLAIN.ref, now=world.clock.now()))
    await world.decisions.recheck_all(before=world.clock.now())
    assert await decide(world) == {"submitted-t": "PENDING_LAUNCH"}
    await changed(lambda app: change.disable(app, PLAIN.ref, now=world.clock.now()))

    with pytest.raises(ConflictError, match=r"schedule 'default.app.s' is disabled; enable it, or start its program"):
        await submit(world, PLAIN, "u")

    assert await submit(world, PLAIN, "t") == "default.app.s.submitted-t", "a repeat is answered all the same"
    assert await world.size("jobs") == 1


async def test_the_key_of_a_correlating_schedule_is_its_jobs_key(world: World) -> None:
    keyed = schedule("keyed", trigger=Per(LEAF, ("date",)))
    await world.define(keyed)

    job = await submit(world, keyed, "t", columns={"date": "2013-01-01"})
    await decide(world)

    assert (await world.runs.get(f"{job}.r1")).arguments["trigger.key"] == "2013-01-01"
    for token, columns in (("u", {}), ("v", {"day": "2013-01-01"})):
        with pytest.raises(InvalidError, match=r"\$\.key"):
            await submit(world, keyed, token, columns=columns)
    with pytest.raises(ConflictError, match="belongs to another request"):
        await submit(world, keyed, "t", columns={"date": "2013-01-02"})
    assert await world.size("jobs") == 1


async def test_what_does_not_exist_or_is_ambiguous_is_refused(world: World) -> None:
    await world.define(schedule("a", constraints=(Pool("p", 1),)), schedule("b", constraints=(Pool("q", 1),)))

    with pytest.raises(NotFoundError, match=r"schedule 'default.app.nowhere' was not found"):
        await submit(world, schedule("nowhere"), "t")
    with pytest.raises(NotFoundError, match=r"program 'default.app.nowhere' was not found"):
        await submit(world, ProgramRef("default", "app", "nowhere"), "t")
    with pytest.raises(InvalidError, match="in the pools p and q"):
        await submit(world, PROGRAM, "t")

    assert await world.size("jobs") == 0


async def test_a_job_of_a_removed_program_ends_with_the_next_sweep(world: World) -> None:
    await world.define(PLAIN)
    await world.satisfy(world.ready(PLAIN, 1))
    await decide(world)
    job = await submit(world, PROGRAM, "t")
    await decide(world)
    await world.remove_programs()

    assert await world.decisions.recheck_all(before=world.clock.now() - MINUTE) == 1
    await decide(world)

    record = await world.jobs.get(job)
    assert (record.state, record.reason) == (JobState.OBSOLETE, "its program was removed")


async def test_jobs_that_wait_are_not_swept_because_they_have_no_schedule(world: World) -> None:
    await world.define(PLAIN)
    await submit(world, PROGRAM, "t")
    await submit(world, PROGRAM, "u")
    await decide(world)

    assert await world.decisions.recheck_all(before=world.clock.now() - MINUTE) == 0
