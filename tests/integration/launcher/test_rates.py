"""Rates: tokens that come with time, for a program, a schedule, a key or a group; and the exact time of the next."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from streamsched.domain.constraints.rate import Rate, RateScope, TokenBucket
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import Schedule
from streamsched.launcher.loop import Launcher
from streamsched.launcher.start import start
from streamsched.launcher.why import explain_job
from streamsched.store.limits import rates

from .conftest import MINUTE, PROGRAM, World, schedule

pytestmark = pytest.mark.postgres


def metered(name: str, rate: Rate, program: str = "load") -> Schedule:
    plain = schedule(name, constraints=(rate,), overlap=Overlap.QUEUE)
    return replace(plain, program=ProgramRef("default", "app", program))


TWO = metered("two", Rate(2, 10 * MINUTE))


async def launched(world: World) -> list[str]:
    await world.launcher.run_once()
    return [job for job, state in (await world.states()).items() if state != "PENDING_CONSTRAINT"]


async def test_what_is_left_starts_at_once_and_each_token_that_comes_starts_one_more(world: World) -> None:
    await world.define(TWO)
    begun = world.clock.now()
    await world.satisfy(*(world.ready(TWO, n) for n in (1, 2, 3, 4)))
    assert await launched(world) == ["two.1.1", "two.1.2"]

    answer = await explain_job("default.app.two.1.3", jobs=world.jobs, clock=world.clock)
    assert answer.earliest == begun + 5 * MINUTE == await world.decisions.next_due_at()
    assert answer.summary == (
        f"it waits: 0 of 2 tokens of program {PROGRAM} are left, 2 come each 10m, the next at 2026-03-01 12:05:00Z"
    )
    assert answer.clauses[0].needs == "2 runs each 10m of the program"

    for passed, done in ((5, 3), (10, 4)):
        world.clock.set(begun + passed * MINUTE)
        assert len(await launched(world)) == done


async def test_runs_by_hand_take_tokens_too_and_are_not_asked_for_them(world: World) -> None:
    await world.define(TWO)
    for token in "xyz":
        await start(world.runs, world.clock, PROGRAM, {}, token=token)
    await world.satisfy(world.ready(TWO, 1))
    assert await launched(world) == []
    assert await world.decisions.next_due_at() == world.clock.now() + 10 * MINUTE, "one was lent"


async def test_a_run_of_a_schedule_without_a_rate_takes_a_token_of_its_program(world: World) -> None:
    plain = schedule("plain", overlap=Overlap.QUEUE)
    await world.define(TWO, plain)
    await world.satisfy(world.ready(TWO, 1))
    await world.launcher.run_once()
    await world.satisfy(world.ready(plain, 1))
    await world.launcher.run_once()
    await world.satisfy(world.ready(TWO, 2))

    assert await launched(world) == ["plain.1.1", "two.1.1"]


async def test_a_token_that_comes_wakes_one_of_those_that_wait_and_not_all(world: World) -> None:
    quick = metered("quick", Rate(60, MINUTE, burst=1))
    await world.define(quick)
    await world.satisfy(*(world.ready(quick, n) for n in range(1, 31)))
    assert await world.launcher.run_once() == 30

    for done in range(2, 6):
        world.clock.advance(timedelta(seconds=1))
        assert await world.launcher.run_once() == 1
        assert list((await world.states()).values()).count("PENDING_LAUNCH") == done


async def test_a_schedule_and_each_of_its_keys_have_tokens_of_their_own(world: World) -> None:
    one = metered("one", Rate(1, MINUTE, of=RateScope.SCHEDULE))
    other = metered("other", Rate(1, MINUTE, of=RateScope.KEY))
    await world.define(one, other)
    keyed = [replace(world.ready(other, n), key=key) for n, key in ((1, "mon"), (2, "mon"), (3, "tue"))]
    await world.satisfy(world.ready(one, 1), world.ready(one, 2), *keyed)

    assert await launched(world) == ["one.1.1", "other.1.1", "other.1.3"]
    answer = await explain_job("default.app.other.1.2", jobs=world.jobs, clock=world.clock)
    assert answer.summary.startswith("it waits: 0 of 1 tokens of key default.app.other mon are left")


async def test_schedules_of_any_program_share_the_tokens_of_a_group(world: World) -> None:
    rate = Rate(1, MINUTE, of=RateScope.GROUP, group="api")
    left, right = metered("left", rate, "left"), metered("right", rate, "right")
    await world.define(left, right)
    await world.satisfy(world.ready(left, 1), world.ready(right, 1))
    await asyncio.gather(world.launcher.run_once(), second(world).run_once())
    assert len(await launched(world)) == 1

    world.clock.advance(MINUTE)
    assert len(await launched(world)) == 2


async def test_tokens_are_as_they_were_when_every_launcher_was_away(world: World) -> None:
    await world.define(TWO)
    await world.satisfy(*(world.ready(TWO, n) for n in (1, 2, 3)))
    await world.launcher.run_once()
    world.clock.advance(4 * MINUTE)
    world.launcher = second(world)
    assert len(await launched(world)) == 2
    world.clock.advance(MINUTE)
    assert len(await launched(world)) == 3


async def test_buckets_that_are_not_used_are_forgotten_in_time(world: World) -> None:
    each = metered("each", Rate(1, MINUTE, of=RateScope.KEY))
    await world.define(each)
    await world.satisfy(*(replace(world.ready(each, n), key=str(n)) for n in range(1, 21)))
    await world.launcher.run_once()
    assert await world.size("meters") == 20

    world.clock.advance(timedelta(days=1, minutes=3))
    await world.launcher.run_once()

    assert await world.size("meters") == 0


async def test_a_bucket_that_is_forgotten_while_it_is_requested_is_made_again(world: World) -> None:
    now = world.clock.now()
    kept, forgotten = (TokenBucket(scope, 1, MINUTE, 1) for scope in ("group a", "group b"))
    async with world.pool.acquire() as one, one.transaction():
        await rates.lock_buckets(one, [kept], now=now)
    async with world.pool.acquire() as one, one.transaction():
        await rates.lock_buckets(one, [forgotten], now=now - timedelta(days=2))

    async with world.pool.acquire() as one, one.transaction():
        async with world.locked("meters", kept.key, column="scope"):
            asking = asyncio.create_task(rates.lock_buckets(one, [kept, forgotten], now=now))
            await world.blocked()
            await rates.forget(world.pool, now)
            assert await world.meters() == [kept.key]
        assert set(await asking) == {kept, forgotten}

    assert await world.meters() == [kept.key, forgotten.key]


async def test_who_counts_nothing_asks_no_bucket(world: World) -> None:
    plain = schedule("plain", overlap=Overlap.QUEUE)
    await world.define(plain)
    await world.satisfy(world.ready(plain, 1))
    await world.launcher.run_once()

    assert await world.size("meters") == 0


def second(world: World) -> Launcher:
    return Launcher(world.decisions, world.run_monitor, world.notifier, world.clock)
