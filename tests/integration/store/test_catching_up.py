"""Missed ticks on a real PostgreSQL: as many as the schedule wants back, as fast as it wants them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from streamsched.codec import signal as signal_codec
from streamsched.domain.catchup import CatchUp
from streamsched.domain.event import Ticked
from streamsched.domain.schedule import Misfire, Schedule
from streamsched.domain.signal import Occurred
from streamsched.domain.trigger import Every

from .conftest import House, app, schedule
from .wakeful import timers

pytestmark = pytest.mark.postgres

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


async def deploy(house: House, made: Schedule) -> None:
    async with house.relaying():
        await house.catalog.deploy(app(made))


async def minutes(house: House) -> list[int]:
    """The ticks in the outbox, in minutes from the first look at the clock."""
    found: list[int] = []
    for record in await house.outbox.pending(limit=1000):
        signal = signal_codec.decode(record.key.encode(), record.value)
        assert isinstance(signal, Occurred)
        assert isinstance(signal.event.fact, Ticked)
        found.append(round(signal.event.fact.due_at.timestamp() - START) // 60)
    return found


START = 1767225600  # 2026-01-01T00:00:00Z, where a house's clock begins


async def test_a_window_and_a_bound_leave_the_newest_and_history_knows_the_others(house: House) -> None:
    bounds = CatchUp(window=10 * MINUTE, at_most=4)
    await deploy(house, schedule(trigger=Every(MINUTE), misfire=Misfire.ALL, catch_up=bounds))
    house.clock.advance(60 * MINUTE)

    await timers(house).run_once()

    assert await minutes(house) == [57, 58, 59, 60]
    (line,) = [each for each in await house.reader.history("schedule", str(schedule().ref)) if "skipped" in each.action]
    assert (line.detail or {})["skipped"] == 56


async def test_ticks_are_spread_by_any_instances_in_turn_and_then_on_time_again(house: House) -> None:
    bounds = CatchUp(at_most=3, spacing=10 * SECOND)
    await deploy(house, schedule(trigger=Every(MINUTE), misfire=Misfire.ALL, catch_up=bounds))
    house.clock.advance(60 * MINUTE + SECOND)
    begin = house.clock.now()

    assert await timers(house).run_once() == begin + 10 * SECOND
    assert await minutes(house) == [58]
    house.clock.advance(10 * SECOND - timedelta(microseconds=1))
    assert await timers(house).run_once() == begin + 10 * SECOND
    house.clock.set(begin + 10 * SECOND)
    assert await timers(house).run_once() == begin + 20 * SECOND
    assert await minutes(house) == [58, 59]
    house.clock.set(begin + 20 * SECOND)
    assert await timers(house).run_once() == begin + 59 * SECOND
    house.clock.set(begin + 59 * SECOND)
    await timers(house).run_once()

    assert await minutes(house) == [58, 59, 60, 61]
    assert await house.pool.fetchval("SELECT tick_at FROM timers") is None


async def test_a_change_in_the_middle_of_a_catch_up_begins_anew(house: House) -> None:
    bounds = CatchUp(at_most=3, spacing=MINUTE)
    await deploy(house, schedule(trigger=Every(MINUTE), misfire=Misfire.ALL, catch_up=bounds))
    house.clock.advance(60 * MINUTE)
    await timers(house).run_once()
    async with house.relaying():
        await house.catalog.update(schedule(trigger=Every(5 * MINUTE), misfire=Misfire.ALL, catch_up=bounds))

    assert await timers(house).run_once() == house.clock.now() + 5 * MINUTE


async def test_a_disabled_schedule_has_no_timers_and_enabled_again_it_makes_up_for_nothing(house: House) -> None:
    await deploy(house, schedule(trigger=Every(MINUTE), misfire=Misfire.ALL))
    house.clock.advance(MINUTE)  # due, and not yet fired
    async with house.relaying():
        await house.catalog.disable(schedule().ref)
        house.clock.advance(30 * MINUTE)
        assert await timers(house).run_once() is None
        await house.catalog.enable(schedule().ref)

    assert await timers(house).run_once() == house.clock.now() + MINUTE
    assert await minutes(house) == []
