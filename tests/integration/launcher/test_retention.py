"""What has ended leaves for the history and is dropped when it is old; answers stay, tables stay small, and no
satisfaction comes back.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

import asyncpg
import pytest

from streamsched.domain.constraints.constraint import Delay, LastRun
from streamsched.domain.decisions.retention import Retention, day_of, month_of
from streamsched.domain.errors import NotFoundError
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.launcher.retention import ArchiveLoop
from streamsched.launcher.why import explain_job
from streamsched.ports.runs import RunEnd
from streamsched.store.jobs.archive import Archive
from streamsched.store.partitioned import AUDIT, JOBS, RUNS, WORK, partition_states

from .conftest import MINUTE, PROGRAM, World, schedule

pytestmark = pytest.mark.postgres

DAY = timedelta(days=1)
PLAIN = schedule("plain")
KEEPS = Retention(jobs=30 * DAY, audit=90 * DAY)


def retirement(world: World, keeps: Retention = KEEPS) -> ArchiveLoop:
    return ArchiveLoop(Archive(world.pool), keeps, world.clock, batch=50)


async def launch(world: World) -> None:
    """Everything that is due is admitted, claimed and completed."""
    await world.launcher.run_once()
    for run in await world.runs.list_recent(states=(RunState.PENDING,)):
        await finish(world, run.id)


async def finish(world: World, run: str, state: RunState = RunState.COMPLETED) -> None:
    now = world.clock.now()
    assert await world.run_store.claim(run, runner="here:1:1", log_path="/log", now=now)
    await world.run_store.mark_started(run, runner="here:1:1", now=now)
    await world.run_store.finish(run, RunEnd(state, "", now, 0 if state is RunState.COMPLETED else 1))


async def amounts(world: World) -> dict[str, int]:
    tables = "jobs", "runs", "jobs_history", "runs_history", "work_decisions", "audit_decisions"
    return {table: await world.size(table) for table in tables}


async def test_a_job_that_has_ended_leaves_with_its_runs_and_is_answered_for_as_before(world: World) -> None:
    await world.define(schedule("plain", constraints=(Delay(MINUTE),)))
    await world.satisfy(world.ready(PLAIN, 1))
    await world.launcher.run_once()
    await world.satisfy(world.ready(PLAIN, 2))
    await world.launcher.run_once()
    world.clock.advance(MINUTE)
    await world.launcher.run_once()
    await finish(world, "default.app.plain.1.1.r1")
    job, run = await world.jobs.get("default.app.plain.1.1"), await world.runs.get("default.app.plain.1.1.r1")
    reported = await explain_job(job.id, jobs=world.jobs, clock=world.clock)
    newest, runs = await world.jobs.list_recent(), await world.runs.list_recent()
    since = job.satisfied_at
    span = await world.jobs.span(PLAIN.ref, since=since, until=since)
    assert [each.state for each in newest] == [JobState.COALESCED, JobState.LAUNCHED]

    world.clock.advance(timedelta(hours=2))
    left = await retirement(world).run_once()

    assert left == len(newest)
    assert (await amounts(world))["jobs"] == (await amounts(world))["runs"] == 0
    assert await world.jobs.get(job.id) == job
    assert await world.runs.get(run.id) == run
    assert (await world.jobs.list_recent(), await world.runs.list_recent()) == (newest, runs)
    assert await world.jobs.list_recent(schedule=PLAIN.ref, states=(JobState.ABORTED,)) == []
    assert await world.runs.list_recent(program=PROGRAM, states=(RunState.COMPLETED,)) == runs
    again = await explain_job(job.id, jobs=world.jobs, clock=world.clock)
    assert (again.summary, again.history, again.satisfied_by) == (
        reported.summary,
        reported.history,
        reported.satisfied_by,
    )
    assert (await world.jobs.span(PLAIN.ref, since=since, until=since)).jobs == span.jobs


async def test_who_waits_runs_or_may_still_be_counted_stays(world: World) -> None:
    spaced = schedule("spaced", constraints=(LastRun(5 * DAY, wait=True),))
    await world.define(spaced)
    await world.satisfy(world.ready(spaced, 1))
    await launch(world)
    world.clock.advance(2 * DAY)
    await world.satisfy(world.ready(spaced, 2))
    await world.launcher.run_once()

    assert await retirement(world).run_once() == 0, "a constraint looks back on the run"
    assert (await world.jobs.get("default.app.spaced.1.2")).next_check_at == world.clock.now() + 3 * DAY

    world.clock.advance(3 * DAY)
    await world.launcher.run_once()
    [run] = await world.runs.list_recent(states=(RunState.PENDING,))
    world.clock.advance(40 * DAY)
    assert await retirement(world).run_once() == 1, "the first: nothing looks so far back"
    assert (await world.runs.get(run.id)).state is RunState.PENDING, "however old"
    assert (await world.jobs.get("default.app.spaced.1.2")).state is JobState.PENDING_LAUNCH
    with pytest.raises(NotFoundError):
        await world.jobs.get("default.app.spaced.1.1")


async def test_a_satisfaction_that_comes_again_makes_no_job_however_long_ago_it_was(world: World) -> None:
    """G3 needs no row: what has left is known by its place in its schedule's order."""
    await world.define(PLAIN)
    first, second = world.ready(PLAIN, 1), world.ready(PLAIN, 2)
    for each in first, second:
        await world.satisfy(each)
        await launch(world)
    for days in (1, 40):
        world.clock.advance(days * DAY)
        await retirement(world).run_once()
        await world.satisfy(second, first)
        assert await world.states() == {}

    await world.satisfy(world.ready(PLAIN, 3))
    await launch(world)
    assert await world.states() == {"plain.1.3": "LAUNCHED"}
    await world.define(PLAIN, generation=2)
    await world.satisfy(second, world.ready(PLAIN, 1, generation=2))
    assert list(await world.states()) == ["plain.1.3", "plain.2.1"]


