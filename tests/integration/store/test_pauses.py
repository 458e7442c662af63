"""Pauses: what they keep, what they say, and that they end by themselves, once, for every reader."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from streamsched.catalog.resumption import Resumption
from streamsched.domain.errors import ConflictError, InvalidError, NotFoundError
from streamsched.domain.names import AppRef
from streamsched.domain.schedules.pause import Pause, PauseMode
from streamsched.domain.signals.signal import Put
from streamsched.domain.triggers.trigger import Cron
from streamsched.store.catalog.pauses import PauseStore
from streamsched.store.catalog.records import Action

from .conftest import APP, FLIGHTS, CatalogProcess, app, schedule

WEEKLY = schedule().ref
HOUR = timedelta(hours=1)


def resumption(scheduler: CatalogProcess) -> Resumption:
    return Resumption(
        store=scheduler.store,
        pauses=PauseStore(scheduler.pool),
        notifier=scheduler.notifier,
        clock=scheduler.clock,
    )


async def due(scheduler: CatalogProcess) -> list[tuple[str, object]]:
    return [tuple(row) for row in await scheduler.pool.fetch("SELECT leaf, due_at FROM timers ORDER BY leaf")]


async def test_a_pause_that_keeps_listens_on_and_says_how_long_and_why(relaying_scheduler: CatalogProcess) -> None:
    await relaying_scheduler.catalog.deploy(app(schedule())).apply()
    until = relaying_scheduler.clock.now() + HOUR

    requested = relaying_scheduler.catalog.pause(WEEKLY, Pause(until=until, note="disks are moved"))
    found = await relaying_scheduler.status_after(requested)

    assert not found.record.enabled
    assert found.record.pause == Pause(until=until, note="disks are moved")
    assert (found.record.generation, found.record.kept_from, found.record.oldest_valid_generation) == (2, 1, 1)
    assert (await relaying_scheduler.signals())[-1:] == [Put(WEEKLY, 2, False, FLIGHTS, keep=True)]
    (line, _) = await relaying_scheduler.reader.history("schedule", str(WEEKLY))
    assert (line.action, line.reason) == ("paused", "disks are moved")
    assert line.detail is not None
    assert line.detail["accumulation"] == "kept"


async def test_it_stays_paused_when_its_definition_changes_and_can_be_paused_otherwise(
    relaying_scheduler: CatalogProcess,
) -> None:
    catalog = relaying_scheduler.catalog
    await catalog.deploy(app(schedule())).apply()
    await catalog.pause(WEEKLY, Pause(note="a")).apply()

    changed = await relaying_scheduler.status_after(catalog.update(schedule(description="new"), keep=True))
    assert (changed.record.pause, changed.record.kept_from) == (Pause(note="a"), 1)

    longer = await relaying_scheduler.status_after(catalog.pause(WEEKLY, Pause(note="b")))
    assert (longer.record.pause, longer.record.kept_from) == (Pause(note="b"), 1)
    with pytest.raises(ConflictError, match="already paused"):
        await catalog.pause(WEEKLY, Pause(note="b")).apply()

    dropped = await relaying_scheduler.status_after(catalog.disable(WEEKLY))
    assert (dropped.record.pause, dropped.record.kept_from) == (None, None)
    assert dropped.record.oldest_valid_generation == dropped.record.generation + 1
    with pytest.raises(ConflictError, match="already disabled"):
        await catalog.disable(WEEKLY).apply()


async def test_ticks_go_on_under_a_pause_that_keeps_and_one_that_is_due_is_not_lost_by_it(
    relaying_scheduler: CatalogProcess,
) -> None:
    catalog = relaying_scheduler.catalog
    await catalog.deploy(app(schedule(trigger=Cron("0 * * * *")))).apply()
    ((leaf, first),) = await due(relaying_scheduler)
    relaying_scheduler.clock.set(first + timedelta(seconds=30))  # type: ignore[operator]

    await catalog.pause(WEEKLY, Pause()).apply()
    assert await due(relaying_scheduler) == [(leaf, first)]

    await catalog.enable(WEEKLY).apply()
    assert await due(relaying_scheduler) == [(leaf, first)], (
        "the timers were late; the tick is of the schedule that goes on"
    )

    await catalog.disable(WEEKLY).apply()
    assert await due(relaying_scheduler) == []
    await catalog.enable(WEEKLY).apply()
    assert await due(relaying_scheduler) == [(leaf, first + HOUR)], "begun anew: the first tick after now"  # type: ignore[operator]


async def test_a_pause_ends_by_itself_once_however_many_look(relaying_scheduler: CatalogProcess) -> None:
    catalog = relaying_scheduler.catalog
    await catalog.deploy(app(schedule("a"), schedule("b"), schedule("c"))).apply()
    end = relaying_scheduler.clock.now() + HOUR
    await catalog.pause(schedule("a").ref, Pause(until=end)).apply()
    await catalog.pause(schedule("b").ref, Pause(PauseMode.DROP, until=end + HOUR)).apply()
    await catalog.pause(schedule("c").ref, Pause()).apply()

    assert await resumption(relaying_scheduler).run_once() == end
    relaying_scheduler.clock.set(end - timedelta(microseconds=1))
    assert await resumption(relaying_scheduler).run_once() == end, "never early"
    relaying_scheduler.clock.set(end)
    assert set(await asyncio.gather(*(resumption(relaying_scheduler).run_once() for _ in range(4)))) == {end + HOUR}

    found = {status.record.definition.ref.name: status.record for status in await catalog.reader.schedules()}
    assert {name: record.enabled for name, record in found.items()} == {"a": True, "b": False, "c": False}
    lines = await relaying_scheduler.reader.history("schedule", str(schedule("a").ref))
    assert [line.action for line in lines] == ["resumed", "paused", "created"]
    assert "pause ended" in lines[0].reason


async def test_who_resumes_or_prolongs_by_hand_is_not_overruled(relaying_scheduler: CatalogProcess) -> None:
    catalog = relaying_scheduler.catalog
    await catalog.deploy(app(schedule("a"), schedule("b"))).apply()
    end = relaying_scheduler.clock.now() + HOUR
    for name in "ab":
        await catalog.pause(schedule(name).ref, Pause(PauseMode.DROP, until=end)).apply()
    await catalog.enable(schedule("a").ref).apply()
    await catalog.pause(schedule("b").ref, Pause(PauseMode.DROP, until=end + HOUR)).apply()
    relaying_scheduler.clock.set(end)

    assert await resumption(relaying_scheduler).run_once() == end + HOUR

    assert [status.record.generation for status in await catalog.reader.schedules()] == [3, 3]


async def test_a_row_that_another_release_left_behind_says_nothing(relaying_scheduler: CatalogProcess) -> None:
    """A release that knows no pauses enables: it raises the generation and leaves the pause and what was kept."""
    catalog = relaying_scheduler.catalog
    await catalog.deploy(app(schedule())).apply()
    await catalog.pause(WEEKLY, Pause(until=relaying_scheduler.clock.now() + HOUR)).apply()
    await relaying_scheduler.pool.execute("UPDATE schedules SET generation = generation + 1, enabled = true")
    relaying_scheduler.clock.advance(2 * HOUR)

    assert await resumption(relaying_scheduler).run_once() is None

    record = (await catalog.reader.schedule(WEEKLY)).record
    assert (record.pause, record.kept_from, record.oldest_valid_generation) == (None, None, 3)
    assert await relaying_scheduler.pool.fetchval("SELECT oldest_valid_generation FROM schedules") == 3


async def test_all_schedules_of_an_app_at_once(relaying_scheduler: CatalogProcess) -> None:
    catalog = relaying_scheduler.catalog
    await catalog.deploy(app(schedule("a"), schedule("b"), schedule("c"))).apply()
    await catalog.disable(schedule("c").ref).apply()

    paused = await catalog.pause_app(APP, Pause(note="upgrade")).apply()
    assert {str(each.after.definition.ref.name): each.action for each in paused.change.schedules} == {
        "a": Action.PAUSED,
        "b": Action.PAUSED,
    }
    assert (await catalog.pause_app(APP, Pause()).apply()).change.schedules == ()

    resumed = await catalog.enable_app(APP).apply()
    assert {str(each.after.definition.ref.name): each.action for each in resumed.change.schedules} == {
        "a": Action.RESUMED,
        "b": Action.RESUMED,
        "c": Action.ENABLED,
    }
    with pytest.raises(NotFoundError):
        await catalog.pause_app(AppRef("default", "unknown"), Pause()).apply()


async def test_a_pause_that_would_be_over_is_refused(relaying_scheduler: CatalogProcess) -> None:
    await relaying_scheduler.catalog.deploy(app(schedule())).apply()

    with pytest.raises(InvalidError, match="after now"):
        await relaying_scheduler.catalog.pause(
            WEEKLY, Pause(PauseMode.DROP, until=relaying_scheduler.clock.now())
        ).apply()


async def test_who_moves_nodes_is_notified_when_one_waits_for_the_schedule(relaying_scheduler: CatalogProcess) -> None:
    catalog, pool = relaying_scheduler.catalog, relaying_scheduler.pool
    await catalog.deploy(app(schedule())).apply()
    await catalog.pause(WEEKLY, Pause()).apply()
    rung: asyncio.Queue[str] = asyncio.Queue()
    async with pool.acquire() as listening:
        await listening.add_listener("graph", lambda *_: rung.put_nowait("graph"))
        await listening.add_listener("after", lambda *_: rung.put_nowait("after"))
        await catalog.enable(WEEKLY).apply()
        await pool.execute("SELECT pg_notify('after', '')")
        assert await asyncio.wait_for(rung.get(), 30) == "after", "no node waits"
        await catalog.pause(WEEKLY, Pause()).apply()
        await pool.execute("INSERT INTO graphs VALUES ($1, 1, '{}', now())", str(APP))
        await pool.execute(
            "INSERT INTO graph_nodes (app, task, job_id, state, reported, groups, round, again, generation, reason, "
            "created_at, changed_at, held) "
            "VALUES ($1, $2, '1', 'WAITING', 'missing', '{}', 0, false, 1, '', now(), now(), true)",
            *(str(APP), WEEKLY.name),
        )
        await catalog.enable(WEEKLY).apply()
        assert await asyncio.wait_for(rung.get(), 30) == "graph"
        await listening.reset()
