"""A program that goes takes its schedules, and rewrites those of any app that wait for it."""

from __future__ import annotations

import asyncpg
import pytest

from streamsched.domain.app import AppDefinition
from streamsched.domain.errors import NotFoundError
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedule import BashJob, Program, Schedule
from streamsched.domain.signal import Put, Unsubscribe
from streamsched.domain.trigger import ProgramStatus, Trigger
from streamsched.store.sql import queries

from .conftest import FLIGHTS, JOIN, WEATHER, House, app, schedule

DOWN = AppRef("default", "down")
REPORT = Program(ProgramRef("default", "down", "report"), BashJob("true"))
TIDY = Program(ProgramRef("default", "flights", "tidy"), BashJob("true"))
JOINED, TIDIED = ProgramStatus(JOIN.ref), ProgramStatus(TIDY.ref)


def waits(name: str, trigger: Trigger) -> Schedule:
    return Schedule(ScheduleRef("default", "down", name), REPORT.ref, trigger)


async def settled(house: House) -> None:
    """`flights` has join and tidy; schedules of `down` wait for join in every way."""
    await house.catalog.deploy(app(schedule(), programs=(JOIN, TIDY)))
    below = waits("alone", JOINED), waits("or", JOINED | WEATHER), waits("and", JOINED & WEATHER), waits("tidy", TIDIED)
    await house.catalog.deploy(AppDefinition(DOWN, (REPORT,), below, frozenset({"alone", "or", "and"})))


async def standing(house: House) -> dict[str, tuple[Trigger, int, bool]]:
    return {
        status.record.definition.ref.name: (
            status.record.definition.trigger,
            status.record.generation,
            status.record.enabled,
        )
        for status in await house.catalog.list()
    }


async def test_deleting_it_rewrites_the_trees_that_wait_for_it_and_keeps_what_they_have(open_house: House) -> None:
    await settled(open_house)

    applied = await open_house.catalog.delete_program(JOIN.ref)

    assert [each.after.definition.ref.name for each in applied.change.schedules] == ["alone", "and", "or", "weekly"]
    assert await standing(open_house) == {"or": (WEATHER, 2, True), "tidy": (TIDIED, 1, False)}
    told = [
        signal for signal in await open_house.signals() if getattr(signal, "schedule", None) == waits("or", JOINED).ref
    ]
    assert Put(waits("or", JOINED).ref, 2, True, WEATHER, keep=True) in told
    assert any(isinstance(signal, Unsubscribe) and signal.generation == 2 for signal in told)
    (line, _) = await open_house.reader.history("schedule", "default.down.or")
    assert (line.action, line.reason) == ("updated", f"it waits no more for {JOIN.ref}, which was removed")
    (line, _) = await open_house.reader.history("schedule", "default.down.and")
    assert (line.action, line.reason) == ("deleted", f"it waits for {JOIN.ref}, which was removed")
    (line, _) = await open_house.reader.history("schedule", "default.flights.weekly")
    assert line.reason == f"its program {JOIN.ref} was removed"


async def test_so_does_a_deployment_that_drops_it_whatever_it_says_of_schedules(open_house: House) -> None:
    for update_schedules in (True, False):
        await settled(open_house)
        await open_house.catalog.deploy(app(programs=(TIDY,)), update_schedules)

        found = await standing(open_house)
        assert (found.keys(), found["or"][0]) == ({"or", "tidy"}, WEATHER)


async def test_a_deployment_that_drops_nothing_touches_nobody_else(open_house: House) -> None:
    await settled(open_house)
    before = await standing(open_house)

    await open_house.catalog.deploy(app(schedule(trigger=FLIGHTS & WEATHER), programs=(JOIN, TIDY)))

    assert {**await standing(open_house), "weekly": None} == {**before, "weekly": None}


async def test_schedules_of_its_own_app_that_wait_for_it_are_rewritten_too(open_house: House) -> None:
    other = Schedule(ScheduleRef("default", "flights", "after"), TIDY.ref, JOINED | FLIGHTS)
    await open_house.catalog.deploy(app(schedule(), other, programs=(JOIN, TIDY)))

    await open_house.catalog.delete_program(JOIN.ref)

    assert await standing(open_house) == {"after": (FLIGHTS, 2, True)}
    assert [program.ref for program in await open_house.catalog.programs()] == [TIDY.ref]


async def test_a_program_nobody_knows_cannot_go(open_house: House) -> None:
    await settled(open_house)

    with pytest.raises(NotFoundError, match="typo"):
        await open_house.catalog.delete_program(ProgramRef("default", "flights", "typo"))


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

    rows = await pool.fetch("EXPLAIN " + queries("catalog")["awaiting"], "default.up", asked)

    assert [row["id"] for row in await pool.fetch(queries("catalog")["awaiting"], "default.up", asked)] == [
        "default.a77.s77"
    ]
    assert any("schedules_by_awaited_program" in row[0] for row in rows), "\n".join(row[0] for row in rows)
