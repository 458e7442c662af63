"""What a deployment of an app changes: the difference between the stored and the wanted app. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from streamsched.catalog.change import counts_alike, create_schedule, delete_schedule, existing_program, update_schedule
from streamsched.domain.errors import NotFoundError
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.schedules.app import AppDefinition
from streamsched.domain.schedules.schedule import ScheduleRecord
from streamsched.domain.triggers.removal import awaited_programs, remove_programs
from streamsched.domain.triggers.run_joins import ProgramChains, RunJoin, run_join
from streamsched.domain.triggers.trigger import Trigger, run_of
from streamsched.store.catalog.records import (
    Action,
    AppChange,
    AppRecord,
    BrokenJoin,
    ExpectationChange,
    ForeignWait,
    ProgramChange,
    ProgramLink,
    RecipientsChange,
    ScheduleChange,
)


def deploy(
    app: AppRecord, wanted: AppDefinition, *, update_schedules: bool, keep: bool | None = None, now: datetime
) -> AppChange:
    """Programs become exactly the wanted ones, and so do schedules with `update_schedules`: an equal schedule keeps its
    generation, accumulation and jobs; a different one gets a new generation and stays enabled, paused or disabled; an
    unwanted one is deleted; a new one is enabled if `wanted.enabled` names it. Without `update_schedules`, schedules do
    not change. In both cases the schedules of a removed program are deleted, and a trigger of any app of the namespace
    that waits for such a program loses those leaves, or its schedule is deleted if none remain. Those of other
    namespaces stay as they are. Idempotent.

    Expectations and recipients become exactly the wanted ones; an equal expectation goes on as it is.

    Without `wanted.prunes` nothing is removed or deleted.

    An `&` of programs is stored as a join per run of their nearest common ancestor, if there is one
    (`domain.triggers.run_joins`).

    `keep` says for all changed schedules whether they keep; with None those of `wanted.keeping` do, and those that
    count alike in both versions.

    Raises:
        InvalidDefinitionError: a time leaf of a new or changed schedule can never tick.
    """
    removed = app.programs.keys() - {program.ref for program in wanted.programs} if wanted.prunes else frozenset()
    joins = _run_joins(app, wanted) if update_schedules else {}
    wanted = _join_runs(wanted, joins)
    changes = [
        *_schedules(app, wanted, removed, update_schedules=update_schedules, keep=keep, now=now),
        *_losing_awaited(app.listeners, removed, now=now),
    ]
    return AppChange(
        programs=tuple(_programs(app, wanted)),
        schedules=tuple(sorted(changes, key=lambda change: change.after.definition.ref)),
        foreign_waits=_foreign_waits(app, removed),
        expectations=tuple(_expectations(app, wanted)),
        recipients=_recipients(app, wanted),
        joins={ref: joins[ref].text for each in changes if (ref := each.after.definition.ref) in joins},
        broken_joins=_broken_joins(app, changes),
    )


def remove_program(app: AppRecord, ref: ProgramRef, *, now: datetime) -> AppChange:
    """Deletes the program and its schedules; triggers of any app of the namespace that wait for it lose those leaves,
    or are deleted. Those of other namespaces stay as they are.

    Raises:
        NotFoundError: no such program.
    """
    program = existing_program(app, ref)
    changes = [
        *_delete_starters(app, {ref}, now=now),
        *_losing_awaited({**app.schedules, **app.listeners}, {ref}, now=now),
    ]
    return AppChange(
        programs=(ProgramChange(Action.DELETED, program, ""),),
        schedules=tuple(sorted(changes, key=lambda change: change.after.definition.ref)),
        foreign_waits=_foreign_waits(app, {ref}),
        broken_joins=_broken_joins(app, changes),
    )


def remove_app(app: AppRecord, *, reason: str = "", now: datetime) -> AppChange:
    """Deletes the app's schedules and programs; triggers of other apps of the namespace that wait for them lose those
    leaves, or are deleted. Those of other namespaces stay as they are.

    Raises:
        NotFoundError: the app has neither programs, schedules nor expectations.
    """
    existing = [record for record in app.schedules.values() if record.exists]
    if not existing and not app.programs and not app.watched:
        raise NotFoundError("application", str(app.ref))
    because = f"its app was deleted: {reason}" if reason else "its app was deleted"
    changes = [delete_schedule(record, reason=because, now=now) for record in existing]
    changes += _losing_awaited(app.listeners, app.programs.keys(), now=now)
    return AppChange(
        programs=tuple(ProgramChange(Action.DELETED, app.programs[ref], because) for ref in sorted(app.programs)),
        schedules=tuple(sorted(changes, key=lambda change: change.after.definition.ref)),
        foreign_waits=_foreign_waits(app, app.programs.keys()),
        expectations=tuple(ExpectationChange(each, None) for _, each in sorted(app.watched.expectations.items())),
        recipients=RecipientsChange(app.watched.recipients, ()) if app.watched.recipients else None,
        broken_joins=_broken_joins(app, changes),
    )


def _programs(app: AppRecord, wanted: AppDefinition) -> Iterator[ProgramChange]:
    for program in wanted.programs:
        known = app.programs.get(program.ref)
        if known is None:
            yield ProgramChange(Action.CREATED, program, "")
        elif known != program:
            yield ProgramChange(Action.UPDATED, program, "", known)
    kept = {program.ref for program in wanted.programs}
    for ref, program in sorted(app.programs.items()) if wanted.prunes else ():
        if ref not in kept:
            yield ProgramChange(Action.DELETED, program, "not in the deployed app")


def _expectations(app: AppRecord, wanted: AppDefinition) -> Iterator[ExpectationChange]:
    known, listed = app.watched.expectations, {each.ref: each for each in wanted.expectations}
    for ref, each in listed.items():
        if known.get(ref) != each or ref in app.watched.stopped:
            yield ExpectationChange(known.get(ref), each)
    for ref, each in sorted(known.items()) if wanted.prunes else ():
        if ref not in listed:
            yield ExpectationChange(each, None)


def _recipients(app: AppRecord, wanted: AppDefinition) -> RecipientsChange | None:
    before, after = app.watched.recipients, wanted.on_failure
    if not wanted.prunes:
        after = (*before, *(each for each in after if each not in before))
    return None if before == after else RecipientsChange(before, after)


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
    yield from _delete_starters(replace(app, schedules=others), removed, now=now)
    remaining = {ref: record for ref, record in others.items() if record.definition.program not in removed}
    if update_schedules and wanted.prunes:
        for record in remaining.values():
            yield delete_schedule(record, reason="not in the deployed app", now=now)
    else:
        yield from _losing_awaited(remaining, removed, now=now)
    for ref, definition in definitions.items():
        record = app.schedules.get(ref)
        if record is None or not record.exists:
            enabled = ref.name in wanted.enabled
            yield create_schedule(
                record, definition, enabled=enabled, reason="deployed", now=now, forgotten=app.forgotten
            )
        elif record.definition != definition:
            by_default = ref.name in wanted.keeping or counts_alike(record.definition, definition)
            keeps = by_default if keep is None else keep
            yield update_schedule(record, definition, keep=keeps, reason="deployed", now=now)


def _delete_starters(app: AppRecord, removed: Collection[ProgramRef], *, now: datetime) -> Iterator[ScheduleChange]:
    """Deletes the schedules that start removed programs."""
    for record in app.schedules.values():
        if record.exists and record.definition.program in removed:
            yield delete_schedule(record, reason=f"its program {record.definition.program} was removed", now=now)


def _foreign_waits(app: AppRecord, removed: Collection[ProgramRef]) -> tuple[ForeignWait, ...]:
    return tuple(sorted(each for each in app.foreign_waits if each.program in removed))


def _losing_awaited(
    schedules: Mapping[ScheduleRef, ScheduleRecord], removed: Collection[ProgramRef], *, now: datetime
) -> Iterator[ScheduleChange]:
    """Removes leaves that wait for removed programs from the triggers of schedules that start another program. The
    change keeps, because the schedule's owner did not ask for it.
    """
    for record in schedules.values():
        definition = record.definition
        if not record.exists or definition.program in removed:
            continue
        names = ", ".join(str(ref) for ref in sorted(awaited_programs(definition.trigger) & set(removed)))
        if not names:
            continue
        left = remove_programs(definition.trigger, removed)
        if left is None:
            yield delete_schedule(record, reason=f"it waits for {names}, which was removed", now=now)
        else:
            reason = f"it waits no more for {names}, which was removed"
            yield update_schedule(record, replace(definition, trigger=left), keep=True, reason=reason, now=now)


def _run_joins(app: AppRecord, wanted: AppDefinition) -> Mapping[ScheduleRef, RunJoin]:
    """How the wanted schedules join ends of programs, by the schedules of the namespace as they are to be."""
    if all(len(awaited_programs(each.trigger)) < 2 for each in wanted.schedules):
        return {}
    links = {} if wanted.prunes else _links(app)
    links |= {each.schedule: each for each in app.links}
    links |= {each.ref: ProgramLink(each.ref, each.program, each.trigger) for each in wanted.schedules}
    chains = _chains(links.values())
    found = ((each.ref, run_join(each.trigger, chains, app.ref.namespace)) for each in wanted.schedules)
    return {ref: join for ref, join in found if join is not None}


def _join_runs(wanted: AppDefinition, joins: Mapping[ScheduleRef, RunJoin]) -> AppDefinition:
    if not joins:
        return wanted
    schedules = (
        replace(each, trigger=joins[each.ref].trigger) if each.ref in joins else each for each in wanted.schedules
    )
    return replace(wanted, schedules=tuple(schedules))


def _broken_joins(app: AppRecord, changes: Sequence[ScheduleChange]) -> tuple[BrokenJoin, ...]:
    """Joins per run of an ancestor that leads to one of their programs no more, and those of changed schedules to which
    it does not lead. What programs of other namespaces descend from is not known, so those below them are not in it.
    """
    before = {each.schedule: each for each in app.links} | _links(app)
    changed = {each.after.definition.ref: each.after for each in changes}
    after = {ref: link for ref, link in before.items() if ref not in changed} | {
        ref: ProgramLink(ref, record.definition.program, record.definition.trigger)
        for ref, record in changed.items()
        if record.exists
    }
    joins = {ref: ancestor for ref, link in after.items() if (ancestor := run_of(link.trigger)) is not None}
    if not joins or not changed:
        return ()
    now, former = _chains(after.values()), _chains(before.values())
    if not now.known:
        return ()
    foreign = sum(now.bit(program) for program in now.known if program.namespace != app.ref.namespace)
    return tuple(
        BrokenJoin(ref, ancestor, program)
        for ref, ancestor in sorted(joins.items())
        for program in sorted(awaited_programs(after[ref].trigger) - {ancestor})
        if not now.programs_above(program) & (now.bit(ancestor) | foreign)
        and (ref in changed or former.programs_above(program) & former.bit(ancestor))
    )


def _links(app: AppRecord) -> dict[ScheduleRef, ProgramLink]:
    """The stored schedules that this decision may change."""
    records = {ref: each for ref, each in {**app.schedules, **app.listeners}.items() if each.exists}
    return {ref: ProgramLink(ref, each.definition.program, each.definition.trigger) for ref, each in records.items()}


def _chains(links: Iterable[ProgramLink]) -> ProgramChains:
    started: defaultdict[ProgramRef, list[Trigger]] = defaultdict(list)
    for each in links:
        started[each.program].append(each.trigger)
    return ProgramChains(started)
