"""Intakes and instances that die at any step, or get in each other's way: every wake-up is sent once all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

import pytest

from streamsched.domain.errors import UnavailableError
from streamsched.domain.signals.signal import Woken
from streamsched.log.topics import WAKEUPS
from streamsched.ports.intake import IntakeBatch, IntakeResult
from streamsched.ports.outbox import OutboxRecord
from streamsched.ports.timers import WakeRecord, WakeUpRequest
from streamsched.store.events.timers import PostgresTimers
from streamsched.store.events.wakes import PostgresWakes
from streamsched.store.sql import queries
from streamsched.timers.timers import Timers, WakeIntake

from .conftest import CatalogProcess, app, schedule
from .wakeful import MINUTE, SECOND, ask, held, intake, sent, taken, timers, wake

pytestmark = pytest.mark.postgres


@pytest.fixture
def scheduler(scheduler_on_one_clock: CatalogProcess) -> CatalogProcess:
    return scheduler_on_one_clock


async def test_several_intakes_and_several_instances_send_every_wake_up_once(scheduler: CatalogProcess) -> None:
    schedules = [schedule(f"s{n}") for n in range(12)]
    async with scheduler.relaying():
        await scheduler.catalog.deploy(app(schedule(), *schedules)).apply()
    wakes = [wake(scheduler, n * SECOND, f"c{n}", each.ref) for each in schedules for n in range(20)]
    intakes = [
        WakeIntake(scheduler.broker, PostgresWakes(scheduler.pool), scheduler.clock, max_records=13) for _ in range(3)
    ]
    stored = 0

    async def work(one: WakeIntake) -> None:
        nonlocal stored
        while stored < len(wakes):
            got = await one.run_once(timeout=0.02)
            stored += got

    async def feed() -> None:
        for start in range(0, len(wakes), 10):
            await ask(scheduler, *wakes[start : start + 10])
            await asyncio.sleep(0)

    await asyncio.wait_for(asyncio.gather(feed(), *(work(each) for each in intakes)), 60)
    assert (stored, await held(scheduler)) == (len(wakes), len(wakes))

    scheduler.clock.advance(MINUTE)
    await asyncio.gather(*(timers(scheduler).run_once() for _ in range(4)))

    found = [(woken.schedule, woken.cell) for woken in await sent(scheduler)]
    assert sorted(found) == sorted((each.schedule, each.cell) for each in wakes)


class Dies(PostgresWakes):
    """Dies, or loses PostgreSQL's answer, at one step."""

    def __init__(self, scheduler: CatalogProcess, step: str) -> None:
        super().__init__(scheduler.pool)
        self._step = step

    async def take(self, topic: str, batches: Sequence[IntakeBatch[WakeUpRequest]], *, now: datetime) -> IntakeResult:
        if self._step == "before the take":
            raise UnavailableError(self._step)
        await super().take(topic, batches, now=now)
        raise UnavailableError(self._step)

    async def fire(self, *, now: datetime, limit: int, record: WakeRecord) -> int:
        def last(woken: Woken, affinity: int | None) -> OutboxRecord:
            if self._step == "between claim and outbox":
                raise UnavailableError(self._step)
            return record(woken, affinity)

        await super().fire(now=now, limit=limit, record=last)
        raise UnavailableError(self._step)


@pytest.mark.parametrize("step", ["before the take", "after the take"])
async def test_an_intake_that_dies_loses_doubles_and_revives_nothing(scheduler: CatalogProcess, step: str) -> None:
    await ask(scheduler, wake(scheduler, MINUTE, "goes"), wake(scheduler, MINUTE, "stays"))
    await taken(scheduler)
    await ask(scheduler, wake(scheduler, None, "goes"), wake(scheduler, MINUTE, "new"))
    with pytest.raises(UnavailableError, match=step):
        await intake(scheduler, Dies(scheduler, step)).run_once(timeout=1)
    scheduler.clock.advance(MINUTE)
    if step == "after the take":  # the cancelled one was forgotten with the position behind it
        await timers(scheduler).run_once()
        assert sorted(woken.cell for woken in await sent(scheduler)) == ["new", "stays"]

    await taken(scheduler)
    scheduler.clock.advance(SECOND)
    await timers(scheduler).run_once()

    assert sorted(woken.cell for woken in await sent(scheduler)) == ["new", "stays"]


@pytest.mark.parametrize("step", ["between claim and outbox", "after the commit"])
async def test_an_instance_that_dies_sends_each_wake_up_once_all_the_same(scheduler: CatalogProcess, step: str) -> None:
    await ask(scheduler, wake(scheduler, MINUTE, "a"), wake(scheduler, MINUTE, "b"))
    await taken(scheduler)
    scheduler.clock.advance(MINUTE)
    with pytest.raises(UnavailableError, match=step):
        await Timers(
            store=PostgresTimers(scheduler.pool),
            wakes=Dies(scheduler, step),
            notifier=scheduler.notifier,
            clock=scheduler.clock,
        ).run_once()

    await timers(scheduler).run_once()

    assert sorted(woken.cell for woken in await sent(scheduler)) == ["a", "b"]


async def test_a_request_that_comes_while_the_old_one_is_being_sent_stands_after_it(scheduler: CatalogProcess) -> None:
    await ask(scheduler, wake(scheduler, MINUTE))
    await taken(scheduler)
    scheduler.clock.advance(MINUTE)
    await ask(scheduler, wake(scheduler, MINUTE))
    async with scheduler.pool.acquire() as other, other.transaction():
        await other.fetch(queries("events/wakes")["claim"], scheduler.clock.now(), 10, None)
        taking = asyncio.create_task(taken(scheduler))
        while not await scheduler.pool.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            await scheduler.pool.fetchval("SELECT pg_sleep(0.01)")
    assert await taking == 1

    assert await timers(scheduler).run_once() == scheduler.clock.now() + MINUTE


async def test_a_position_that_stands_elsewhere_counts_no_batch(scheduler: CatalogProcess) -> None:
    store = PostgresWakes(scheduler.pool)
    await store.positions(WAKEUPS, 1)
    request = WakeUpRequest(wake(scheduler, MINUTE), scheduler.clock.now())

    assert await store.take(WAKEUPS, [IntakeBatch(0, 7, 9, [request])], now=scheduler.clock.now()) == IntakeResult(
        frozenset(), 0, 0
    )
    assert await held(scheduler) == 0
