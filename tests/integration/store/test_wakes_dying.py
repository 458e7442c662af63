"""Intakes and instances that die at any step, or get in each other's way: every wake-up is sent once all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

import pytest

from streamsched.domain.errors import UnavailableError
from streamsched.domain.signal import Woken
from streamsched.ports.intake import Batch, Taken
from streamsched.ports.outbox import OutboxRecord
from streamsched.ports.topics import WAKEUPS
from streamsched.ports.wakes import WakeRequest
from streamsched.store.sql import queries
from streamsched.store.timers import PostgresTimers
from streamsched.store.wakes import PostgresWakes
from streamsched.timers.intake import WakeIntake
from streamsched.timers.loop import Timers

from .conftest import House, app, schedule
from .wakeful import MINUTE, SECOND, ask, held, intake, sent, taken, timers, wake

pytestmark = pytest.mark.postgres


@pytest.fixture
def house(house_of_one_clock: House) -> House:
    return house_of_one_clock


async def test_several_intakes_and_several_instances_send_every_wake_up_once(house: House) -> None:
    schedules = [schedule(f"s{n}") for n in range(12)]
    async with house.relaying():
        await house.catalog.deploy(app(schedule(), *schedules))
    wakes = [wake(house, n * SECOND, f"c{n}", each.ref) for each in schedules for n in range(20)]
    intakes = [WakeIntake(house.broker, PostgresWakes(house.pool), house.clock, max_records=13) for _ in range(3)]
    stored = 0

    async def work(one: WakeIntake) -> None:
        nonlocal stored
        while stored < len(wakes):
            got = await one.run_once(timeout=0.02)
            stored += got

    async def feed() -> None:
        for start in range(0, len(wakes), 10):
            await ask(house, *wakes[start : start + 10])
            await asyncio.sleep(0)

    await asyncio.wait_for(asyncio.gather(feed(), *(work(each) for each in intakes)), 60)
    assert (stored, await held(house)) == (len(wakes), len(wakes))

    house.clock.advance(MINUTE)
    await asyncio.gather(*(timers(house).run_once() for _ in range(4)))

    found = [(woken.schedule, woken.cell) for woken in await sent(house)]
    assert sorted(found) == sorted((each.schedule, each.cell) for each in wakes)


class Dies(PostgresWakes):
    """Dies, or loses PostgreSQL's answer, at one step."""

    def __init__(self, house: House, step: str) -> None:
        super().__init__(house.pool)
        self._step = step

    async def take(self, topic: str, batches: Sequence[Batch[WakeRequest]], *, now: datetime) -> Taken:
        if self._step == "before the take":
            raise UnavailableError(self._step)
        await super().take(topic, batches, now=now)
        raise UnavailableError(self._step)

    async def fire(self, *, now: datetime, limit: int, record: Callable[[Woken], OutboxRecord]) -> int:
        def last(woken: Woken) -> OutboxRecord:
            if self._step == "between claim and outbox":
                raise UnavailableError(self._step)
            return record(woken)

        await super().fire(now=now, limit=limit, record=last)
        raise UnavailableError(self._step)


@pytest.mark.parametrize("step", ["before the take", "after the take"])
async def test_an_intake_that_dies_loses_doubles_and_revives_nothing(house: House, step: str) -> None:
    await ask(house, wake(house, MINUTE, "goes"), wake(house, MINUTE, "stays"))
    await taken(house)
    await ask(house, wake(house, None, "goes"), wake(house, MINUTE, "new"))
    with pytest.raises(UnavailableError, match=step):
        await intake(house, Dies(house, step)).run_once(timeout=1)
    house.clock.advance(MINUTE)
    if step == "after the take":  # the cancelled one was forgotten with the position behind it
        await timers(house).run_once()
        assert sorted(woken.cell for woken in await sent(house)) == ["new", "stays"]

    await taken(house)
    house.clock.advance(SECOND)
    await timers(house).run_once()

    assert sorted(woken.cell for woken in await sent(house)) == ["new", "stays"]


@pytest.mark.parametrize("step", ["between claim and outbox", "after the commit"])
async def test_an_instance_that_dies_sends_each_wake_up_once_all_the_same(house: House, step: str) -> None:
    await ask(house, wake(house, MINUTE, "a"), wake(house, MINUTE, "b"))
    await taken(house)
    house.clock.advance(MINUTE)
    with pytest.raises(UnavailableError, match=step):
        await Timers(
            store=PostgresTimers(house.pool), wakes=Dies(house, step), bell=house.bell, clock=house.clock
        ).run_once()

    await timers(house).run_once()

    assert sorted(woken.cell for woken in await sent(house)) == ["a", "b"]


async def test_a_request_that_comes_while_the_old_one_is_being_sent_stands_after_it(house: House) -> None:
    await ask(house, wake(house, MINUTE))
    await taken(house)
    house.clock.advance(MINUTE)
    await ask(house, wake(house, MINUTE))
    async with house.pool.acquire() as other, other.transaction():
        await other.fetch(queries("wakes")["claim"], house.clock.now(), 10)
        taking = asyncio.create_task(taken(house))
        while not await house.pool.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            await house.pool.fetchval("SELECT pg_sleep(0.01)")
    assert await taking == 1

    assert await timers(house).run_once() == house.clock.now() + MINUTE


async def test_a_position_that_stands_elsewhere_counts_no_batch(house: House) -> None:
    store = PostgresWakes(house.pool)
    await store.positions(WAKEUPS, 1)
    request = WakeRequest(wake(house, MINUTE), house.clock.now())

    assert await store.take(WAKEUPS, [Batch(0, 7, 9, [request])], now=house.clock.now()) == Taken(frozenset(), 0, 0)
    assert await held(house) == 0
