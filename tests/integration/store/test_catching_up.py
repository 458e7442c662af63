"""Missed ticks on a real PostgreSQL: as many as the schedule wants back, as fast as it wants them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from streamsched.codec.records import signal as signal_codec
from streamsched.domain.events.event import Ticked
from streamsched.domain.schedules.catchup import UNBOUNDED, CatchUp
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import Misfire, Schedule
from streamsched.domain.signals.signal import Occurred
from streamsched.domain.triggers.trigger import Every, Trigger

from .conftest import FLIGHTS, CatalogProcess, app, schedule
from .wakeful import timers

pytestmark = pytest.mark.postgres

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


async def deploy(scheduler: CatalogProcess, made: Schedule) -> None:
    async with scheduler.relaying():
        await scheduler.catalog.deploy(app(made)).apply()


async def facts(scheduler: CatalogProcess) -> list[Ticked]:
    """The ticks in the outbox."""
    found: list[Ticked] = []
    for record in await scheduler.outbox.list_pending(limit=1000):
        signal = signal_codec.decode(record.key.encode(), record.value)
        assert isinstance(signal, Occurred)
        assert isinstance(signal.event.fact, Ticked)
        found.append(signal.event.fact)
    return found


async def minutes(scheduler: CatalogProcess) -> list[int]:
    """The ticks in the outbox, in minutes from the first look at the clock."""
    return [round(each.due_at.timestamp() - START) // 60 for each in await facts(scheduler)]


START = 1767225600  # 2026-01-01T00:00:00Z, where a scheduler's clock begins


async def test_a_window_and_a_bound_leave_the_newest_and_history_knows_the_others(scheduler: CatalogProcess) -> None:
    bounds = CatchUp(window=10 * MINUTE, at_most=4)
    made = schedule(trigger=Every(MINUTE), misfire=Misfire.ALL, catch_up=bounds, overlap=Overlap.QUEUE)
    await deploy(scheduler, made)
    scheduler.clock.advance(60 * MINUTE)

    await timers(scheduler).run_once()

    assert await minutes(scheduler) == [57, 58, 59, 60]
    (line,) = [
        each for each in await scheduler.reader.history("schedule", str(schedule().ref)) if "skipped" in each.action
    ]
    assert (line.detail or {})["skipped"] == 56


@pytest.mark.parametrize(
    ("overlap", "jobs", "action", "said"),
    [
        (Overlap.COALESCE, [[*range(1, 41)]], "ticks_joined", "39 missed ticks joined the job of the newest"),
        (Overlap.LATEST, [[40]], "ticks_skipped", "39 missed ticks gave way to the newest"),
        (Overlap.CANCEL_RUNNING, [[40]], "ticks_skipped", "39 missed ticks gave way to the newest"),
        (Overlap.KILL_RUNNING, [[40]], "ticks_skipped", "39 missed ticks gave way to the newest"),
        (Overlap.QUEUE, [[each] for each in range(1, 41)], "", ""),
        (Overlap.SKIP, [[each] for each in range(1, 41)], "", ""),
    ],
)
async def test_forty_minutes_of_missed_ticks_make_the_jobs_that_overlap_says(
    scheduler: CatalogProcess, overlap: Overlap, jobs: list[list[int]], action: str, said: str
) -> None:
    """With `coalesce` and `latest` they started 40 runs, for none of them waited when the next came."""
    await deploy(scheduler, schedule(trigger=Every(MINUTE), misfire=Misfire.ALL, overlap=overlap))
    scheduler.clock.advance(40 * MINUTE)

    await timers(scheduler).run_once()

    assert [[round(at.timestamp() - START) // 60 for at in each.times] for each in await facts(scheduler)] == jobs
    lines = [each for each in await scheduler.reader.history("schedule", str(schedule().ref)) if "ticks" in each.action]
    assert [(each.action, each.reason.startswith(said)) for each in lines] == ([(action, True)] if action else [])


@pytest.mark.parametrize(
    ("trigger", "late", "bounds", "fired"),
    [
        (Every(MINUTE) | FLIGHTS, 40 * MINUTE, UNBOUNDED, 1),
        (Every(MINUTE) & FLIGHTS, 40 * MINUTE, UNBOUNDED, 40),  # a tick alone makes no job
        (Every(MINUTE), 40 * MINUTE, CatchUp(spacing=SECOND), 1),  # now; each of the others by itself, later
        (Every(SECOND), 10 * SECOND, UNBOUNDED, 10),  # none of them was missed
        (Every(SECOND), 61 * SECOND, UNBOUNDED, 61),  # the first is as late as a tick may be
        (Every(SECOND), 62 * SECOND, UNBOUNDED, 1),
    ],
)
async def test_only_missed_ticks_that_would_each_make_a_job_at_once_join(
    scheduler: CatalogProcess, trigger: Trigger, late: timedelta, bounds: CatchUp, fired: int
) -> None:
    await deploy(scheduler, schedule(trigger=trigger, misfire=Misfire.ALL, catch_up=bounds))
    scheduler.clock.advance(late)

    await timers(scheduler).run_once()

    assert len(await minutes(scheduler)) == fired


async def test_ticks_are_spread_by_any_instances_in_turn_and_then_on_time_again(scheduler: CatalogProcess) -> None:
    bounds = CatchUp(at_most=3, spacing=10 * SECOND)
    await deploy(scheduler, schedule(trigger=Every(MINUTE), misfire=Misfire.ALL, catch_up=bounds))
    scheduler.clock.advance(60 * MINUTE + SECOND)
    begin = scheduler.clock.now()

    assert await timers(scheduler).run_once() == begin + 10 * SECOND
    assert await minutes(scheduler) == [58]
    scheduler.clock.advance(10 * SECOND - timedelta(microseconds=1))
    assert await timers(scheduler).run_once() == begin + 10 * SECOND
    scheduler.clock.set(begin + 10 * SECOND)
    assert await timers(scheduler).run_once() == begin + 20 * SECOND
    assert await minutes(scheduler) == [58, 59]
    scheduler.clock.set(begin + 20 * SECOND)
    assert await timers(scheduler).run_once() == begin + 59 * SECOND
    scheduler.clock.set(begin + 59 * SECOND)
    await timers(scheduler).run_once()

    assert await minutes(scheduler) == [58, 59, 60, 61]
    assert await scheduler.pool.fetchval("SELECT tick_at FROM timers") is None


async def test_a_change_in_the_middle_of_a_catch_up_begins_anew(scheduler: CatalogProcess) -> None:
    bounds = CatchUp(at_most=3, spacing=MINUTE)
    await deploy(scheduler, schedule(trigger=Every(MINUTE), misfire=Misfire.ALL, catch_up=bounds))
    scheduler.clock.advance(60 * MINUTE)
    await timers(scheduler).run_once()
    async with scheduler.relaying():
        await scheduler.catalog.update(
            schedule(trigger=Every(5 * MINUTE), misfire=Misfire.ALL, catch_up=bounds)
        ).apply()

    assert await timers(scheduler).run_once() == scheduler.clock.now() + 5 * MINUTE


async def test_a_disabled_schedule_has_no_timers_and_enabled_again_it_makes_up_for_nothing(
    scheduler: CatalogProcess,
) -> None:
    await deploy(scheduler, schedule(trigger=Every(MINUTE), misfire=Misfire.ALL))
    scheduler.clock.advance(MINUTE)  # due, and not yet fired
    async with scheduler.relaying():
        await scheduler.catalog.disable(schedule().ref).apply()
        scheduler.clock.advance(30 * MINUTE)
        assert await timers(scheduler).run_once() is None
        await scheduler.catalog.enable(schedule().ref).apply()

    assert await timers(scheduler).run_once() == scheduler.clock.now() + MINUTE
    assert await minutes(scheduler) == []
