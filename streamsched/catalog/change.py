"""Decisions about one schedule, pure: what stands and what is asked in, the new generation out, or a reason why not.

Every change is a new generation (ADR 0004); an update to an equal definition is none. A change *keeps* when what the
generation before had goes on in the new one: its accumulation as far as it fits, and its waiting jobs (ADR 0012).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from streamsched.catalog.control import control
from streamsched.codec.reading import anchored
from streamsched.domain.cron import check_cron, next_fire
from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.domain.jitter import fires_at
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.pause import DISABLED, Pause
from streamsched.domain.schedule import Program, Schedule
from streamsched.domain.trigger import (
    At,
    Cron,
    Every,
    ProgramStatus,
    TimeLeaf,
    Trigger,
    check_correlation,
    leaf_id,
    leaves,
)
from streamsched.ports.catalog import Action, AppChange, AppRecord, Break, ScheduleChange, ScheduleRecord


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


def update(app: AppRecord, definition: Schedule, *, keep: bool, now: datetime) -> AppChange:
    """Raises:
    NotFoundError: the schedule, its program, or one of its app that it waits for does not exist.
    InvalidDefinitionError: a time leaf can never tick.
    """
    before = existing(app, definition.ref)
    _check_programs(app, definition)
    if before.definition == definition:
        return AppChange()
    return AppChange(schedules=(updated(before, definition, keep=keep, reason="", now=now),))


def enable(app: AppRecord, ref: ScheduleRef, *, reason: str = "", now: datetime) -> AppChange:
    """Raises:
    NotFoundError: the schedule does not exist, or its program.
    ConflictError: it is enabled already.
    """
    before = existing(app, ref)
    if before.enabled:
        raise ConflictError(f"schedule '{ref}' is already enabled")
    existing_program(app, before.definition.program)
    return AppChange(schedules=(enabled(before, reason=reason, now=now),))


def pause(app: AppRecord, ref: ScheduleRef, wanted: Pause, *, reason: str = "", now: datetime) -> AppChange:
    """Raises:
    NotFoundError: the schedule does not exist.
    ConflictError: it is paused in just that way already.
    InvalidError: the pause would be over already.
    """
    before = existing(app, ref)
    wanted.check(now)
    if not before.enabled and (before.pause or DISABLED) == wanted:
        raise ConflictError(f"schedule '{ref}' is already {'paused' if wanted.keep else 'disabled'}")
    return AppChange(schedules=(paused(before, wanted, reason=reason, now=now),))


def enable_all(app: AppRecord, *, reason: str = "", now: datetime) -> AppChange:
    """Whatever of the app is disabled or paused; nothing when nothing is."""
    why = f"with its app: {reason}" if reason else "with its app"
    return _each(app, lambda record: None if record.enabled else enabled(record, reason=why, now=now))


def pause_all(app: AppRecord, wanted: Pause, *, reason: str = "", now: datetime) -> AppChange:
    """Whatever of the app is enabled; nothing when nothing is.

    Raises:
        InvalidError: the pause would be over already.
    """
    wanted.check(now)
    return _each(app, lambda record: paused(record, wanted, reason=reason, now=now) if record.enabled else None)


def resume_due(app: AppRecord, ref: ScheduleRef, *, now: datetime) -> AppChange:
    """What the timers do when a pause is over; nothing when somebody was quicker, or made it longer."""
    before = app.schedules.get(ref)
    if before is None or not before.exists or before.pause is None or before.pause.until is None:
        return AppChange()
    if before.pause.until > now:
        return AppChange()
    reason = f"its pause ended at {before.pause.until:%Y-%m-%d %H:%M:%S}Z"
    return AppChange(schedules=(enabled(before, reason=reason, now=now),))


def pause_broken(app: AppRecord, broken: Break, *, now: datetime) -> AppChange:
    """What the timers do when runs failed too often; nothing when anybody has changed the schedule since."""
    before = app.schedules.get(broken.schedule)
    if before is None or not before.enabled or before.generation != broken.generation:
        return AppChange()
    return AppChange(schedules=(paused(before, broken.pause, now=now),))


def delete(app: AppRecord, ref: ScheduleRef, *, reason: str = "", now: datetime) -> AppChange:
    """Raises:
    NotFoundError: the schedule does not exist.
    """
    return AppChange(schedules=(deleted(existing(app, ref), reason=reason, now=now),))


def created(
    before: ScheduleRecord | None, definition: Schedule, *, enabled: bool, reason: str, now: datetime
) -> ScheduleChange:
    """A schedule that did not exist; `before` is its tombstone, whose generation goes on."""
    check_trigger(definition.trigger)
    generation = before.generation + 1 if before else 1
    after = ScheduleRecord(definition, generation, enabled, created_at=now, updated_at=now)
    return _changed(Action.CREATED, before, after, reason=reason)


def updated(before: ScheduleRecord, definition: Schedule, *, keep: bool, reason: str, now: datetime) -> ScheduleChange:
    """Another definition; stays enabled, paused or disabled."""
    check_trigger(definition.trigger)
    after = replace(_next(before, now, keep=keep), definition=definition)
    return _changed(Action.UPDATED, before, after, reason=reason)


def enabled(before: ScheduleRecord, *, reason: str, now: datetime) -> ScheduleChange:
    """Enabled; one whose pause kept goes on with what it has, and fires at once if that is enough."""
    action = Action.RESUMED if before.keeping else Action.ENABLED
    after = replace(_next(before, now, keep=before.keeping), enabled=True, pause=None)
    return _changed(action, before, after, reason=reason)


def paused(before: ScheduleRecord, wanted: Pause, *, reason: str = "", now: datetime) -> ScheduleChange:
    """Disabled, in this way; where no reason is given, its note is one."""
    action = Action.DISABLED if wanted == DISABLED else Action.PAUSED
    after = replace(_next(before, now, keep=wanted.keep), enabled=False, pause=None if wanted == DISABLED else wanted)
    return _changed(action, before, after, reason=reason or wanted.note)


def deleted(before: ScheduleRecord, *, reason: str, now: datetime) -> ScheduleChange:
    """A tombstone."""
    after = replace(_next(before, now, keep=False), enabled=False, pause=None, deleted_at=now)
    return _changed(Action.DELETED, before, after, reason=reason)


def existing(app: AppRecord, ref: ScheduleRef) -> ScheduleRecord:
    """Raises:
    NotFoundError: no such schedule.
    """
    record = app.schedules.get(ref)
    if record is None or not record.exists:
        raise NotFoundError("schedule", str(ref))
    return record


def existing_program(app: AppRecord, ref: ProgramRef) -> Program:
    """Raises:
    NotFoundError: no such program.
    """
    if ref not in app.programs:
        raise NotFoundError("program", str(ref))
    return app.programs[ref]


def check_trigger(trigger: Trigger) -> None:
    """The last gate for definitions made in Python, which no codec has seen.

    Raises:
        InvalidDefinitionError: a cron expression is wrong or never matches, its zone is unknown, or the trigger
            correlates in a way that can never hold.
    """
    with anchored("$.trigger"):
        check_correlation(trigger)
    for leaf in time_leaves(trigger).values():
        if isinstance(leaf, Cron):
            with anchored("$.trigger"):
                check_cron(leaf)


def time_leaves(trigger: Trigger) -> Mapping[str, TimeLeaf]:
    """The leaves the timers serve, by leaf id."""
    return {leaf_id(leaf): leaf for leaf in leaves(trigger) if isinstance(leaf, Cron | Every | At)}


def _each(app: AppRecord, decide: Callable[[ScheduleRecord], ScheduleChange | None]) -> AppChange:
    changes = (decide(record) for record in app.schedules.values() if record.exists)
    return AppChange(schedules=tuple(change for change in changes if change is not None))


def _next(before: ScheduleRecord, now: datetime, *, keep: bool) -> ScheduleRecord:
    """The next generation; one of a schedule that listens can keep."""
    kept = min(before.stands_from, before.generation) if keep and before.listens else None
    return replace(before, generation=before.generation + 1, updated_at=now, deleted_at=None, kept_from=kept)


def _changed(action: Action, before: ScheduleRecord | None, after: ScheduleRecord, *, reason: str) -> ScheduleChange:
    return ScheduleChange(action, before, after, reason, timers=_timers(after), records=control(before, after))


def _timers(after: ScheduleRecord) -> dict[str, datetime]:
    """When the first tick of each time leaf after the change fires; a leaf with none ahead has no timer."""
    if not after.listens:
        return {}
    return {
        leaf: fires_at(time_leaf, due, after.definition.ref, created_at=after.created_at)
        for leaf, time_leaf in time_leaves(after.definition.trigger).items()
        if (due := next_fire(time_leaf, after.updated_at, created_at=after.created_at)) is not None
    }


def _check_programs(app: AppRecord, definition: Schedule) -> None:
    """The program it starts, and those of its own app it waits for; another app may be deployed later."""
    existing_program(app, definition.program)
    for deadline in definition.deadlines:
        if deadline.program is not None:
            existing_program(app, ProgramRef(app.ref.namespace, app.ref.app, deadline.program))
    for leaf in leaves(definition.trigger):
        if isinstance(leaf, ProgramStatus) and leaf.program.owner == app.ref:
            existing_program(app, leaf.program)
