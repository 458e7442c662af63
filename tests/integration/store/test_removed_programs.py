"""A program that goes takes its schedules, and rewrites those of its namespace that wait for it, but no others."""

from __future__ import annotations

import asyncpg
import pytest

from streamsched.api.plan_views import preview_view
from streamsched.domain.errors import NotFoundError
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.app import AppDefinition
from streamsched.domain.schedules.schedule import BashJob, Program, Schedule
from streamsched.domain.signals.signal import Put, Unsubscribe
from streamsched.domain.triggers.trigger import ProgramStatus, Trigger
from streamsched.store.audit import AuditStore
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
    await scheduler.catalog.deploy(app(schedule(), programs=(JOIN, TIDY))).apply()
    below = waits("alone", JOINED), waits("or", JOINED | WEATHER), waits("and", JOINED & WEATHER), waits("tidy", TIDIED)
    await scheduler.catalog.deploy(AppDefinition(DOWN, (REPORT,), below, frozenset({"alone", "or", "and"}))).apply()


async def current(scheduler: CatalogProcess) -> dict[str, tuple[Trigger, int, bool]]:
    return {
        status.record.definition.ref.name: (
            status.record.definition.trigger,
            status.record.generation,
            status.record.enabled,
        )
        for status in await scheduler.catalog.reader.schedules()
    }


async def test_deleting_it_rewrites_the_trees_that_wait_for_it_and_keeps_what_they_have(
    relaying_scheduler: CatalogProcess,
) -> None:
    await settled(relaying_scheduler)

    applied = await relaying_scheduler.catalog.delete_program(JOIN.ref).apply()

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
        await relaying_scheduler.catalog.deploy(app(programs=(TIDY,)), update_schedules).apply()

        found = await current(relaying_scheduler)
        assert (found.keys(), found["or"][0]) == ({"or", "tidy"}, WEATHER)


async def test_a_deployment_that_drops_nothing_touches_no_other(relaying_scheduler: CatalogProcess) -> None:
    await settled(relaying_scheduler)
    before = await current(relaying_scheduler)

    await relaying_scheduler.catalog.deploy(app(schedule(trigger=FLIGHTS & WEATHER), programs=(JOIN, TIDY))).apply()

    assert {**await current(relaying_scheduler), "weekly": None} == {**before, "weekly": None}


async def test_schedules_of_its_own_app_that_wait_for_it_are_rewritten_too(relaying_scheduler: CatalogProcess) -> None:
    other = Schedule(ScheduleRef("default", "flights", "after"), TIDY.ref, JOINED | FLIGHTS)
    await relaying_scheduler.catalog.deploy(app(schedule(), other, programs=(JOIN, TIDY))).apply()

    await relaying_scheduler.catalog.delete_program(JOIN.ref).apply()

    assert await current(relaying_scheduler) == {"after": (FLIGHTS, 2, True)}
    assert [program.ref for program in await relaying_scheduler.catalog.reader.programs()] == [TIDY.ref]


async def test_a_program_that_is_unknown_cannot_go(relaying_scheduler: CatalogProcess) -> None:
    await settled(relaying_scheduler)

    with pytest.raises(NotFoundError, match="typo"):
        await relaying_scheduler.catalog.delete_program(ProgramRef("default", "flights", "typo")).apply()


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
    asked = ["default.up.p77"], [{"namespace": "default", "application": "up", "program": "p77"}]
    query = queries("catalog/removed_programs")["awaiting"]

    rows = await pool.fetch("EXPLAIN " + query, "default.up", *asked)

    assert [tuple(row) for row in await pool.fetch(query, "default.up", *asked)] == [
        ("default.a77.s77", "default.up.p77")
    ]
    assert any("schedules_by_awaited_program" in row[0] for row in rows), "\n".join(row[0] for row in rows)


FOREIGN = AppRef("finance", "dep")
PAY = Program(ProgramRef("finance", "dep", "pay"), BashJob("true"))


def foreign(name: str, trigger: Trigger) -> Schedule:
    return Schedule(ScheduleRef("finance", "dep", name), PAY.ref, trigger)


