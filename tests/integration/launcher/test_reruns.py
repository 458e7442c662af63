"""Reruns: a job again, with its events, key and logical time; once for each attempt or key; muted when wanted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from streamsched.catalog import change
from streamsched.domain.constraints.constraint import Concurrency, Delay
from streamsched.domain.decisions.retention import Retention
from streamsched.domain.errors import ConflictError, InvalidError, NotFoundError
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import EventName
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.provenance import ArgumentSource, OriginKind
from streamsched.domain.schedules.retry import Retry
from streamsched.domain.schedules.schedule import PublishJob, Schedule
from streamsched.domain.schedules.submission_request import BulkRerunRequest, RerunRequest, SubmissionRequest
from streamsched.launcher.retention import ArchiveLoop
from streamsched.launcher.why import explain_job
from streamsched.ports.runs import RunEnd
from streamsched.store.catalog.catalog import CatalogStore
from streamsched.store.jobs.archive import Archive
from streamsched.store.jobs.submissions import SubmissionStore
from streamsched.store.runs.run_batch import RunBatch

from .conftest import MINUTE, PROGRAM, World, schedule

pytestmark = pytest.mark.postgres

PLAIN = schedule("s")
JOB, RUN = "default.app.s.1.1", "default.app.s.1.1.r1"


async def decide(world: World) -> dict[str, str]:
    for _ in range(20):
        if not await world.launcher.run_once():
            return await world.states()
    raise AssertionError("it never rests")


async def end(world: World, run: str, state: RunState = RunState.FAILED) -> ReadyJob | None:
    """Claims and ends a run; returns the satisfaction that it was given."""
    now = world.clock.now()
    assignment = await world.run_store.claim(run, runner=f"host:1:{run}", log_path="/log", now=now)
    assert assignment is not None
    await world.run_store.mark_started(run, runner=f"host:1:{run}", now=now)
    assert await world.run_store.finish(run, RunEnd(state, "", now, 0 if state is RunState.COMPLETED else 1))
    return assignment.ready


async def failed(world: World, definition: Schedule = PLAIN, *, events: int = 3) -> ReadyJob:
    """A job of the trigger whose run failed."""
    await world.define(definition)
    await world.satisfy(replace(world.ready(definition, 1, events=events), key="monday"))
    await decide(world)
    ready = await end(world, RUN)
    assert ready is not None
    return ready


async def rerun(world: World, job: str = JOB, **fields: Any) -> str:
    store = SubmissionStore(world.pool)
    return (await store.rerun(RerunRequest(job, **fields), now=world.clock.now())).job


async def announced(world: World) -> list[bytes]:
    return await world.published("program-status")


async def test_a_rerun_has_the_events_key_and_time_of_the_first_and_history_shows_the_chain(world: World) -> None:
    first = await failed(world)
    world.clock.advance(timedelta(hours=5))

    job = await rerun(world, arguments={"a": "person"}, reason="ann: the bug is fixed")

    assert job == f"{JOB}.rerun-1"
    await decide(world)
    given = (await world.runs.get(f"{job}.r1")).arguments
    original = (await world.runs.get(RUN)).arguments
    assert given == {**original, "a": "person", "trigger.job": job}
    second = await end(world, f"{job}.r1")
    assert second is not None
    assert (second.contributions, second.key, second.logical_at) == (
        first.contributions,
        first.key,
        first.satisfied_at,
    )
    third = await rerun(world, job)
    assert third == f"{job}.rerun-1"
    lines = [
        (each.action, each.reason) for each in (await explain_job(JOB, jobs=world.jobs, clock=world.clock)).history
    ]
    assert ("job.rerun", f"as {job}") in lines
    explained = await explain_job(job, jobs=world.jobs, clock=world.clock)
    lines = [(each.action, each.reason) for each in explained.history]
    assert lines[0] == ("job.submitted", f"by hand, a rerun of {RUN}: ann: the bug is fixed")
    assert ("job.rerun", f"as {third}") in lines
    assert explained.satisfied_by[0] == f"a submission by hand, a rerun of {RUN}: ann: the bug is fixed"
    assert (await world.runs.get(f"{job}.r1")).rerun_of == RUN


async def test_a_run_is_repeated_once_without_a_key_and_once_for_each_key(world: World) -> None:
    await failed(world)

    same = await asyncio.gather(*(rerun(world) for _ in range(5)))
    other = [await rerun(world, token="again"), await rerun(world, token="again")]

    assert {*same, *other} == {f"{JOB}.rerun-1", f"{JOB}.rerun-again"}
    assert await world.size("jobs") == 3
    assert len(await world.history(action="job.rerun")) == 2
    with pytest.raises(ConflictError, match="with other arguments or another run"):
        await rerun(world, arguments={"a": "2"})


async def test_only_a_job_whose_last_run_has_ended_is_repeated(world: World) -> None:
    await world.define(schedule("s", constraints=(Delay(MINUTE),)), schedule("off"))
    await world.satisfy(world.ready(PLAIN, 1))
    await decide(world)
    with pytest.raises(ConflictError, match="has had no run"):
        await rerun(world)
    world.clock.advance(MINUTE)
    await decide(world)
    with pytest.raises(ConflictError, match="is PENDING; a job is repeated when its last run has ended"):
        await rerun(world)
    await end(world, RUN)
    with pytest.raises(NotFoundError, match="job 'nothing' was not found"):
        await rerun(world, "nothing")
    with pytest.raises(NotFoundError, match="r2' was not found"):
        await rerun(world, run=f"{JOB}.r2")
    assert await world.size("jobs") == 1
    catalog = CatalogStore(world.pool)
    now = world.clock.now()
    await catalog.change(PLAIN.ref.owner, [PLAIN.ref], lambda app: change.disable(app, PLAIN.ref, now=now), now=now)
    with pytest.raises(ConflictError, match="is disabled"):
        await rerun(world)


async def test_a_rerun_after_a_changed_definition_has_the_old_events_and_the_new_definition(world: World) -> None:
    first = await failed(world, schedule("s", properties={"p": "old"}))
    await world.define(schedule("s", properties={"p": "new"}), generation=2)
    await world.execute(PublishJob(EventName("default", "done")))

    job = await rerun(world)

    assert job == f"{JOB}.rerun-1"
    await decide(world)
    assert (await world.runs.get(f"{job}.r1")).arguments["p"] == "new"
    assert (await world.runs.get(RUN)).arguments["p"] == "old"
    claimed = await world.run_store.claim(f"{job}.r1", runner="h:1:1", log_path=None, now=world.clock.now())
    assert claimed is not None
    assert claimed.program.executable == PublishJob(EventName("default", "done"))
    assert claimed.ready is not None
    assert (claimed.ready.generation, claimed.ready.contributions) == (2, first.contributions)


async def test_a_rerun_waits_by_itself_whatever_the_overlap_is(world: World) -> None:
    for overlap in Overlap:
        await world.clear(rereads=False)
        waits = schedule("s", constraints=(Concurrency(1, wait=True),), overlap=overlap)
        await failed(world, waits)
        await world.satisfy(world.ready(waits, 2))
        await decide(world)
        await rerun(world)

        states = await decide(world)

        assert states == {"s.1.1": "LAUNCHED", "s.1.2": "PENDING_LAUNCH", "s.1.1.rerun-1": "PENDING_CONSTRAINT"}
        later = replace(world.ready(waits, 3), key="monday")
        await world.satisfy(later)
        states = await decide(world)
        assert states["s.1.1.rerun-1"] == "PENDING_CONSTRAINT", overlap
        assert states["s.1.3"] != "COALESCED", overlap


async def test_the_status_of_a_muted_rerun_is_stored_and_published_to_none(world: World) -> None:
    await failed(world, schedule("s", retry=Retry(2, delay=MINUTE)))
    await world.launcher.run_once()
    world.clock.advance(MINUTE)
    await end(world, f"{JOB}.r2")
    before = await announced(world)
    job = await rerun(world, muted=True)
    assert job == f"{JOB}.rerun-2"
    await decide(world)

    await end(world, f"{job}.r1")
    world.clock.advance(2 * MINUTE)
    await end(world, f"{job}.r2", RunState.COMPLETED)

    assert await announced(world) == before
    record = await world.runs.get(f"{job}.r2")
    assert (record.state, record.muted) == (RunState.COMPLETED, True)
    history = await world.reasons(action="run.muted")
    assert history[-1] == "no schedule is given its status COMPLETED"
    loud = await rerun(world, job, token="loud")
    await decide(world)
    await end(world, f"{loud}.r1", RunState.COMPLETED)
    assert len(await announced(world)) == len(before) + 2


async def test_an_inline_run_is_muted_too(world: World) -> None:
    await failed(world)
    await world.execute(PublishJob(EventName("default", "done")))
    job = await rerun(world, muted=True)
    await decide(world)
    before, batch, now = await announced(world), RunBatch(world.pool), world.clock.now()

    [claimed] = await batch.claim([f"{job}.r1"], runner="h:1:1", log_path=None, now=now)
    ended = await batch.finish({claimed.run: RunEnd(RunState.COMPLETED, "", now, 0)}, events={})

    assert ended == [f"{job}.r1"]
    assert await announced(world) == before
    assert len(await world.history(action="run.muted")) == 2


async def test_a_job_in_the_history_and_a_submission_to_a_program_are_repeated(world: World) -> None:
    first = await failed(world)
    request = SubmissionRequest(PROGRAM, "t", {"a": "1"})
    alone = (await SubmissionStore(world.pool).submit(request, now=world.clock.now())).job
    await decide(world)
    await end(world, f"{alone}.r1")
    world.clock.advance(timedelta(days=1))
    keeps = Retention(jobs=timedelta(days=30), audit=timedelta(days=30))
    assert await ArchiveLoop(Archive(world.pool), keeps, world.clock, batch=50).run_once() == 2

    jobs = [await rerun(world), await rerun(world, alone)]

    assert jobs == [f"{JOB}.rerun-1", f"{alone}.rerun-1"]
    await decide(world)
    again = await end(world, f"{JOB}.rerun-1.r1")
    assert again is not None
    assert again.contributions == first.contributions
    run = await world.runs.get(f"{alone}.rerun-1.r1")
    assert (run.schedule, run.arguments["a"]) == (None, "1")
    assert (await world.runs.get(f"{alone}.rerun-1.r1")).rerun_of == f"{alone}.r1"


async def test_failed_jobs_are_repeated_together_in_their_order_with_those_of_the_history(world: World) -> None:
    await world.define(PLAIN, schedule("other"))
    for number in range(1, 5):
        await world.satisfy(world.ready(PLAIN, number))
        await decide(world)
        state = RunState.COMPLETED if number == 3 else RunState.FAILED
        await end(world, f"default.app.s.1.{number}.r1", state)
        world.clock.advance(timedelta(hours=1))
        if number == 2:
            keeps = Retention(jobs=timedelta(days=30), audit=timedelta(days=30))
            await ArchiveLoop(Archive(world.pool), keeps, world.clock, batch=50).run_once()
    store, now = SubmissionStore(world.pool), world.clock.now()

    recent = await store.list_failed(BulkRerunRequest(PLAIN.ref, timedelta(hours=2)), now=now)
    found = await store.list_failed(BulkRerunRequest(PLAIN.ref), now=now)
    made = await store.rerun_failed(BulkRerunRequest(PLAIN.ref, token="k"), now=now)

    assert [each.id for each in recent] == ["default.app.s.1.4"]
    assert [each.run for each in found] == [f"default.app.s.1.{number}.r1" for number in (1, 2, 4)]
    assert [each.job for each in made] == [f"default.app.s.1.{number}.rerun-k" for number in (1, 2, 4)]
    submitted = [job for job in await world.stored_jobs() if job.submitted]
    ordered = [job.id for job in sorted(submitted, key=lambda job: job.satisfied_at)]
    assert ordered == [each.job for each in made]
    assert await store.list_failed(BulkRerunRequest(PLAIN.ref), now=now) == []
    again = await store.rerun_failed(BulkRerunRequest(PLAIN.ref, token="k"), now=now + timedelta(days=1))
    assert [(each.job, each.repeated) for each in again] == [(each.job, True) for each in made]
    catalog = CatalogStore(world.pool)
    await catalog.change(PLAIN.ref.owner, [PLAIN.ref], lambda app: change.disable(app, PLAIN.ref, now=now), now=now)
    with pytest.raises(ConflictError, match="is disabled"):
        await store.list_failed(BulkRerunRequest(PLAIN.ref), now=now)


async def test_more_failed_jobs_than_one_request_repeats_are_refused_with_their_number(world: World) -> None:
    await failed(world)
    await world.pool.execute(
        "INSERT INTO jobs (id, schedule, generation, sequence, program, state, satisfied_at, created_at, ready, "
        "ended_at) "
        "SELECT format('%s.1.%s', schedule, n), schedule, 1, n, program, state, created_at, created_at, ready, "
        "ended_at FROM jobs, generate_series(2, 1001) n"
    )
    await world.pool.execute(
        "INSERT INTO runs (id, job, attempt, program, executable, arguments, state, created_at, ended_at) "
        "SELECT j.id || '.r1', j.id, 1, r.program, executable, arguments, r.state, r.created_at, r.ended_at "
        "FROM jobs j, runs r WHERE j.sequence > 1"
    )
    store = SubmissionStore(world.pool)

    with pytest.raises(InvalidError, match=r"\$\.since: covers 1001 failed jobs; one request reruns at most 1000"):
        await store.rerun_failed(BulkRerunRequest(PLAIN.ref), now=world.clock.now())

    assert not any(job.submitted for job in await world.stored_jobs())


async def test_provenance_has_the_origin_the_sources_of_arguments_and_the_chain(world: World) -> None:
    first = await failed(world, schedule("s", properties={"p": "1"}, retry=Retry(2, delay=MINUTE)))
    await world.launcher.run_once()
    world.clock.advance(MINUTE)
    await end(world, f"{JOB}.r2")
    job = await rerun(world, arguments={"a": "person"}, reason="ann: fixed")
    await decide(world)
    waiting = await rerun(world, JOB, token="later", arguments={"p": "2"})

    trigger = await world.runs.provenance(RUN)
    repeated = await world.runs.provenance(f"{job}.r1")

    assert trigger.origin.kind is OriginKind.EVENTS
    assert trigger.origin.text == f"the trigger of schedule {PLAIN.ref}, by 3 events"
    assert trigger.origin.events == (f"{first.contributions[0].leaf}: 3 from 3 events",)
    assert trigger.arguments["p"] is ArgumentSource.PROPERTY
    assert trigger.arguments["trigger.job"] is ArgumentSource.TRIGGER
    assert (repeated.origin.kind, repeated.origin.rerun_of) == (OriginKind.RERUN, f"{JOB}.r2")
    assert repeated.origin.text == f"by hand, a rerun of {JOB}.r2: ann: fixed"
    assert repeated.arguments["a"] is ArgumentSource.SUBMISSION
    assert list(repeated.chain) == list(trigger.chain)
    assert [(each.job, each.attempt, each.rerun_of) for each in trigger.chain] == [
        (JOB, 1, None),
        (JOB, 2, None),
        (job, 1, f"{JOB}.r2"),
        (waiting, None, f"{JOB}.r2"),
    ]
    await world.define(schedule("s", properties={"p": "3"}), generation=2)
    assert (await world.runs.provenance(RUN)).arguments["p"] is ArgumentSource.OTHER
    with pytest.raises(NotFoundError, match="run 'nothing' was not found"):
        await world.runs.provenance("nothing")


async def test_provenance_is_the_same_from_the_history(world: World) -> None:
    await failed(world)
    job = await rerun(world)
    await decide(world)
    await end(world, f"{job}.r1", RunState.COMPLETED)
    before = [await world.runs.provenance(run) for run in (RUN, f"{job}.r1")]
    world.clock.advance(timedelta(days=1))
    keeps = Retention(jobs=timedelta(days=30), audit=timedelta(days=30))
    assert await ArchiveLoop(Archive(world.pool), keeps, world.clock, batch=50).run_once() == 2

    after = [await world.runs.provenance(run) for run in (RUN, f"{job}.r1")]

    assert after == before
    assert [each.run for each in after[0].chain] == [RUN, f"{job}.r1"]