async def test_two_who_keep_scheduler_at_once_lose_and_double_nothing(world: World) -> None:
    await world.define(schedule("plain", constraints=()))
    for n in range(1, 121):
        await world.satisfy(world.ready(PLAIN, n))
        if n % 40 == 0:
            await launch(world)
    everything = [job.id for job in await world.jobs.list_recent(limit=1000)]
    world.clock.advance(DAY)

    await asyncio.gather(*(retirement(world).run_once() for _ in range(3)))

    assert [job.id for job in await world.jobs.list_recent(limit=1000)] == everything
    assert (await amounts(world))["jobs"] == 0


async def test_a_run_by_hand_leaves_too(world: World) -> None:
    await world.define(PLAIN)
    run = await world.runs.start(PROGRAM, {}, token="x", at_most=None, force=False, now=world.clock.now())
    await finish(world, run)
    world.clock.advance(DAY)

    assert await retirement(world).run_once() == 1

    assert (await world.runs.get(run)).state is RunState.COMPLETED
    again = await world.runs.start(PROGRAM, {}, token="x", at_most=None, force=False, now=world.clock.now())
    assert (again, (await amounts(world))["runs"]) == (run, 0)


async def test_a_day_that_is_being_read_is_dropped_the_next_time(world: World) -> None:
    await world.define(PLAIN)
    await world.satisfy(world.ready(PLAIN, 1))
    await launch(world)
    world.clock.advance(DAY)
    await retirement(world).run_once()
    world.clock.advance(40 * DAY)
    reader = await asyncpg.connect(world.dsn)
    async with reader.transaction():
        await reader.fetch("SELECT FROM jobs_history")
        await retirement(world).run_once()
        assert (await amounts(world))["jobs_history"] == 1
    await reader.close()

    await retirement(world).run_once()

    assert (await amounts(world))["jobs_history"] == 0


async def test_history_that_came_before_its_day_was_made_is_sorted_in(world: World) -> None:
    archive = Archive(world.pool)
    now = world.clock.now()
    for kind, ago in (("job", 0), ("job", 3), ("schedule", 0), ("schedule", 60)):
        await world.add_line(kind, "s", "x", now - ago * DAY)
    assert len(await archive.early_rows()) == 4

    await retirement(world).run_once()

    assert await archive.early_rows() == []
    assert (await amounts(world))["work_decisions"] == (await amounts(world))["audit_decisions"] == 2
    assert len(await world.history("s")) == 4


_PARTITIONS = "SELECT count(*) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE c.relkind = 'r'"


@pytest.mark.long
async def test_a_year_passes_and_the_tables_stay_as_they_are(world: World) -> None:
    await world.define(PLAIN)
    retiring = retirement(world)
    sizes: list[dict[str, int]] = []
    parts: list[int] = []
    for week in range(1, 53):
        for n in range(3):
            await world.satisfy(world.ready(PLAIN, 3 * week + n))
            await launch(world)
        await world.add_line("schedule", str(PLAIN.ref), "paused", world.clock.now())
        world.clock.advance(7 * DAY)
        await retiring.run_once()
        sizes.append(await amounts(world))
        parts.append(await world.pool.fetchval(_PARTITIONS))

    assert all(size["jobs"] == size["runs"] == 0 for size in sizes)
    later = sizes[6:]
    assert {size["jobs_history"] for size in later} == {size["runs_history"] for size in later} == {3 * 4}
    assert len({size["work_decisions"] for size in later}) == 1
    assert max(size["audit_decisions"] for size in sizes) <= 18, "four months of weeks"
    assert max(parts[20:]) <= max(parts[8:20]) + 3, "a few partitions more or less"
    await world.reread_log()
    await world.satisfy()
    assert await world.states() == {}, "a year of satisfactions read again"


def test_days_and_months_meet_without_a_gap() -> None:
    at = datetime.fromisoformat("2024-01-31T23:59:59.999999+00:00")
    for of in day_of, month_of:
        part = of(at)
        for _ in range(800):
            assert part.begins <= part.ends - DAY
            assert of(part.begins) == part
            part, before = of(part.ends), part
            assert part.begins == before.ends


async def test_what_is_kept_for_hours_goes_after_hours(world: World) -> None:
    """36 h are 36 h and at most one more, and a longer time set later keeps what there is."""
    await world.define(PLAIN)
    hours = timedelta(hours=1)
    keeps = Retention(jobs=36 * hours, audit=36 * hours)
    for n in range(1, 60):
        await world.satisfy(world.ready(PLAIN, n))
        await launch(world)
        await world.add_line("schedule", str(PLAIN.ref), "paused", world.clock.now())
        world.clock.advance(hours)
        await retirement(world, keeps).run_once()

    oldest = {each.table: each.oldest for each in await partition_states(world.pool)}
    ages = [(world.clock.now() - at) / hours for table in (JOBS, RUNS, WORK, AUDIT) if (at := oldest[table])]
    assert len(ages) == 4
    assert all(35 <= age <= 37 for age in ages), ages

    keeps = replace(keeps, jobs=7 * DAY, audit=7 * DAY)
    world.clock.advance(hours)
    before = await amounts(world)
    await retirement(world, keeps).run_once()
    for n in range(60, 64):
        await world.satisfy(world.ready(PLAIN, n))
        await launch(world)
        world.clock.advance(7 * hours)
        await retirement(world, keeps).run_once()
    after = await amounts(world)
    assert after["jobs_history"] == before["jobs_history"] + before["jobs"] + 4, "none was dropped, none refused"
    assert await world.size("work_decisions_rest") == 0
