"""Deploying an app over what stands."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from streamsched.domain.errors import ConflictError
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.schedule import BashJob, Program
from streamsched.domain.triggers.trigger import Cron
from streamsched.store.catalog.records import Action, AppChange, AppRecord

from .conftest import APP, JOIN, WEATHER, CatalogProcess, app, schedule


async def test_deploying_the_same_again_changes_nothing(relaying_scheduler: CatalogProcess) -> None:
    wanted = app(schedule(), schedule("daily", Cron("0 4 * * *"), properties={"a": "b"}, timeout=timedelta(hours=2)))
    await relaying_scheduler.catalog.deploy(wanted).apply()
    before = await relaying_scheduler.signals()

    applied = await relaying_scheduler.catalog.deploy(wanted).apply()

    assert applied.change == AppChange()
    assert await relaying_scheduler.signals() == before


async def test_a_redeployment_changes_what_differs_and_keeps_what_is_equal(relaying_scheduler: CatalogProcess) -> None:
    catalog = relaying_scheduler.catalog
    await catalog.deploy(app(schedule("equal"), schedule("differs"), schedule("absent"))).apply()
    await catalog.disable(schedule("equal").ref).apply()
    await catalog.disable(schedule("differs").ref).apply()

    applied = await catalog.deploy(
        app(schedule("equal"), schedule("differs", WEATHER), schedule("new", WEATHER))
    ).apply()

    assert {change.after.definition.ref.name: change.action for change in applied.change.schedules} == {
        "absent": Action.DELETED,
        "differs": Action.UPDATED,
        "new": Action.CREATED,
    }
    assert {
        s.record.definition.ref.name: (s.record.generation, s.record.enabled) for s in await catalog.reader.schedules()
    } == {
        "equal": (2, False),
        "differs": (3, False),
        "new": (1, True),
    }


async def test_a_redeployment_that_leaves_schedules_alone_still_takes_those_of_removed_programs(
    relaying_scheduler: CatalogProcess,
) -> None:
    catalog = relaying_scheduler.catalog
    report = Program(ProgramRef("default", "flights", "report"), BashJob("true"))
    reporting = replace(schedule("reporting"), program=report.ref)
    await catalog.deploy(app(schedule(), reporting, programs=(JOIN, report))).apply()

    await catalog.deploy(app(schedule("new")), update_schedules=False).apply()

    assert [status.record.definition.ref.name for status in await catalog.reader.schedules()] == ["weekly"]
    assert [program.ref.name for program in await catalog.reader.programs()] == ["join"]
    lines = await relaying_scheduler.reader.history("schedule", str(reporting.ref))
    assert lines[0].reason == "its program default.flights.report was removed"


async def test_a_changed_program_leaves_its_schedules_alone(relaying_scheduler: CatalogProcess) -> None:
    catalog = relaying_scheduler.catalog
    await catalog.deploy(app(schedule())).apply()
    other = replace(JOIN, executable=BashJob("false"))

    await catalog.deploy(app(schedule(), programs=(other,))).apply()

    assert await catalog.reader.program(JOIN.ref) == other
    assert (await catalog.reader.schedule(schedule().ref)).record.generation == 1


async def test_a_decision_that_raises_leaves_no_trace(scheduler: CatalogProcess) -> None:
    def refuse(_record: AppRecord) -> AppChange:
        raise ConflictError("no")

    with pytest.raises(ConflictError):
        await scheduler.store.change(APP, None, refuse, now=scheduler.clock.now())

    assert await scheduler.pool.fetchval("SELECT count(*) FROM apps") == 0
