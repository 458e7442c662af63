"""A schedule pauses itself when its runs fail too often in a row; people are never overruled."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from streamsched.catalog.change import enable
from streamsched.catalog.resumption import Resumption
from streamsched.domain.decisions.retention import Retention
from streamsched.domain.jobs.failure import Failure
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.pause import Pause, PauseAfter, PauseMode
from streamsched.domain.schedules.retry import Retry
from streamsched.domain.schedules.schedule import Schedule, ScheduleRecord
from streamsched.launcher.retention import ArchiveLoop
from streamsched.ports.runs import RunEnd, StopRequest
from streamsched.store.catalog.catalog import CatalogStore
from streamsched.store.catalog.catalog_reader import CatalogReader
from streamsched.store.catalog.pauses import PauseStore
from streamsched.store.jobs.archive import Archive

from .conftest import World, schedule

pytestmark = pytest.mark.postgres

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
FRAGILE = schedule("plain", pause_after=PauseAfter(3))


def resumption(world: World) -> Resumption:
    store = CatalogStore(world.pool)
    return Resumption(store=store, pauses=PauseStore(world.pool), notifier=world.notifier, clock=world.clock)


async def begin(world: World, plain: Schedule, number: int, *, generation: int = 1) -> str:
    await world.satisfy(world.ready(plain, number, generation=generation))
    await world.launcher.run_once()
    run = f"default.app.plain.{generation}.{number}.r1"
    assert await world.run_store.claim(run, runner="here:1:1", log_path="/log", now=world.clock.now())
    await world.run_store.mark_started(run, runner="here:1:1", now=world.clock.now())
    return run


async def end(world: World, run: str, state: RunState) -> None:
    code = {RunState.COMPLETED: 0, RunState.FAILED: 1}.get(state)
    await world.run_store.finish(run, RunEnd(state, "exit code 1", world.clock.now(), code))


async def ran(world: World, plain: Schedule, *states: RunState, first: int = 1, generation: int = 1) -> None:
    for number, state in enumerate(states, first):
        await end(world, await begin(world, plain, number, generation=generation), state)
        world.clock.advance(timedelta(minutes=1))


async def current(world: World) -> ScheduleRecord:
    return (await CatalogReader(world.pool).schedule(FRAGILE.ref)).record


async def test_the_third_failure_in_a_row_pauses_it_and_says_why(world: World) -> None:
    await world.define(FRAGILE)
    await ran(world, FRAGILE, RunState.FAILED, RunState.FAILED)
    await resumption(world).run_once()
    assert (await current(world)).enabled

    await ran(world, FRAGILE, RunState.FAILED, first=3)
    await asyncio.gather(*(resumption(world).run_once() for _ in range(3)))

    record = await current(world)
    note = "paused by itself, for 3 runs in a row failed, the last default.app.plain.1.3.r1: exit code 1"
    assert (record.enabled, record.generation, record.pause) == (False, 2, Pause(note=note))
    [line] = await CatalogReader(world.pool).history("schedule", str(FRAGILE.ref))
    assert (line.action, line.reason) == ("paused", note)
    assert await world.size("breaks") == 0


async def test_a_success_between_them_or_a_run_that_a_user_killed_is_no_failure(world: World) -> None:
    await world.define(FRAGILE)
    await ran(world, FRAGILE, RunState.FAILED, RunState.FAILED, RunState.COMPLETED, RunState.FAILED, RunState.FAILED)
    run = await begin(world, FRAGILE, 6)
    await world.runs.stop(run, StopRequest("not today"), now=world.clock.now())
    await end(world, run, RunState.KILLED)
    await resumption(world).run_once()
    assert (await current(world)).enabled

    await ran(world, FRAGILE, RunState.FAILED, first=7)
    await resumption(world).run_once()
    assert not (await current(world)).enabled, "the killed one breaks no row either"


async def test_attempts_of_one_job_are_one_failure(world: World) -> None:
    plain = schedule("plain", pause_after=PauseAfter(2), retry=Retry(3, frozenset({Failure.ERROR}), delay=timedelta(0)))
    await world.define(plain)
    run = await begin(world, plain, 1)
    for attempt in (1, 2, 3):
        if attempt > 1:
            run = f"default.app.plain.1.1.r{attempt}"
            assert await world.run_store.claim(run, runner="here:1:1", log_path="/log", now=world.clock.now())
        await end(world, run, RunState.FAILED)
    await resumption(world).run_once()
    assert (await current(world)).enabled

    run = await begin(world, plain, 2)
    await end(world, run, RunState.FAILED)
    await resumption(world).run_once()
    assert (await current(world)).enabled, "its attempts go on"


async def test_who_changes_the_schedule_first_is_not_overruled(world: World) -> None:
    await world.define(FRAGILE)
    await ran(world, FRAGILE, *[RunState.FAILED] * 3)
    await world.define(FRAGILE, generation=2)  # it was paused and enabled in between

    await resumption(world).run_once()

    assert (await current(world)).enabled
    assert await world.size("breaks") == 0


async def test_after_a_time_it_goes_on_and_begins_to_count_anew(world: World) -> None:
    plain = schedule("plain", pause_after=PauseAfter(2, keep=False, lasting=HOUR))
    await world.define(plain)
    await ran(world, plain, RunState.FAILED, RunState.FAILED)
    until = await resumption(world).run_once()
    assert until is not None
    assert (await current(world)).pause == Pause(PauseMode.DROP, until=until, note=(await current(world)).pause.note)  # type: ignore[union-attr]

    world.clock.set(until)
    await resumption(world).run_once()
    record = await current(world)
    assert (record.enabled, record.generation) == (True, 3)

    await ran(world, plain, RunState.FAILED, generation=3)
    await resumption(world).run_once()
    assert (await current(world)).enabled, "one failure since it was resumed"
    await ran(world, plain, RunState.FAILED, first=2, generation=3)
    await resumption(world).run_once()
    assert not (await current(world)).enabled


async def test_enabling_by_hand_at_the_same_moment_leaves_one_of_the_two_in_force(world: World) -> None:
    await world.define(FRAGILE)
    await ran(world, FRAGILE, *[RunState.FAILED] * 3)
    await resumption(world).run_once()
    store = CatalogStore(world.pool)
    now = world.clock.now()

    await asyncio.gather(
        store.change(FRAGILE.ref.owner, [FRAGILE.ref], lambda app: enable(app, FRAGILE.ref, now=now), now=now),
        *(resumption(world).run_once() for _ in range(3)),
    )

    record = await current(world)
    assert (record.enabled, record.generation, record.pause) == (True, 3, None)


async def test_failures_are_counted_though_their_jobs_left_for_the_history(world: World) -> None:
    await world.define(FRAGILE)
    retiring = ArchiveLoop(Archive(world.pool), Retention(), world.clock)
    for number in (1, 2, 3):
        await ran(world, FRAGILE, RunState.FAILED, first=number)
        world.clock.advance(DAY)
        await retiring.run_once()
    assert {job.state for job in await world.jobs.list_recent()} == {JobState.LAUNCHED}
    await resumption(world).run_once()
    assert not (await current(world)).enabled

    now = world.clock.now()
    await CatalogStore(world.pool).change(
        FRAGILE.ref.owner, [FRAGILE.ref], lambda app: enable(app, FRAGILE.ref, now=now), now=now
    )
    for number in (1, 2, 3):
        await resumption(world).run_once()
        assert (await current(world)).enabled, "what failed before it was resumed does not count"
        await ran(world, FRAGILE, RunState.FAILED, first=number, generation=3)
        world.clock.advance(DAY)
        await retiring.run_once()
    await resumption(world).run_once()
    assert not (await current(world)).enabled
