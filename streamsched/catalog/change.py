"""Pure decisions about one schedule: from its current record and a request to its new generation, or an error.

Every change makes a new generation , except an update to an equal definition. A change *keeps* when the new
generation takes over the accumulation, as far as it fits, and the waiting jobs of the former one (ADR 12).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from streamsched.codec.json.reading import prefix_errors
from streamsched.codec.triggers.trigger import without_defaults
from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.domain.limits import add_duration
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.schedules.pause import Pause
from streamsched.domain.schedules.schedule import Program, Schedule, ScheduleRecord
from streamsched.domain.ticks.fire_times import check_cron, next_fire
from streamsched.domain.ticks.jitter import fires_at
from streamsched.domain.triggers.removal import awaited_programs
from streamsched.domain.triggers.trigger import (
    At,
    Cron,
    Every,
    SinceLastRun,
    TimeLeaf,
    Trigger,
    check_correlation,
    leaf_id,
    leaves,
)
from streamsched.store.catalog.records import Action, AppChange, AppRecord, FailureStreak, ScheduleChange


def create(app: AppRecord, definition: Schedule, *, enabled: bool, now: datetime) -> AppChange:
    """The change that adds a schedule to the app.

    Raises:
        ConflictError: the schedule exists.
        NotFoundError: its program, or a program of its app that it waits for, does not exist.
        InvalidDefinitionError: a time leaf can never tick.
    """
    before = app.schedules.get(definition.ref)
    if before is not None and before.exists:
        raise ConflictError(f"schedule '{definition.ref}' already exists")
    _check_programs(app, definition)
    created = create_schedule(before, definition, enabled=enabled, reason="", now=now, forgotten=app.forgotten)
    return AppChange(schedules=(created,))


def update(app: AppRecord, definition: Schedule, *, keep: bool | None, now: datetime) -> AppChange:
    """`keep`: None keeps when both versions count alike.

    Raises:
    NotFoundError: the schedule, its program, or one of its app that it waits for does not exist.
    InvalidDefinitionError: a time leaf can never tick.
    """
    before = find_existing(app, definition.ref)
    _check_programs(app, definition)
    if before.definition == definition:
        return AppChange()
    keeps = counts_alike(before.definition, definition) if keep is None else keep
    return AppChange(schedules=(update_schedule(before, definition, keep=keeps, reason="", now=now),))


def counts_alike(before: Schedule, after: Schedule) -> bool:
    """Whether the two start the same program after the same events: all else, such as a description, constraints or a
    retry policy, does not touch what has accumulated. How often a rewritten partition counts may differ, whether keys
    named as periods are periods or texts, and what becomes of corrections (ADR 9, 10), so that deploying the
    file of an older release again does not reset accumulations.
    """
    one, other = ((each.program, each.consumption, each.late) for each in (before, after))
    return one == other and without_defaults(before.trigger) == without_defaults(after.trigger)


def enable(app: AppRecord, ref: ScheduleRef, *, reason: str = "", now: datetime) -> AppChange:
    """Enables a schedule that is paused or disabled.

    Raises:
        NotFoundError: the schedule or its program does not exist.
        ConflictError: it is enabled already.
    """
    before = find_existing(app, ref)
    if before.enabled:
        raise ConflictError(f"schedule '{ref}' is already enabled")
    existing_program(app, before.definition.program)
    return AppChange(schedules=(enable_schedule(before, reason=reason, now=now),))


def pause(app: AppRecord, ref: ScheduleRef, wanted: Pause, *, reason: str = "", now: datetime) -> AppChange:
    """Pauses a schedule, or replaces its pause.

    Raises:
        NotFoundError: the schedule does not exist.
        ConflictError: it already has an equal pause.
        InvalidError: the pause would already have ended.
    """
    before = find_existing(app, ref)
    wanted.check(now)
    if before.pause == wanted:
        raise ConflictError(f"schedule '{ref}' is already paused")
    return AppChange(schedules=(pause_schedule(before, wanted, reason=reason, now=now),))


def disable(app: AppRecord, ref: ScheduleRef, *, reason: str = "", paused: bool = True, now: datetime) -> AppChange:
    """`paused`: whether a paused one may be disabled, which ends what its pause keeps.

    Raises:
    NotFoundError: the schedule does not exist.
    ConflictError: it is disabled already; or paused.
    """
    before = find_existing(app, ref)
    if before.is_disabled or (before.pause is not None and not paused):
        raise ConflictError(f"schedule '{ref}' is already {'disabled' if before.is_disabled else 'paused'}")
    return AppChange(schedules=(disable_schedule(before, reason=reason, now=now),))


def enable_all(app: AppRecord, *, reason: str = "", now: datetime) -> AppChange:
    """Enables every disabled or paused schedule of those that were read of the app."""
    return _change_each(app, lambda record: None if record.enabled else enable_schedule(record, reason=reason, now=now))


def pause_all(app: AppRecord, wanted: Pause, *, reason: str = "", now: datetime) -> AppChange:
    """Pauses every enabled schedule of the app.

    Raises:
        InvalidError: the pause would already have ended.
    """
    wanted.check(now)
    return _change_each(
        app, lambda record: pause_schedule(record, wanted, reason=reason, now=now) if record.enabled else None
    )


def disable_all(app: AppRecord, *, reason: str = "", now: datetime) -> AppChange:
    """Disables every enabled or paused schedule of the app."""
    why = f"with its app: {reason}" if reason else "with its app"
    return _change_each(
        app, lambda record: None if record.is_disabled else disable_schedule(record, reason=why, now=now)
    )


def resume_due(app: AppRecord, ref: ScheduleRef, *, now: datetime) -> AppChange:
    """Enables a schedule whose pause has ended; empty when it was resumed or its pause extended meanwhile."""
    before = app.schedules.get(ref)
    if before is None or not before.exists or before.pause is None or before.pause.until is None:
        return AppChange()
    if before.pause.until > now:
        return AppChange()
    reason = f"its pause ended at {before.pause.until:%Y-%m-%d %H:%M:%S}Z"
    return AppChange(schedules=(enable_schedule(before, reason=reason, now=now),))


def pause_broken(app: AppRecord, broken: FailureStreak, *, now: datetime) -> AppChange:
    """Pauses a schedule whose runs failed too often; empty when the schedule has changed since."""
    before = app.schedules.get(broken.schedule)
    if before is None or not before.enabled or before.generation != broken.generation:
        return AppChange()
    return AppChange(schedules=(replace(pause_schedule(before, broken.pause, now=now), itself=True),))


def delete(app: AppRecord, ref: ScheduleRef, *, reason: str = "", now: datetime) -> AppChange:
    """Deletes a schedule; what it accumulated and its waiting jobs go.

    Raises:
        NotFoundError: the schedule does not exist.
    """
    return AppChange(schedules=(delete_schedule(find_existing(app, ref), reason=reason, now=now),))


def create_schedule(
    before: ScheduleRecord | None,
    definition: Schedule,
    *,
    enabled: bool,
    reason: str,
    now: datetime,
    forgotten: int = 0,
) -> ScheduleChange:
    """Creates a schedule; `before` is its tombstone, whose affinity stays and whose generation numbers continue.
    Without one they begin after `forgotten`, the highest of a tombstone of the app that is gone: the name may have been
    used before; its affinity is chosen when it is stored.
    """
    check_trigger(definition.trigger)
    generation, affinity = (before.generation, before.affinity) if before else (forgotten, None)
    after = ScheduleRecord(definition, generation + 1, enabled, created_at=now, updated_at=now, affinity=affinity)
    return _make_change(Action.CREATED, before, after, reason=reason)


def update_schedule(
    before: ScheduleRecord, definition: Schedule, *, keep: bool, reason: str, now: datetime
) -> ScheduleChange:
    """Replaces the definition; the schedule stays enabled, paused or disabled."""
    check_trigger(definition.trigger)
    after = replace(_next_generation(before, now, keep=keep), definition=definition)
    return _make_change(Action.UPDATED, before, after, reason=reason)


def enable_schedule(before: ScheduleRecord, *, reason: str, now: datetime) -> ScheduleChange:
    """Enables the schedule; after a pause that kept, its accumulation continues."""
    action = Action.ENABLED if before.pause is None else Action.RESUMED
    after = _set_resumed_at(
        before, replace(_next_generation(before, now, keep=before.is_keeping), enabled=True, pause=None)
    )
    return _make_change(action, before, after, reason=reason)


def pause_schedule(before: ScheduleRecord, wanted: Pause, *, reason: str = "", now: datetime) -> ScheduleChange:
    """Pauses the schedule, or replaces its pause; the pause's note is the default reason."""
    after = _set_resumed_at(
        before, replace(_next_generation(before, now, keep=wanted.keep), enabled=False, pause=wanted)
    )
    return _make_change(Action.PAUSED, before, after, reason=reason or wanted.note)


