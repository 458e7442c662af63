"""What a deployment of an app changes: the difference between what stands and what is wanted, pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from streamsched.catalog.change import created, deleted, updated
from streamsched.domain.app import AppDefinition
from streamsched.ports.catalog import Action, AppChange, AppRecord, ProgramChange, ScheduleChange


def deploy(app: AppRecord, wanted: AppDefinition, *, update_schedules: bool, now: datetime) -> AppChange:
    """Programs become exactly the wanted ones, and so do schedules when `update_schedules`: an equal one keeps its
    generation, accumulation and jobs; one that differs gets a new generation and stays enabled or disabled; one that
    is not wanted goes; a new one is enabled when `wanted.enabled` names it. Without `update_schedules` schedules are
    left alone. Either way a schedule whose program went goes with it. Deploying the same again changes nothing.

    Raises:
        InvalidDefinitionError: a time leaf of a new or changed schedule can never tick.
    """
    return AppChange(
        programs=tuple(_programs(app, wanted)),
        schedules=tuple(
            sorted(
                _schedules(app, wanted, update_schedules=update_schedules, now=now),
                key=lambda change: change.after.definition.ref,
            )
        ),
    )


def _programs(app: AppRecord, wanted: AppDefinition) -> Iterator[ProgramChange]:
    for program in wanted.programs:
        known = app.programs.get(program.ref)
        if known is None:
            yield ProgramChange(Action.CREATED, program, "")
        elif known != program:
            yield ProgramChange(Action.UPDATED, program, "")
    kept = {program.ref for program in wanted.programs}
    for ref, program in sorted(app.programs.items()):
        if ref not in kept:
            yield ProgramChange(Action.DELETED, program, "not in the deployed app")


def _schedules(
    app: AppRecord, wanted: AppDefinition, *, update_schedules: bool, now: datetime
) -> Iterator[ScheduleChange]:
    definitions = {schedule.ref: schedule for schedule in wanted.schedules} if update_schedules else {}
    programs = {program.ref for program in wanted.programs}
    for ref, record in app.schedules.items():
        if not record.exists or ref in definitions:
            continue
        if record.definition.program not in programs:
            yield deleted(record, reason=f"its program {record.definition.program} was removed", now=now)
        elif update_schedules:
            yield deleted(record, reason="not in the deployed app", now=now)
    for ref, definition in definitions.items():
        record = app.schedules.get(ref)
        if record is None or not record.exists:
            enabled = ref.name in wanted.enabled
            yield created(record, definition, enabled=enabled, reason="deployed", now=now)
        elif record.definition != definition:
            yield updated(record, definition, reason="deployed", now=now)
