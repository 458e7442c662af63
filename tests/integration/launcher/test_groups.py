"""Named groups: slots that runs of several programs share, taken with the run and freed with its end."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import time, timedelta

import pytest

from streamsched.domain.constraints.group import Group
from streamsched.domain.constraints.window import TimeWindow
from streamsched.domain.errors import ConflictError
from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.schedule import OnTimeout
from streamsched.launcher.loop import Launcher
from streamsched.launcher.start import start
from streamsched.ports.runs import RunEnd
from streamsched.store.limits.groups import GroupStore
from streamsched.store.runs.run_monitor import SilentRun

from .conftest import MINUTE, World, sharing

pytestmark = pytest.mark.postgres


ONE = Group("warehouse", 1)
LEFT, RIGHT = sharing("left", ONE), sharing("right", ONE)


async def end(world: World, run: str, state: RunState = RunState.COMPLETED) -> None:
    now = world.clock.now()
    assert await world.run_store.claim(run, runner=f"host:1:{run}", log_path="/log", now=now)
    assert await world.run_store.finish(run, RunEnd(state, "", now, 0))


@pytest.fixture
async def held(world: World) -> World:
    """`left.1.1` holds the only slot, `right.1.1` waits for it."""
    await world.define(LEFT, RIGHT)
    await world.satisfy(world.ready(LEFT, 1))
    await world.launcher.run_once()
    await world.satisfy(world.ready(RIGHT, 1))
    await world.launcher.run_once()
    assert await world.states() == {"left.1.1": "PENDING_LAUNCH", "right.1.1": "PENDING_CONSTRAINT"}
    return world


@pytest.mark.parametrize("state", [RunState.COMPLETED, RunState.FAILED, RunState.KILLED])
async def test_a_slot_freed_by_any_end_of_a_run_wakes_a_job_of_another_program(held: World, state: RunState) -> None:
    await end(held, "default.app.left.1.1.r1", state)
    assert await held.launcher.run_once() == 1

    assert (await held.states())["right.1.1"] == "PENDING_LAUNCH"
    assert await held.holders() == ["default.app.right.1.1.r1"]
    assert await held.group_waits() == []


async def test_the_next_attempt_of_a_lost_run_keeps_its_slots_and_the_last_one_frees_them(held: World) -> None:
    for attempt in (1, 2):
        run = f"default.app.left.1.1.r{attempt}"
        now = held.clock.now()
        assert await held.run_store.claim(run, runner="host:1:1", log_path="/log", now=now)
        lost = await held.run_store.mark_lost(SilentRun(run, attempt, "host:1:1", now), "gone", now=now, attempts=2)
        await held.launcher.run_once()
        assert await held.holders() == [(lost and lost.next_run) or "default.app.right.1.1.r1"]


async def due(world: World) -> list[str]:
    now = world.clock.now()
    return sorted(job.id for job in await world.waiting() if job.next_check_at is not None and job.next_check_at <= now)


async def test_a_slot_wakes_as_many_as_it_is_enough_for(world: World) -> None:
    heavy = sharing("heavy", Group("warehouse", 2, weight=2))
    both = sharing("both", ONE, Group("dock", 1))
    await world.define(LEFT, RIGHT, heavy, both)
    await world.satisfy(world.ready(LEFT, 1))
    await world.launcher.run_once()
    await world.satisfy(world.ready(heavy, 1))
    world.clock.advance(timedelta(seconds=1))
    await world.satisfy(*(world.ready(RIGHT, n) for n in (1, 2, 3)), world.ready(both, 1))
    await world.launcher.run_once()
    await GroupStore(world.pool).set_limit("warehouse", 1, "", now=world.clock.now())
    assert await due(world) == []

    await end(world, "default.app.left.1.1.r1")

    assert await due(world) == ["default.app.both.1.1"]
    await world.launcher.run_once()
    assert [slot.group_name for slot in await world.slots()] == ["dock", "warehouse"]
    assert await due(world) == []


async def test_a_job_that_does_not_take_the_slot_it_was_woken_for_hands_it_on(held: World) -> None:
    shut = sharing("shut", ONE, TimeWindow(time(13), time(14)))
    await held.define(shut)
    await held.postpone_jobs(str(RIGHT.ref), MINUTE)
    await held.satisfy(held.ready(shut, 1), held.ready(shut, 2))
    await held.launcher.run_once()

    await end(held, "default.app.left.1.1.r1")
    for _ in range(3):
        assert await held.launcher.run_once() == 1

    assert await held.holders() == ["default.app.right.1.1.r1"]


async def test_the_end_of_a_run_does_not_wake_those_of_its_program_that_wait_for_slots_alone(held: World) -> None:
    await held.define(replace(sharing("free"), program=RIGHT.program))
    run = await start(held.runs, held.clock, RIGHT.program, {}, force=True, token="x")
    await held.free_slots(run)

    await end(held, run)

    assert await due(held) == []


async def test_a_raised_limit_wakes_at_once_and_is_remembered_with_who_and_why(held: World) -> None:
    groups = GroupStore(held.pool)

    record = await groups.set_limit("warehouse", 2, "ann: night shift", now=held.clock.now())

    assert (record.occupancy.limit, record.occupancy.taken) == (2, 1)
    assert await held.launcher.run_once() == 1
    assert (await held.states())["right.1.1"] == "PENDING_LAUNCH"
    assert await held.reasons(kind="group") == ["its limit is 2: ann: night shift"]


async def test_a_shut_group_admits_no_job_until_its_limit_is_taken_back(world: World) -> None:
    groups = GroupStore(world.pool)
    await groups.set_limit("warehouse", 0, "", now=world.clock.now())
    await world.define(LEFT)
    await world.satisfy(world.ready(LEFT, 1))
    await world.launcher.run_once()
    [shut] = await groups.all()
    assert (shut.waiting, shut.occupancy.taken) == (1, 0)

    await groups.set_limit("warehouse", None, "", now=world.clock.now())
    await world.launcher.run_once()

    assert await world.states() == {"left.1.1": "PENDING_LAUNCH"}


async def test_a_heavy_run_takes_its_weight(world: World) -> None:
    heavy, light = sharing("heavy", Group("w", 3, weight=2)), sharing("light", Group("w", 3))
    await world.define(heavy, light)
    await world.satisfy(*(world.ready(heavy, n) for n in (1, 2)), *(world.ready(light, n) for n in (1, 2)))
    await world.launcher.run_once()

    [record] = await GroupStore(world.pool).all()

    assert record.occupancy.taken == 3
    assert record.waiting == len([s for s in (await world.states()).values() if s == "PENDING_CONSTRAINT"])


async def test_a_job_launched_all_the_same_holds_its_slot_beyond_the_limit(held: World) -> None:
    pushy = sharing("pushy", ONE, timeout=MINUTE, on_timeout=OnTimeout.LAUNCH)
    await held.define(pushy)
    await held.satisfy(held.ready(pushy, 1))
    await held.launcher.run_once()
    held.clock.advance(2 * MINUTE)
    await held.launcher.run_once()

    [record] = await GroupStore(held.pool).all()
    assert (record.occupancy.taken, record.waiting) == (2, 1)


async def test_launchers_side_by_side_never_pass_the_limits_of_groups_that_cross(world: World) -> None:
    pairs = [(Group("a", 2), Group("b", 3, weight=2)), (Group("b", 3), Group("c", 2)), (Group("c", 2), Group("a", 2))]
    crossing = [sharing(f"s{n}", *pair) for n, pair in enumerate(pairs * 2)]
    await world.define(*crossing)
    await world.satisfy(*(world.ready(each, n) for each in crossing for n in (1, 2, 3)))
    launchers = [Launcher(world.decisions, world.run_monitor, world.notifier, world.clock) for _ in range(3)]
    limits = {"a": 2, "b": 3, "c": 2}
    for _ in range(60):
        active = await world.pending()
        for group, limit in limits.items():
            assert sum(slot.weight for slot in await world.slots(group)) <= limit
        await asyncio.gather(*(each.run_once() for each in launchers), *(end(world, run) for run in active))
        if set((await world.states()).values()) == {"LAUNCHED"}:
            break
        world.clock.advance(timedelta(milliseconds=1))
    active = await world.pending()
    await asyncio.gather(*(end(world, run) for run in active))
    assert set((await world.states()).values()) == {"LAUNCHED"}
    assert await world.size("group_slots") == 0
    assert await world.size("group_waits") == 0


async def test_a_run_by_hand_takes_the_slots_that_its_programs_schedules_take(held: World) -> None:
    with pytest.raises(ConflictError, match="1 of 1 slots of group warehouse are taken"):
        await start(held.runs, held.clock, RIGHT.program, {}, token="x")

    await end(held, "default.app.left.1.1.r1")
    run = await start(held.runs, held.clock, RIGHT.program, {}, token="x")
    await held.launcher.run_once()

    assert await held.holders() == [run]
    assert (await held.states())["right.1.1"] == "PENDING_CONSTRAINT"
    await end(held, run)
    await held.launcher.run_once()
    assert (await held.states())["right.1.1"] == "PENDING_LAUNCH"


async def test_a_run_by_hand_may_be_forced_beyond_a_group(held: World) -> None:
    run = await start(held.runs, held.clock, RIGHT.program, {}, force=True, token="x")

    assert sorted(await held.holders()) == ["default.app.left.1.1.r1", run]
