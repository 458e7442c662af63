"""What a deployment of an app changes: the difference between what stands and what is wanted, pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from streamsched.catalog.change import created, deleted, existing_program, updated
from streamsched.domain.app import AppDefinition
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.removal import awaited, without
from streamsched.ports.catalog import Action, AppChange, AppRecord, ProgramChange, ScheduleChange, ScheduleRecord


def deploy(
    app: AppRecord, wanted: AppDefinition, *, update_schedules: bool, keep: bool | None = None, now: datetime
) -> AppChange:
    """Programs become exactly the wanted ones, and so do schedules when `update_schedules`: an equal one keeps its
    generation, accumulation and jobs; one that differs gets a new generation and stays enabled, paused or disabled; one
    that is not wanted goes; a new one is enabled when `wanted.enabled` names it. Without `update_schedules` schedules
    are left alone. Either way a schedule whose program went goes with it, and one of any app that waits for such a
    program goes on without that, or goes too. Deploying the same again changes nothing.

    `keep` says for all changed schedules whether they keep what they have; None leaves it to `wanted.keeping`.

    Raises:
        InvalidDefinitionError: a time leaf of a new or changed schedule can never tick.
    """
    removed = app.programs.keys() - {program.ref for program in wanted.programs}
    changes = [
        *_schedules(app, wanted, removed, update_schedules=update_schedules, keep=keep, now=now),
        *_bereft(app.listeners, removed, now=now),
    ]
    return AppChange(
        programs=tuple(_programs(app, wanted)),
        schedules=tuple(sorted(changes, key=lambda change: change.after.definition.ref)),
    )


def remove_program(app: AppRecord, ref: ProgramRef, *, now: datetime) -> AppChange:
    """The program goes, with its schedules; schedules of any app that wait for it go on without that, or go too.

    Raises:
        NotFoundError: no such program.
    """
    program = existing_program(app, ref)
    changes = [*_starting(app, {ref}, now=now), *_bereft({**app.schedules, **app.listeners}, {ref}, now=now)]
    return AppChange(
        programs=(ProgramChange(Action.DELETED, program, ""),),
        schedules=tuple(sorted(changes, key=lambda change: change.after.definition.ref)),
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
    app: AppRecord,
    wanted: AppDefinition,
    removed: Collection[ProgramRef],
    *,
    update_schedules: bool,
    keep: bool | None,
    now: datetime,
) -> Iterator[ScheduleChange]:
    definitions = {schedule.ref: schedule for schedule in wanted.schedules} if update_schedules else {}
    others = {ref: record for ref, record in app.schedules.items() if record.exists and ref not in definitions}
    yield from _starting(replace(app, schedules=others), removed, now=now)
    staying = {ref: record for ref, record in others.items() if record.definition.program not in removed}
    if update_schedules:
        for record in staying.values():
            yield deleted(record, reason="not in the deployed app", now=now)
    else:
        yield from _bereft(staying, removed, now=now)
    for ref, definition in definitions.items():
        record = app.schedules.get(ref)
        if record is None or not record.exists:
            enabled = ref.name in wanted.enabled
            yield created(record, definition, enabled=enabled, reason="deployed", now=now)
        elif record.definition != definition:
            keeps = ref.name in wanted.keeping if keep is None else keep
            yield updated(record, definition, keep=keeps, reason="deployed", now=now)


def _starting(app: AppRecord, removed: Collection[ProgramRef], *, now: datetime) -> Iterator[ScheduleChange]:
    """The schedules that start programs that go."""
    for record in app.schedules.values():
        if record.exists and record.definition.program in removed:
            yield deleted(record, reason=f"its program {record.definition.program} was removed", now=now)


def _bereft(
    schedules: Mapping[ScheduleRef, ScheduleRecord], removed: Collection[ProgramRef], *, now: datetime
) -> Iterator[ScheduleChange]:
    """The schedules that start another program and wait for one that goes. Who loses an alternative has asked for
    nothing, so what has come of the others stays.
    """
    for record in schedules.values():
        definition = record.definition
        if not record.exists or definition.program in removed:
            continue
        names = ", ".join(str(ref) for ref in sorted(awaited(definition.trigger) & set(removed)))
        if not names:
            continue
        left = without(definition.trigger, removed)
        if left is None:
            yield deleted(record, reason=f"it waits for {names}, which was removed", now=now)
        else:
            reason = f"it waits no more for {names}, which was removed"
            yield updated(record, replace(definition, trigger=left), keep=True, reason=reason, now=now)
