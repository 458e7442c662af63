"""Pools: places given in the order of a line, whatever program, launcher or moment asks first."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from streamsched.domain.constraints.constraint import Constraint, Delay
from streamsched.domain.constraints.pool import Pool
from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import Schedule
from streamsched.launcher.loop import Launcher
from streamsched.launcher.start import start
from streamsched.launcher.why import explain_job
from streamsched.ports.runs import RunEnd
from streamsched.store.limits.groups import GroupStore
from streamsched.store.limits.pools import PoolStore

from .conftest import MINUTE, World, schedule

pytestmark = pytest.mark.postgres


def pooled(name: str, priority: int = 0, *more: Constraint, size: int = 1, **fields: object) -> Schedule:
    """A schedule of a program of its own."""
    plain = schedule(name, constraints=(Pool("p", size, priority), *more), overlap=Overlap.QUEUE, **fields)
    return replace(plain, program=ProgramRef("default", "app", f"program-{name}"))


LOW, MIDDLE, HIGH = pooled("low", -5), pooled("middle"), pooled("high", 5)


def running(states: dict[str, str]) -> list[str]:
    return [job for job, state in states.items() if state == "PENDING_LAUNCH"]


async def end(world: World, run: str) -> None:
    now = world.clock.now()
    assert await world.run_store.claim(run, runner=f"host:1:{run}", log_path="/log", now=now)
    assert await world.run_store.finish(run, RunEnd(RunState.COMPLETED, "", now, 0))


async def settle(world: World) -> None:
    """Launchers look until there is nothing to do; bounded."""
    for _ in range(20):
        if not await world.launcher.run_once():
            return
    raise AssertionError("it never rests")


async def order(world: World) -> list[str]:
    """The jobs in the order of their runs, each ended before the next can begin."""
    begun: list[str] = []
    while True:
        await settle(world)
        live = [run.id for run in await world.active()]
        if not live:
            return begun
        assert len(live) == 1
        begun.append(live[0].removeprefix("default.app.").removesuffix(".r1"))
        await end(world, live[0])


async def test_high_goes_first_whichever_program_is_looked_at_first(world: World) -> None:
    await world.define(LOW, MIDDLE, HIGH)
    await world.satisfy(*(world.ready(each, n) for each in (LOW, MIDDLE, HIGH) for n in (1, 2)))

    assert await order(world) == ["high.1.1", "high.1.2", "middle.1.1", "middle.1.2", "low.1.1", "low.1.2"]


async def test_a_point_is_worth_a_minute_so_who_waits_long_enough_goes_before_the_high(world: World) -> None:
    await world.define(LOW, HIGH)
    await world.satisfy(world.ready(LOW, 1), world.ready(LOW, 2))
    world.clock.advance(9 * MINUTE)
    await world.satisfy(world.ready(HIGH, 1))
    world.clock.advance(2 * MINUTE)
    await world.satisfy(world.ready(HIGH, 2))

    assert await order(world) == ["high.1.1", "low.1.1", "low.1.2", "high.1.2"]


async def test_low_takes_what_the_high_leave_free_and_goes_on_when_they_come(world: World) -> None:
    low, high = pooled("low", 0, size=2), pooled("high", 9, size=2)
    await world.define(low, high)
    await world.satisfy(*(world.ready(low, n) for n in (1, 2, 3)))
    await settle(world)
    await world.satisfy(world.ready(high, 1))
    await settle(world)
    assert running(await world.states()) == ["low.1.1", "low.1.2"]

    await end(world, "default.app.low.1.2.r1")
    await settle(world)

    assert running(await world.states()) == ["high.1.1", "low.1.1"]


async def test_who_is_held_back_by_something_else_stands_in_no_others_way(world: World) -> None:
    high = pooled("high", 9, Delay(10 * MINUTE))
    await world.define(high, LOW)
    await world.satisfy(world.ready(high, 1), world.ready(LOW, 1))
    await settle(world)
    assert running(await world.states()) == ["low.1.1"]

    await world.satisfy(world.ready(LOW, 2))
    world.clock.advance(10 * MINUTE)
    await settle(world)
    await end(world, "default.app.low.1.1.r1")
    await settle(world)

    assert running(await world.states()) == ["high.1.1"], "its delay is over and it stands before low.1.2"


async def test_who_ended_without_a_word_is_passed_within_seconds(world: World) -> None:
    await world.define(LOW, HIGH)
    await world.satisfy(world.ready(LOW, 1), world.ready(HIGH, 1))
    await world.decide("default.app.program-low")
    turn = (await world.job("default.app.low.1.1")).next_check_at
    assert turn is not None
    assert (turn - world.clock.now()).total_seconds() == 5, "a place is free, and high.1.1 has not taken it"
    await world.remove_jobs(str(HIGH.ref))

    world.clock.advance(MINUTE / 10)
    await settle(world)

    assert running(await world.states()) == ["low.1.1"]


async def test_who_cannot_be_read_leaves_the_line_and_comes_back_to_its_place(world: World) -> None:
    await world.define(LOW, HIGH)
    await world.satisfy(world.ready(LOW, 1))
    await settle(world)
    readable = await world.text("programs", str(HIGH.program))
    await world.put_text("programs", {}, str(HIGH.program))
    await world.satisfy(world.ready(HIGH, 1), *(world.ready(LOW, n) for n in (2, 3)))
    await settle(world)
    assert await world.line() == [
        "default.app.low.1.2",
        "default.app.low.1.3",
    ]
    await end(world, "default.app.low.1.1.r1")
    await settle(world)
    assert running(await world.states()) == ["low.1.2"]

    await world.put_text("programs", readable, str(HIGH.program))
    world.clock.advance(MINUTE)
    await settle(world)
    await end(world, "default.app.low.1.2.r1")
    await settle(world)
    assert running(await world.states()) == ["high.1.1"]


async def test_who_waits_behind_one_that_cannot_be_read_is_looked_at_at_once(world: World) -> None:
    await world.define(LOW, HIGH)
    await world.put_text("programs", {}, str(HIGH.program))
    await world.satisfy(world.ready(LOW, 1), world.ready(HIGH, 1))
    await world.decide("default.app.program-low")
    assert running(await world.states()) == [], "high.1.1 stands before it"

    await world.launcher.run_once()  # puts high.1.1 off, and rings
    await settle(world)

    assert running(await world.states()) == ["low.1.1"]


async def test_why_says_who_has_the_places_and_who_stands_before(world: World) -> None:
    await world.define(LOW, MIDDLE, HIGH)
    await world.satisfy(world.ready(MIDDLE, 1))
    await settle(world)
    await world.satisfy(world.ready(LOW, 1), world.ready(HIGH, 1))
    await settle(world)

    answer = await explain_job("default.app.low.1.1", jobs=world.jobs, clock=world.clock)

    assert answer.summary == (
        "it waits: 1 of 1 places of pool p are taken: default.app.middle.1.1.r1; "
        "1 job is ahead of this one: default.app.high.1.1"
    )
    [clause] = answer.clauses
    assert clause.needs == "a place of 1 in pool p, priority -5"
    assert [holder.run for holder in clause.holders] == ["default.app.middle.1.1.r1"]


async def test_size_priority_and_age_change_while_everything_runs(world: World) -> None:
    pools = PoolStore(world.pool)
    await world.define(LOW, MIDDLE, HIGH)
    await world.satisfy(*(world.ready(each, n) for each in (LOW, MIDDLE, HIGH) for n in (1, 2)))
    await settle(world)
    assert running(await world.states()) == ["high.1.1"]

    record = await pools.set("p", 2, None, "ann: night shift", now=world.clock.now())
    assert (record.places.limit, record.places.taken, record.waiting) == (2, 1, 5)
    assert [(each.schedule.name, each.priority) for each in record.members] == [("high", 5), ("middle", 0), ("low", -5)]
    await settle(world)
    assert running(await world.states()) == ["high.1.1", "high.1.2"]

    assert await pools.prioritize(LOW.ref, 100, "bob", now=world.clock.now()) == "p"
    await pools.set("p", 3, None, "", now=world.clock.now())
    await settle(world)
    assert running(await world.states()) == ["high.1.1", "high.1.2", "low.1.1"]

    await pools.prioritize(LOW.ref, None, "", now=world.clock.now())
    await pools.set("p", 4, 0 * MINUTE, "", now=world.clock.now())
    await settle(world)
    assert running(await world.states()) == ["high.1.1", "high.1.2", "low.1.1", "middle.1.1"], (
        "without age they go as they came, by number and name"
    )
    assert "its size is 2: ann: night shift" in await world.reasons()
    with pytest.raises(NotFoundError):
        await pools.prioritize(schedule("none").ref, 1, "", now=world.clock.now())


async def test_a_shut_pool_admits_no_job(world: World) -> None:
    pools = PoolStore(world.pool)
    await pools.set("p", 0, None, "", now=world.clock.now())
    await world.define(HIGH)
    await world.satisfy(world.ready(HIGH, 1))
    await settle(world)
    assert running(await world.states()) == []

    await pools.set("p", None, None, "", now=world.clock.now())
    await settle(world)
    assert running(await world.states()) == ["high.1.1"]


async def test_a_run_by_hand_takes_a_place_or_is_refused_and_can_be_forced(world: World) -> None:
    await world.define(HIGH)
    await start(world.runs, world.clock, HIGH.program, {}, token="x")
    await world.satisfy(world.ready(HIGH, 1))
    await settle(world)
    assert running(await world.states()) == []

    with pytest.raises(ConflictError, match=r"1 of 1 places of pool p are taken: .*manual-x.r1"):
        await start(world.runs, world.clock, HIGH.program, {}, token="y")
    await start(world.runs, world.clock, HIGH.program, {}, token="y", force=True)

    await end(world, f"{HIGH.program}.manual-x.r1")
    await settle(world)
    assert running(await world.states()) == [], "one is too many still"
    await end(world, f"{HIGH.program}.manual-y.r1")
    await settle(world)
    assert running(await world.states()) == ["high.1.1"]


async def test_a_pool_is_no_group_and_its_line_is_swept(world: World) -> None:
    await world.define(HIGH, LOW)
    await world.satisfy(world.ready(HIGH, 1), world.ready(LOW, 1))
    await settle(world)
    assert await GroupStore(world.pool).all() == []
    assert await world.line() == ["default.app.low.1.1"]

    await world.end_jobs(JobState.OBSOLETE, world.clock.now())
    await world.decisions.recheck_all(before=world.clock.now())

    assert await world.line() == []


async def test_two_launchers_give_every_place_once_and_in_order(world: World) -> None:
    known = [pooled(f"s{n}", n, size=3) for n in range(6)]
    await world.define(*known)
    await world.satisfy(*(world.ready(each, n) for each in known for n in (1, 2)))
    other = Launcher(world.decisions, world.run_monitor, world.notifier, world.clock)
    for _ in range(10):
        await asyncio.gather(world.launcher.run_once(), other.run_once())

    assert running(await world.states()) == ["s4.1.1", "s5.1.1", "s5.1.2"]
