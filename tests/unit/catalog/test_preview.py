"""What a change would do: field by field, with what would be lost and what keeping would save."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from streamsched.catalog.change import create, delete, update
from streamsched.catalog.deployment import deploy
from streamsched.catalog.preview import Difference, PotentialLoss, foresee, program_differences
from streamsched.codec.views import explanation
from streamsched.domain.events.event import Event, PartitionsAdded
from streamsched.domain.fold.explain import explain
from streamsched.domain.fold.fold import fold
from streamsched.domain.names import AppRef, DatasetRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.app import AppDefinition
from streamsched.domain.schedules.schedule import BashJob, Program, Schedule, ScheduleRecord
from streamsched.domain.signals.signal import Occurred, Put
from streamsched.domain.triggers.trigger import Partitions
from streamsched.store.catalog.records import Action, AppRecord, ScheduleStatus

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FLIGHTS, WEATHER = DatasetRef("default", "flights"), DatasetRef("default", "weather")
JOIN = Program(ProgramRef("default", "a", "join"), BashJob("true"))
WEEKLY = Schedule(ScheduleRef("default", "a", "weekly"), JOIN.ref, Partitions(FLIGHTS, 7) & Partitions(WEATHER, 7))
RECORD = ScheduleRecord(WEEKLY, 1, True, NOW, NOW)
APP = AppRecord(AppRef("default", "a"), {JOIN.ref: JOIN}, {WEEKLY.ref: RECORD})


def progress() -> dict[str, Any]:
    """Three of flights, one of weather, as the read model has it."""
    state = fold(None, Put(WEEKLY.ref, 1, True, WEEKLY.trigger), at=NOW).state
    for number, (dataset, count) in enumerate([(FLIGHTS, 2), (WEATHER, 1), (FLIGHTS, 1)]):
        event = Event(str(number), "test", NOW, PartitionsAdded(dataset, (), count))
        state = fold(state, Occurred(event), at=NOW).state
    assert state is not None
    return explanation.to_json(explain(state))


STATUS = ScheduleStatus(RECORD, waiting_jobs=2, progress=progress())


def test_what_a_new_trigger_loses_and_what_keeping_saves() -> None:
    wanted = replace(
        WEEKLY, trigger=Partitions(FLIGHTS, 5) & Partitions(DatasetRef("default", "b")), description="less"
    )

    for keep in (False, True):
        (seen,) = foresee(update(APP, wanted, keep=keep, now=NOW), {WEEKLY.ref: STATUS}).schedules

        assert (seen.action, seen.keeps, seen.waiting_jobs) == (Action.UPDATED, keep, 2)
        assert seen.stakes == (
            PotentialLoss("7 new partitions of default.flights", 3, 7, fits=True),
            PotentialLoss("7 new partitions of default.weather", 1, 7, fits=False),
        )
        assert Difference("description", "", "less") in seen.fields
        assert Difference("when", str(WEEKLY.trigger), str(wanted.trigger)) in seen.fields
        assert {field.field for field in seen.fields} == {"description", "trigger", "when"}


def test_what_is_deleted_loses_everything() -> None:
    (seen,) = foresee(delete(APP, WEEKLY.ref, now=NOW), {WEEKLY.ref: STATUS}).schedules

    assert [stake.fits for stake in seen.stakes] == [False, False]


def test_a_new_schedule_has_nothing_to_lose_and_an_equal_one_is_no_difference() -> None:
    new = replace(WEEKLY, ref=ScheduleRef("default", "a", "new"))

    (seen,) = foresee(create(APP, new, enabled=True, now=NOW), {}).schedules

    assert (seen.action, seen.fields, seen.stakes) == (Action.CREATED, (), ())
    assert not foresee(update(APP, WEEKLY, keep=False, now=NOW), {}).differs


def test_a_program_that_is_updated_has_its_changed_fields() -> None:
    wanted = replace(JOIN, executable=BashJob("false"), arguments={"day": "1"})
    definition = AppDefinition(APP.ref, (wanted,), (), prunes=False)

    (change,) = foresee(deploy(APP, definition, update_schedules=False, now=NOW), {}).programs

    assert list(program_differences(change)) == [
        Difference("command", "true", "false"),
        Difference("defaults", {}, {"day": "1"}),
    ]