def disable_schedule(before: ScheduleRecord, *, reason: str, now: datetime) -> ScheduleChange:
    """Disables the schedule: its accumulation is dropped and its waiting jobs end."""
    after = replace(_next_generation(before, now, keep=False), enabled=False, pause=None)
    return _make_change(Action.DISABLED, before, after, reason=reason)


def delete_schedule(before: ScheduleRecord, *, reason: str, now: datetime) -> ScheduleChange:
    """Turns the schedule into a tombstone, which keeps only its generation."""
    after = replace(_next_generation(before, now, keep=False), enabled=False, pause=None, deleted_at=now)
    return _make_change(Action.DELETED, before, after, reason=reason)


def find_existing(app: AppRecord, ref: ScheduleRef) -> ScheduleRecord:
    """The schedule of the app, deleted ones excepted.

    Raises:
        NotFoundError: no such schedule.
    """
    record = app.schedules.get(ref)
    if record is None or not record.exists:
        raise NotFoundError("schedule", str(ref))
    return record


def existing_program(app: AppRecord, ref: ProgramRef) -> Program:
    """The program of the app.

    Raises:
        NotFoundError: no such program.
    """
    if ref not in app.programs:
        raise NotFoundError("program", str(ref))
    return app.programs[ref]


def check_trigger(trigger: Trigger) -> None:
    """Validates triggers built in Python, which no codec has validated.

    Raises:
        InvalidDefinitionError: a cron expression is wrong or never matches, its zone is unknown, or the trigger
            correlates in a way that can never be satisfied.
    """
    with prefix_errors("$.trigger"):
        check_correlation(trigger)
    for leaf in time_leaves(trigger).values():
        if isinstance(leaf, Cron):
            with prefix_errors("$.trigger"):
                check_cron(leaf)


