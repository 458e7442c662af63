"""Several programs decided in one transaction, and runs that begin with their admission."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from streamsched.domain.constraints.constraint import Concurrency
from streamsched.domain.constraints.group import Group
from streamsched.domain.constraints.pool import Pool
from streamsched.domain.constraints.rate import Rate, RateScope
from streamsched.domain.schedules.schedule import Program
from streamsched.launcher.loop import Launcher
from streamsched.ports.runner import RunnerId
from streamsched.ports.runs import Assignment

from .conftest import MINUTE, World, sharing

pytestmark = pytest.mark.postgres


class SmallInlineRunner:
    """A `ports.runner.InlineRunner` that keeps the runs it is given and does nothing with them."""

    runner = RunnerId("h", 1, 1)

    def __init__(self, room: int, unfit: str = "") -> None:
        self._room = room
        self._unfit = unfit
        self.begun: list[Assignment] = []

    def fits(self, program: Program) -> bool:
        return program.ref.name != self._unfit

    def room(self) -> int:
        return self._room - len(self.begun)

    def publications(self) -> int:
        return self.room()

    async def wait_for_room(self) -> None:
        await asyncio.Event().wait()

    def execute(self, runs: Sequence[Assignment]) -> None:
        self.begun += runs

    def claim_and_execute(self, runs: Sequence[str]) -> None:
        raise AssertionError(f"{runs} want a process")

    def holds(self, run: str) -> bool:
        return any(each.run == run for each in self.begun)


def handed(world: World, inline_executor: SmallInlineRunner) -> Launcher:
    return Launcher(world.decisions, world.run_monitor, world.notifier, world.clock, inline=inline_executor)


@pytest.mark.parametrize(
    "constraint",
    [Group("g", 3), Pool("p", 3), Rate(3, timedelta(hours=1), of=RateScope.GROUP, group="r")],
    ids=["group", "pool", "rate of a group"],
)
async def test_programs_decided_together_share_what_there_is(world: World, constraint: Any) -> None:
    several = [sharing(f"s{n}", constraint) for n in range(3)]
    await world.define(*several)
    await world.satisfy(*(world.ready(each, n) for each in several for n in (1, 2)))

    assert await world.launcher.run_once() == 6

    assert await world.size("runs") == 3
    assert await world.launcher.run_once() == 0


async def test_many_jobs_of_one_program_hide_no_other_program(world: World) -> None:
    busy, quiet = sharing("busy"), sharing("quiet")
    await world.define(busy, quiet)
    await world.satisfy(*(world.ready(busy, n) for n in range(1, 1202)), world.ready(quiet, 1))

    due = await world.decisions.count_due(world.clock.now(), limit=10)

    assert due == {"default.app.program-busy": 128, "default.app.program-quiet": 1}


async def test_who_finds_every_program_held_is_the_next(world: World) -> None:
    held = sharing("held")
    await world.define(held)
    await world.satisfy(world.ready(held, 1))
    async with world.locked("programs"):
        decision = asyncio.create_task(world.launcher.run_once())
        await world.blocked()
        assert await world.states() == {"held.1.1": "PENDING_CONSTRAINT"}

    await decision
    await world.launcher.run_once()  # for a decision that waited longer than its second
    assert await world.states() == {"held.1.1": "PENDING_LAUNCH"}


async def test_who_waits_for_a_program_that_is_never_released_gives_up(world: World) -> None:
    held = sharing("held")
    await world.define(held)
    await world.satisfy(world.ready(held, 1))
    async with world.locked("programs"):
        assert await world.launcher.run_once() == 0

    assert await world.launcher.run_once() == 1


async def test_one_that_cannot_be_read_holds_up_none_that_is_decided_with_it(world: World) -> None:
    good, bad = sharing("good"), sharing("bad")
    await world.define(good, bad)
    await world.satisfy(world.ready(good, 1), world.ready(bad, 1))
    await world.put_text("schedules", {"v": 99}, str(bad.ref))

    await world.launcher.run_once()

    assert await world.states() == {"good.1.1": "PENDING_LAUNCH", "bad.1.1": "PENDING_CONSTRAINT"}


async def test_what_begins_with_its_admission_leaves_what_admission_and_claim_leave(world: World) -> None:
    claimed: list[Assignment | None] = []
    limited = sharing("limited", Group("g", 9), Concurrency(2, wait=True), max_duration=MINUTE)
    left: list[Any] = []
    for together in (False, True):
        await world.clear()
        world.__init__(world.dsn, world.pool, world.broker)  # type: ignore[misc]
        await world.define(limited)
        await world.satisfy(*(world.ready(limited, n) for n in (1, 2, 3)))
        now = world.clock.now()
        if together:
            inline_executor = SmallInlineRunner(9)
            await handed(world, inline_executor).run_once()
            assert [each.run for each in inline_executor.begun] == [f"default.app.limited.1.{n}.r1" for n in (1, 2)]
            assert inline_executor.begun == claimed
        else:
            await world.launcher.run_once()
            runs = [f"default.app.limited.1.{n}.r1" for n in (1, 2)]
            claimed = [await world.run_store.claim(run, runner="h:1:1", log_path=None, now=now) for run in runs]
        left.append(await world.everything())

    assert left[0] == left[1]


async def test_what_finds_no_room_waits_for_a_runner(world: World) -> None:
    one, two = sharing("one"), sharing("two")
    await world.define(one, two)
    await world.satisfy(*(world.ready(each, n) for each in (one, two) for n in (1, 2, 3)))
    inline_executor = SmallInlineRunner(2, unfit="program-one")

    await handed(world, inline_executor).run_once()

    assert {each.job for each in inline_executor.begun} == {"default.app.two.1.1", "default.app.two.1.2"}
    assert sorted(world.runners.spawned) == sorted(
        ["default.app.two.1.3.r1", *(f"default.app.one.1.{n}.r1" for n in (1, 2, 3))]
    )