async def with_a_foreign_listener(scheduler: CatalogProcess) -> None:
    """`flights` has join and tidy; schedules of another namespace wait for join."""
    await scheduler.catalog.deploy(app(schedule(), programs=(JOIN, TIDY))).apply()
    waiting = foreign("critical", JOINED), foreign("or", JOINED | WEATHER), foreign("tidy", TIDIED)
    await scheduler.catalog.deploy(
        AppDefinition(FOREIGN, (PAY,), waiting, frozenset({"critical", "or", "tidy"}))
    ).apply()


async def reported_removals(scheduler: CatalogProcess) -> dict[str, tuple[int, bool, list[str]]]:
    """Of each schedule of the other namespace: generation, whether it is enabled, what it says of removed programs."""
    return {
        each.record.definition.ref.name: (each.record.generation, each.record.enabled, [str(r) for r in each.removed])
        for each in await scheduler.catalog.reader.schedules(namespace="finance")
    }


@pytest.mark.parametrize("way", ["delete the program", "delete the app", "deploy without it"])
async def test_no_way_of_removing_a_program_changes_schedules_of_another_namespace(
    relaying_scheduler: CatalogProcess, way: str
) -> None:
    await with_a_foreign_listener(relaying_scheduler)
    before = await reported_removals(relaying_scheduler)
    catalog = relaying_scheduler.catalog.with_caller("token:sales")

    match way:
        case "delete the program":
            applied = await catalog.delete_program(JOIN.ref).apply()
        case "delete the app":
            applied = await catalog.delete_app(JOIN.ref.owner).apply()
        case _:
            applied = await catalog.deploy(app(programs=(TIDY,))).apply()

    at = f"{relaying_scheduler.clock.now():%Y-%m-%d %H:%M:%S}Z"
    said = f"waits for {JOIN.ref}, which was deleted by token:sales at {at}"
    gone = [said.replace(str(JOIN.ref), str(TIDY.ref))] if way == "delete the app" else []
    assert {each.after.definition.ref.namespace for each in applied.change.schedules} == {"default"}
    assert await reported_removals(relaying_scheduler) == {
        name: (*before[name][:2], [said] if name != "tidy" else gone) for name in before
    }
    (line, *_) = await relaying_scheduler.reader.history("schedule", "finance.dep.critical")
    assert (line.action, line.reason) == ("program.removed", f"it {said}")
    (entry,) = await AuditStore(relaying_scheduler.pool).list_newest(limit=10)
    assert (entry.caller, entry.action, entry.target) == ("token:sales", "program.removed", "finance")
    assert "finance.dep.critical" in entry.detail["schedules"]
    assert str(JOIN.ref) in entry.detail["programs"]


async def test_a_schedule_says_so_until_the_program_is_deployed_again(relaying_scheduler: CatalogProcess) -> None:
    await with_a_foreign_listener(relaying_scheduler)
    before = await reported_removals(relaying_scheduler)
    await relaying_scheduler.catalog.delete_program(JOIN.ref).apply()

    await relaying_scheduler.catalog.deploy(app(schedule(), programs=(JOIN, TIDY))).apply()

    assert await reported_removals(relaying_scheduler) == before


async def test_one_that_no_longer_waits_for_it_says_nothing(relaying_scheduler: CatalogProcess) -> None:
    await with_a_foreign_listener(relaying_scheduler)
    await relaying_scheduler.catalog.delete_program(JOIN.ref).apply()

    await relaying_scheduler.catalog.update(foreign("critical", WEATHER)).apply()

    assert (await reported_removals(relaying_scheduler))["critical"] == (2, True, [])


async def test_a_plan_has_the_schedules_of_other_namespaces_apart(relaying_scheduler: CatalogProcess) -> None:
    await with_a_foreign_listener(relaying_scheduler)

    plan = await relaying_scheduler.catalog.delete_program(JOIN.ref).preview()

    assert [str(each.schedule) for each in plan.schedules] == ["default.flights.weekly"]
    assert [str(each.schedule) for each in plan.foreign_waits] == ["finance.dep.critical", "finance.dep.or"]
    assert preview_view(plan)["waitingElsewhere"] == {"schedules": [], "others": 2}
    assert preview_view(plan, lambda namespace: namespace == "finance")["waitingElsewhere"] == {
        "schedules": ["finance.dep.critical", "finance.dep.or"],
        "others": 0,
    }