def time_leaves(trigger: Trigger) -> Mapping[str, TimeLeaf]:
    """The leaves whose ticks time alone decides, by leaf id."""
    return {leaf_id(leaf): leaf for leaf in leaves(trigger) if isinstance(leaf, Cron | Every | At)}


def _change_each(app: AppRecord, decide: Callable[[ScheduleRecord], ScheduleChange | None]) -> AppChange:
    changes = (decide(record) for record in app.schedules.values() if record.exists)
    return AppChange(schedules=tuple(change for change in changes if change is not None))


def _set_resumed_at(before: ScheduleRecord, after: ScheduleRecord) -> ScheduleRecord:
    """The record with the time at which jobs that were held may run again."""
    released = before.keeps and not before.activity.admits and after.activity.admits
    return replace(after, resumed_at=after.updated_at) if released else after


def _next_generation(before: ScheduleRecord, now: datetime, *, keep: bool) -> ScheduleRecord:
    """The next generation; it can keep only what the schedule has."""
    kept = min(before.oldest_valid_generation, before.generation) if keep and before.keeps else None
    return replace(before, generation=before.generation + 1, updated_at=now, deleted_at=None, kept_from=kept)


def _make_change(
    action: Action, before: ScheduleRecord | None, after: ScheduleRecord, *, reason: str
) -> ScheduleChange:
    return ScheduleChange(action, before, after, reason, timers=_timers(after))


def _timers(after: ScheduleRecord) -> dict[str, datetime]:
    """When each time leaf fires first after the change; a leaf without a future tick has no timer."""
    if not after.listens:
        return {}
    trigger, since = after.definition.trigger, after.updated_at
    return {
        leaf_id(leaf): add_duration(since, leaf.duration) for leaf in leaves(trigger) if isinstance(leaf, SinceLastRun)
    } | {
        leaf: fires_at(time_leaf, due, after.definition.ref, created_at=after.created_at)
        for leaf, time_leaf in time_leaves(trigger).items()
        if (due := next_fire(time_leaf, since, created_at=after.created_at)) is not None
    }


def _check_programs(app: AppRecord, definition: Schedule) -> None:
    """Checks that its program and the awaited programs of its own app exist; other apps may be deployed later."""
    existing_program(app, definition.program)
    for deadline in definition.deadlines:
        if deadline.program is not None:
            existing_program(app, ProgramRef(app.ref.namespace, app.ref.app, deadline.program))
    for program in sorted(awaited_programs(definition.trigger)):
        if program.owner == app.ref:
            existing_program(app, program)
