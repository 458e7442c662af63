"""Pauses: what they keep, what they say, and that they end by themselves, once, whoever looks."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from streamsched.catalog.resumption import Resumption
from streamsched.domain.errors import ConflictError, InvalidError, NotFoundError
from streamsched.domain.names import AppRef
from streamsched.domain.pause import Pause
from streamsched.domain.signal import Put
from streamsched.domain.trigger import Cron
from streamsched.ports.catalog import Action
from streamsched.store.pauses import PostgresPauses

from .conftest import APP, FLIGHTS, House, app, schedule

WEEKLY = schedule().ref
HOUR = timedelta(hours=1)


def resumption(house: House) -> Resumption:
    return Resumption(store=house.store, pauses=PostgresPauses(house.pool), bell=house.bell, clock=house.clock)


async def due(house: House) -> list[tuple[str, object]]:
    return [tuple(row) for row in await house.pool.fetch("SELECT leaf, due_at FROM timers ORDER BY leaf")]


async def test_a_pause_that_keeps_listens_on_and_says_how_long_and_why(open_house: House) -> None:
    await open_house.catalog.deploy(app(schedule()))
    until = open_house.clock.now() + HOUR

    found = await open_house.catalog.pause(WEEKLY, Pause(keep=True, until=until, note="disks are moved"))

    assert not found.record.enabled
    assert found.record.pause == Pause(keep=True, until=until, note="disks are moved")
    assert (found.record.generation, found.record.kept_from, found.record.stands_from) == (2, 1, 1)
    assert (await open_house.signals())[-1:] == [Put(WEEKLY, 2, False, FLIGHTS, keep=True)]
    (line, _) = await open_house.reader.history("schedule", str(WEEKLY))
    assert (line.action, line.reason) == ("paused", "disks are moved")
    assert line.detail is not None
    assert line.detail["accumulation"] == "kept"


async def test_it_stays_paused_when_its_definition_changes_and_can_be_paused_otherwise(open_house: House) -> None:
    catalog = open_house.catalog
    await catalog.deploy(app(schedule()))
    await catalog.pause(WEEKLY, Pause(keep=True, note="a"))

    changed = await catalog.update(schedule(description="new"), keep=True)
    assert (changed.record.pause, changed.record.kept_from) == (Pause(keep=True, note="a"), 1)

    longer = await catalog.pause(WEEKLY, Pause(keep=True, note="b"))
    assert (longer.record.pause, longer.record.kept_from) == (Pause(keep=True, note="b"), 1)
    with pytest.raises(ConflictError, match="already paused"):
        await catalog.pause(WEEKLY, Pause(keep=True, note="b"))

    dropped = await catalog.disable(WEEKLY)
    assert (dropped.record.pause, dropped.record.kept_from) == (None, None)
    assert dropped.record.stands_from == dropped.record.generation + 1
    with pytest.raises(ConflictError, match="already disabled"):
        await catalog.disable(WEEKLY)


async def test_ticks_go_on_under_a_pause_that_keeps_and_one_that_is_due_is_not_lost_by_it(open_house: House) -> None:
    catalog = open_house.catalog
    await catalog.deploy(app(schedule(trigger=Cron("0 * * * *"))))
    ((leaf, first),) = await due(open_house)
    open_house.clock.set(first + timedelta(seconds=30))  # type: ignore[operator]

    await catalog.pause(WEEKLY, Pause(keep=True))
    assert await due(open_house) == [(leaf, first)]

    await catalog.enable(WEEKLY)
    assert await due(open_house) == [(leaf, first)], "the timers were late; the tick is of the schedule that goes on"

    await catalog.disable(WEEKLY)
    assert await due(open_house) == []
    await catalog.enable(WEEKLY)
    assert await due(open_house) == [(leaf, first + HOUR)], "begun anew: the first tick after now"  # type: ignore[operator]


async def test_a_pause_ends_by_itself_once_however_many_look(open_house: House) -> None:
    catalog = open_house.catalog
    await catalog.deploy(app(schedule("a"), schedule("b"), schedule("c")))
    end = open_house.clock.now() + HOUR
    await catalog.pause(schedule("a").ref, Pause(keep=True, until=end))
    await catalog.pause(schedule("b").ref, Pause(until=end + HOUR))
    await catalog.pause(schedule("c").ref, Pause(keep=True))

    assert await resumption(open_house).run_once() == end
    open_house.clock.set(end - timedelta(microseconds=1))
    assert await resumption(open_house).run_once() == end, "never early"
    open_house.clock.set(end)
    assert set(await asyncio.gather(*(resumption(open_house).run_once() for _ in range(4)))) == {end + HOUR}

    found = {status.record.definition.ref.name: status.record for status in await catalog.list()}
    assert {name: record.enabled for name, record in found.items()} == {"a": True, "b": False, "c": False}
    lines = await open_house.reader.history("schedule", str(schedule("a").ref))
    assert [line.action for line in lines] == ["resumed", "paused", "created"]
    assert "pause ended" in lines[0].reason


async def test_who_resumes_or_prolongs_by_hand_is_not_overruled(open_house: House) -> None:
    catalog = open_house.catalog
    await catalog.deploy(app(schedule("a"), schedule("b")))
    end = open_house.clock.now() + HOUR
    for name in "ab":
        await catalog.pause(schedule(name).ref, Pause(until=end))
    await catalog.enable(schedule("a").ref)
    await catalog.pause(schedule("b").ref, Pause(until=end + HOUR))
    open_house.clock.set(end)

    assert await resumption(open_house).run_once() == end + HOUR

    assert [status.record.generation for status in await catalog.list()] == [3, 3]


async def test_a_row_that_another_release_left_behind_says_nothing(open_house: House) -> None:
    """A release that knows no pauses enables: it raises the generation and leaves the pause and what was kept."""
    catalog = open_house.catalog
    await catalog.deploy(app(schedule()))
    await catalog.pause(WEEKLY, Pause(keep=True, until=open_house.clock.now() + HOUR))
    await open_house.pool.execute("UPDATE schedules SET generation = generation + 1, enabled = true")
    open_house.clock.advance(2 * HOUR)

    assert await resumption(open_house).run_once() is None

    record = (await catalog.get(WEEKLY)).record
    assert (record.pause, record.kept_from, record.stands_from) == (None, None, 3)
    assert await open_house.pool.fetchval("SELECT stands_from FROM schedules") == 3


async def test_all_schedules_of_an_app_at_once(open_house: House) -> None:
    catalog = open_house.catalog
    await catalog.deploy(app(schedule("a"), schedule("b"), schedule("c")))
    await catalog.disable(schedule("c").ref)

    paused = await catalog.pause_app(APP, Pause(keep=True, note="upgrade"))
    assert {str(each.after.definition.ref.name): each.action for each in paused.change.schedules} == {
        "a": Action.PAUSED,
        "b": Action.PAUSED,
    }
    assert (await catalog.pause_app(APP, Pause(keep=True))).change.schedules == ()

    resumed = await catalog.enable_app(APP)
    assert {str(each.after.definition.ref.name): each.action for each in resumed.change.schedules} == {
        "a": Action.RESUMED,
        "b": Action.RESUMED,
        "c": Action.ENABLED,
    }
    with pytest.raises(NotFoundError):
        await catalog.pause_app(AppRef("default", "unknown"), Pause())


async def test_a_pause_that_would_be_over_is_refused(open_house: House) -> None:
    await open_house.catalog.deploy(app(schedule()))

    with pytest.raises(InvalidError, match="after now"):
        await open_house.catalog.pause(WEEKLY, Pause(until=open_house.clock.now()))
