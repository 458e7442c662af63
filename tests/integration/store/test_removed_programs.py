"""A program that goes takes its schedules, and rewrites those of any app that wait for it."""

from __future__ import annotations

import asyncpg
import pytest

from streamsched.domain.errors import NotFoundError
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.app import AppDefinition
from streamsched.domain.schedules.schedule import BashJob, Program, Schedule
from streamsched.domain.signals.signal import Put, Unsubscribe
from streamsched.domain.triggers.trigger import ProgramStatus, Trigger
from streamsched.store.sql import queries

from .conftest import FLIGHTS, JOIN, WEATHER, CatalogProcess, app, schedule

DOWN = AppRef("default", "down")
REPORT = Program(ProgramRef("default", "down", "report"), BashJob("true"))
TIDY = Program(ProgramRef("default", "flights", "tidy"), BashJob("true"))
JOINED, TIDIED = ProgramStatus(JOIN.ref), ProgramStatus(TIDY.ref)


def waits(name: str, trigger: Trigger) -> Schedule:
    return Schedule(ScheduleRef("default", "down", name), REPORT.ref, trigger)


async def settled(scheduler: CatalogProcess) -> None:
    """`flights` has join and tidy; schedules of `down` wait for join in every way."""
    await scheduler.catalog.deploy(app(schedule(), programs=(JOIN, TIDY)))
    below = waits("alone", JOINED), waits("or", JOINED | WEATHER), waits("and", JOINED & WEATHER), waits("tidy", TIDIED)
    await scheduler.catalog.deploy(AppDefinition(DOWN, (REPORT,), below, frozenset({"alone", "or", "and"})))


async def current(scheduler: CatalogProcess) -> dict[str, tuple[Trigger, int, bool]]:
    return {
        status.record.definition.ref.name: (
            status.record.definition.trigger,
            status.record.generation,
            status.record.enabled,
        )
        for status in await scheduler.catalog.list()
    }


async def test_deleting_it_rewrites_the_trees_that_wait_for_it_and_keeps_what_they_have(
    relaying_scheduler: CatalogProcess,
) -> None:
    await settled(relaying_scheduler)

    applied = await relaying_scheduler.catalog.delete_program(JOIN.ref)

    assert [each.after.definition.ref.name for each in applied.change.schedules] == ["alone", "and", "or", "weekly"]
    assert await current(relaying_scheduler) == {"or": (WEATHER, 2, True), "tidy": (TIDIED, 1, False)}
    reported = [
        signal
        for signal in await relaying_scheduler.signals()
        if getattr(signal, "schedule", None) == waits("or", JOINED).ref
    ]
    assert Put(waits("or", JOINED).ref, 2, True, WEATHER, keep=True) in reported
    assert any(isinstance(signal, Unsubscribe) and signal.generation == 2 for signal in reported)
    (line, _) = await relaying_scheduler.reader.history("schedule", "default.down.or")
    assert (line.action, line.reason) == ("updated", f"it waits no more for {JOIN.ref}, which was removed")
    (line, _) = await relaying_scheduler.reader.history("schedule", "default.down.and")
    assert (line.action, line.reason) == ("deleted", f"it waits for {JOIN.ref}, which was removed")
    (line, _) = await relaying_scheduler.reader.history("schedule", "default.flights.weekly")
    assert line.reason == f"its program {JOIN.ref} was removed"


async def test_so_does_a_deployment_that_drops_it_whatever_it_says_of_schedules(
    relaying_scheduler: CatalogProcess,
) -> None:
    for update_schedules in (True, False):
        await settled(relaying_scheduler)
        await relaying_scheduler.catalog.deploy(app(programs=(TIDY,)), update_schedules)

        found = await current(relaying_scheduler)
        assert (found.keys(), found["or"][0]) == ({"or", "tidy"}, WEATHER)


async def test_a_deployment_that_drops_nothing_touches_no_other(relaying_scheduler: CatalogProcess) -> None:
    await settled(relaying_scheduler)
    before = await current(relaying_scheduler)

    await relaying_scheduler.catalog.deploy(app(schedule(trigger=FLIGHTS & WEATHER), programs=(JOIN, TIDY)))

    assert {**await current(relaying_scheduler), "weekly": None} == {**before, "weekly": None}


async def test_schedules_of_its_own_app_that_wait_for_it_are_rewritten_too(relaying_scheduler: CatalogProcess) -> None:
    other = Schedule(ScheduleRef("default", "flights", "after"), TIDY.ref, JOINED | FLIGHTS)
    await relaying_scheduler.catalog.deploy(app(schedule(), other, programs=(JOIN, TIDY)))

    await relaying_scheduler.catalog.delete_program(JOIN.ref)

    assert await current(relaying_scheduler) == {"after": (FLIGHTS, 2, True)}
    assert [program.ref for program in await relaying_scheduler.catalog.programs()] == [TIDY.ref]


async def test_a_program_that_is_unknown_cannot_go(relaying_scheduler: CatalogProcess) -> None:
    await settled(relaying_scheduler)

    with pytest.raises(NotFoundError, match="typo"):
        await relaying_scheduler.catalog.delete_program(ProgramRef("default", "flights", "typo"))


async def test_who_waits_is_found_by_index_among_many(pool: asyncpg.Pool) -> None:
    await pool.execute(
        """INSERT INTO namespaces VALUES ('default', now());
        INSERT INTO apps SELECT 'default.a' || n, 'default', now(), now() FROM generate_series(0, 99) n;
        INSERT INTO schedules (id, app, program, definition, generation, enabled, created_at, updated_at)
        SELECT format('default.a%s.s%s', n % 100, n), format('default.a%s', n % 100), 'p',
            jsonb_build_object('trigger', jsonb_build_object('triggers', jsonb_build_array(jsonb_build_object(
                'programId', jsonb_build_object('namespace', 'default', 'application', 'up', 'program', 'p' || n))))),
            1, true, now(), now()
        FROM generate_series(1, 20000) n"""
    )
    await pool.execute("VACUUM ANALYZE schedules")
    asked = [{"namespace": "default", "application": "up", "program": "p77"}]

    rows = await pool.fetch("EXPLAIN " + queries("catalog/catalog")["awaiting"], "default.up", asked)

    assert [row["id"] for row in await pool.fetch(queries("catalog/catalog")["awaiting"], "default.up", asked)] == [
        "default.a77.s77"
    ]
    assert any("schedules_by_awaited_program" in row[0] for row in rows), "\n".join(row[0] for row in rows)
