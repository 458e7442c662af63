"""Decisions about one schedule, pure: what stands and what is asked in, the new generation out, or a reason why not.

Every change is a new generation (ADR 0004); an update to an equal definition is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from streamsched.catalog.control import control
from streamsched.codec.reading import anchored
from streamsched.domain.cron import check_cron, next_fire
from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.schedule import Schedule
from streamsched.domain.trigger import At, Cron, Every, ProgramStatus, TimeLeaf, Trigger, leaf_id, leaves
from streamsched.ports.catalog import Action, AppChange, AppRecord, ScheduleChange, ScheduleRecord


def create(app: AppRecord, definition: Schedule, *, enabled: bool, now: datetime) -> AppChange:
    """Raises:
    ConflictError: the schedule exists.
    NotFoundError: its program does not, or one of its app that it waits for.
    InvalidDefinitionError: a time leaf can never tick.
    """
    before = app.schedules.get(definition.ref)
    if before is not None and before.exists:
        raise ConflictError(f"schedule '{definition.ref}' already exists")
    _check_programs(app, definition)
    return AppChange(schedules=(created(before, definition, enabled=enabled, reason="", now=now),))


def update(app: AppRecord, definition: Schedule, *, now: datetime) -> AppChange:
    """Raises:
    NotFoundError: the schedule, its program, or one of its app that it waits for does not exist.
    InvalidDefinitionError: a time leaf can never tick.
    """
    before = existing(app, definition.ref)
    _check_programs(app, definition)
    if before.definition == definition:
        return AppChange()
    return AppChange(schedules=(updated(before, definition, reason="", now=now),))


def enable(app: AppRecord, ref: ScheduleRef, *, now: datetime) -> AppChange:
    """Raises:
    NotFoundError: the schedule does not exist, or its program.
    ConflictError: it is enabled already.
    """
    before = existing(app, ref)
    if before.enabled:
        raise ConflictError(f"schedule '{ref}' is already enabled")
    _check_program(app, before.definition.program)
    return AppChange(schedules=(_changed(Action.ENABLED, before, _next(before, now, enabled=True), reason=""),))


def disable(app: AppRecord, ref: ScheduleRef, *, now: datetime) -> AppChange:
    """Raises:
    NotFoundError: the schedule does not exist.
    ConflictError: it is disabled already.
    """
    before = existing(app, ref)
    if not before.enabled:
        raise ConflictError(f"schedule '{ref}' is already disabled")
    return AppChange(schedules=(_changed(Action.DISABLED, before, _next(before, now, enabled=False), reason=""),))


def delete(app: AppRecord, ref: ScheduleRef, *, now: datetime) -> AppChange:
    """Raises:
    NotFoundError: the schedule does not exist.
    """
    return AppChange(schedules=(deleted(existing(app, ref), reason="", now=now),))


def created(
    before: ScheduleRecord | None, definition: Schedule, *, enabled: bool, reason: str, now: datetime
) -> ScheduleChange:
    """A schedule that did not exist; `before` is its tombstone, whose generation goes on."""
    check_ticks(definition.trigger)
    generation = before.generation + 1 if before else 1
    after = ScheduleRecord(definition, generation, enabled, created_at=now, updated_at=now)
    return _changed(Action.CREATED, before, after, reason=reason)


def updated(before: ScheduleRecord, definition: Schedule, *, reason: str, now: datetime) -> ScheduleChange:
    """Another definition; stays enabled or disabled."""
    check_ticks(definition.trigger)
    return _changed(Action.UPDATED, before, replace(_next(before, now), definition=definition), reason=reason)


def deleted(before: ScheduleRecord, *, reason: str, now: datetime) -> ScheduleChange:
    """A tombstone."""
    return _changed(Action.DELETED, before, _next(before, now, enabled=False, deleted_at=now), reason=reason)


def existing(app: AppRecord, ref: ScheduleRef) -> ScheduleRecord:
    """Raises:
    NotFoundError: no such schedule.
    """
    record = app.schedules.get(ref)
    if record is None or not record.exists:
        raise NotFoundError("schedule", str(ref))
    return record


def check_ticks(trigger: Trigger) -> None:
    """The last gate for definitions made in Python, which no codec has seen.

    Raises:
        InvalidDefinitionError: a cron expression is wrong or never matches, or its zone is unknown.
    """
    for leaf in time_leaves(trigger).values():
        if isinstance(leaf, Cron):
            with anchored("$.trigger"):
                check_cron(leaf)


def time_leaves(trigger: Trigger) -> Mapping[str, TimeLeaf]:
    """The leaves the timers serve, by leaf id."""
    return {leaf_id(leaf): leaf for leaf in leaves(trigger) if isinstance(leaf, Cron | Every | At)}


def _next(
    before: ScheduleRecord, now: datetime, *, enabled: bool | None = None, deleted_at: datetime | None = None
) -> ScheduleRecord:
    return replace(
        before,
        generation=before.generation + 1,
        enabled=before.enabled if enabled is None else enabled,
        updated_at=now,
        deleted_at=deleted_at,
    )


def _changed(action: Action, before: ScheduleRecord | None, after: ScheduleRecord, *, reason: str) -> ScheduleChange:
    return ScheduleChange(action, before, after, reason, timers=_timers(after), records=control(before, after))


def _timers(after: ScheduleRecord) -> dict[str, datetime]:
    """The first tick of each time leaf after the change; a leaf with none ahead has no timer."""
    if not after.enabled:
        return {}
    first = {
        leaf: next_fire(time_leaf, after.updated_at, created_at=after.created_at)
        for leaf, time_leaf in time_leaves(after.definition.trigger).items()
    }
    return {leaf: due for leaf, due in first.items() if due is not None}


def _check_programs(app: AppRecord, definition: Schedule) -> None:
    """The program it starts, and those of its own app it waits for; another app may be deployed later."""
    _check_program(app, definition.program)
    for leaf in leaves(definition.trigger):
        if isinstance(leaf, ProgramStatus) and leaf.program.owner == app.ref:
            _check_program(app, leaf.program)


def _check_program(app: AppRecord, program: ProgramRef) -> None:
    if program not in app.programs:
        raise NotFoundError("program", str(program))
