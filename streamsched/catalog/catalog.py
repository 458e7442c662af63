"""Administration of apps, programs and schedules: what API, UI, CLI and deploy all call."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime
from typing import Final

import structlog

from streamsched.catalog import change, deployment
from streamsched.catalog.outbox_ack import between_within, outstanding_within, wait_for_ack
from streamsched.catalog.planner import Planner, unchecked
from streamsched.catalog.preview import GuardedStore, Suspended, Suspension, check_plan, confirmed
from streamsched.domain.errors import NotFoundError
from streamsched.domain.history import HistoryEntry
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.revision import Expected
from streamsched.domain.schedules.app import AppDefinition
from streamsched.domain.schedules.pause import Pause
from streamsched.domain.schedules.schedule import Program, Schedule
from streamsched.ports.clock import Clock
from streamsched.ports.notifier import Notifier
from streamsched.store.catalog.catalog import CatalogStore
from streamsched.store.catalog.catalog_reader import CatalogReader
from streamsched.store.catalog.outbox import PostgresOutbox
from streamsched.store.catalog.records import AppChange, Applied, AppRecord, AppSummary, ScheduleStatus

log = structlog.get_logger()

#: How long a change waits for a log that makes no progress, in seconds.
PATIENCE: Final = 15.0
#: A change of more programs and schedules than this is logged in one line.
_MAX_LOGGED: Final = 100
Decide = Callable[[AppRecord, datetime], AppChange]


class Catalog:
    """Changes return when the log has acknowledged them: every event emitted afterwards is judged by the new definition
    (promise G4). By then, waiting and ready jobs of older generations have ended as OBSOLETE.

    With a `plan` (`Preview.token`), a change is applied only if it still equals the plan and loses nothing that the
    plan did not show.

    In addition to its own errors, every change may raise:
        PlanChangedError: the change or its losses differ from the plan; nothing changed.
        UnavailableError: PostgreSQL is unreachable and nothing changed; or the change is stored but the log has not
            acknowledged it yet (the message says which).
    """

    def __init__(
        self,
        *,
        store: CatalogStore,
        reader: CatalogReader,
        acks: PostgresOutbox,
        notifier: Notifier,
        clock: Clock,
        patience: float = PATIENCE,
        check: Callable[[Schedule, str], None] = unchecked,
        largest_record: int | None = None,
    ) -> None:
        """`largest_record`: the log's record size limit in bytes; a larger definition is refused. `reader` answers what
        this class has no method for."""
        self._store = store
        self.reader = reader
        self._acks = acks
        self._notifier = notifier
        self._clock = clock
        self._patience = patience
        self._by = ""
        self.planner = Planner(reader, clock, check=check, largest_record=largest_record)

    def expecting(self, expected: Expected | None) -> Catalog:
        """This catalog with changes that raise RevisionChangedError for a schedule or app of another revision."""
        guarded = copy(self)
        guarded._store = self._store if expected is None else GuardedStore(self._store, expected)
        return guarded

    def requested_by(self, caller: str) -> Catalog:
        """This catalog with changes that name the caller where they concern other namespaces."""
        named = copy(self)
        named._by = caller
        return named

    async def deploy(
        self,
        wanted: AppDefinition,
        update_schedules: bool = True,
        *,
        keep: bool | None = None,
        plan: str | None = None,
        origin: str | None = None,
        within: float | None = None,
    ) -> Applied:
        """Replaces the app's programs, and with `update_schedules` its schedules, by the wanted ones; creates namespace
        and app. Equal schedules keep their generation, accumulation and jobs. Changed ones keep what fits if `keep`
        says so; when that is None, those of `wanted.keeping` do, and those of which nothing changed that decides what
        counts. Schedules of removed programs are deleted; other schedules of the namespace lose the
        leaves that wait for them, or are deleted if none remain; those of other namespaces stay and say so. `origin` is
        stored as the file of the deployment. Idempotent. Returns what changed.

        Waits for the log like every change; with `within`, at most so many seconds, and then `Applied.pending` is the
        number of records that the log has not acknowledged yet.

        Raises:
            InvalidDefinitionError: a new or changed schedule can never tick, or is larger than a log record may be.
        """
        await asyncio.to_thread(self.planner.check_app, wanted)
        if plan is not None:
            confirmed(
                await self.planner.deploy(wanted, update_schedules, keep=keep), plan, f"application '{wanted.ref}'"
            )
        now = self._clock.now()

        def decide(app: AppRecord) -> AppChange:
            decided = deployment.deploy(app, wanted, update_schedules=update_schedules, keep=keep, now=now)
            check_plan(decided, plan, f"application '{wanted.ref}'")
            return self.planner.check_size(decided, app=wanted)

        kept, awaited = [program.ref for program in wanted.programs], wanted.awaited()
        applied = await self._store.change(
            wanted.ref, None, decide, now=now, programs=kept, awaited=awaited, origin=origin, by=self._by
        )
        if within is None:
            return await self._acknowledged(wanted.ref, applied)
        _log_change(wanted.ref, applied.change)
        ids, acks, notifier = applied.outbox, self._acks, self._notifier
        return replace(applied, pending=await outstanding_within(ids, acks=acks, notifier=notifier, within=within))

    async def pending(self, first: int, last: int, *, within: float) -> int:
        """How many outbox records with these ids the log has not acknowledged yet; waits up to `within` seconds for 0.

        Raises:
            UnavailableError: PostgreSQL is unreachable.
        """
        return await between_within(first, last, acks=self._acks, notifier=self._notifier, within=within)

    async def delete_program(self, ref: ProgramRef, *, plan: str | None = None) -> Applied:
        """Deletes the program and its schedules; other schedules change as in `deploy`. Running runs continue.

        Raises:
            NotFoundError: it does not exist.
        """
        if plan is not None:
            confirmed(await self.planner.delete_program(ref), plan, f"program '{ref}'")
        now = self._clock.now()
        remaining = await self.planner.other_programs(ref)

        def decide(app: AppRecord) -> AppChange:
            decided = deployment.remove_program(app, ref, now=now)
            check_plan(decided, plan, f"program '{ref}'")
            return decided

        applied = await self._store.change(ref.owner, None, decide, now=now, programs=remaining, by=self._by)
        return await self._acknowledged(ref.owner, applied)

    async def delete_app(self, ref: AppRef, *, reason: str = "", plan: str | None = None) -> Suspension:
        """Deletes the app: its schedules and programs; other schedules change as in `deploy`. Waiting jobs end as
        OBSOLETE; active runs continue, and runs and history stay.

        Raises:
            NotFoundError: it has neither programs, schedules nor expectations.
        """
        before = await self.planner.delete_app(ref)
        confirmed(before, plan, f"application '{ref}'")
        now = self._clock.now()

        def decide(app: AppRecord) -> AppChange:
            decided = deployment.remove_app(app, reason=reason, now=now)
            check_plan(decided, plan, f"application '{ref}'")
            return decided

        applied = await self._store.change(ref, None, decide, now=now, programs=(), by=self._by)
        return Suspension(await self._acknowledged(ref, applied), before)

    async def create(self, definition: Schedule, *, enabled: bool = False) -> ScheduleStatus:
        """Creates a schedule of a deployed app. Recreating a deleted one continues its generation numbers.

        Raises:
            ConflictError: it exists already.
            NotFoundError: its program does not exist.
            InvalidDefinitionError: it can never tick, or is larger than a log record may be.
        """
        ref = definition.ref
        self.planner.check(definition)
        await self._change(ref, lambda app, now: change.create(app, definition, enabled=enabled, now=now))
        return await self.reader.schedule(ref)

    async def update(
        self, definition: Schedule, *, keep: bool | None = None, plan: str | None = None
    ) -> ScheduleStatus:
        """Replaces the definition of a schedule, which stays enabled, paused or disabled. With `keep`, keeps the
        part of the accumulation that fits, and all waiting jobs; without it, drops both. None keeps when nothing
        changed that decides what counts: trigger, consumption, late policy and program. An equal definition changes
        nothing.

        Raises:
            NotFoundError: the schedule or its program does not exist.
            InvalidDefinitionError: it can never tick, or is larger than a log record may be.
        """
        self.planner.check(definition)
        if plan is not None:
            confirmed(await self.planner.update(definition, keep=keep), plan, f"schedule '{definition.ref}'")
        await self._change(
            definition.ref, lambda app, now: change.update(app, definition, keep=keep, now=now), plan=plan
        )
        return await self.reader.schedule(definition.ref)

    async def amend(self, ref: ScheduleRef, make: Callable[[Schedule], Schedule]) -> None:
        """As `update` that keeps nothing. The definition is made from the current one while it is locked, so that of
        amendments at once none is lost. Raises what `make` raises, too.
        """

        def decide(app: AppRecord, now: datetime) -> AppChange:
            self.planner.check(after := make(change.existing(app, ref).definition))
            return change.update(app, after, keep=False, now=now)

        await self._change(ref, decide)

    async def enable(self, ref: ScheduleRef, *, reason: str = "") -> ScheduleStatus:
        """Enables a schedule. After a pause that kept, it continues with its accumulation and fires at once if that is
        complete; otherwise the first tick is the next one after now.

        Raises:
            NotFoundError: the schedule does not exist.
            ConflictError: it is enabled already.
        """
        await self._change(ref, lambda app, now: change.enable(app, ref, reason=reason, now=now))
        return await self.reader.schedule(ref)

    async def disable(
        self, ref: ScheduleRef, *, reason: str = "", plan: str | None = None, paused: bool = True
    ) -> Suspended:
        """Disables a schedule: events no longer count, its accumulation is dropped and its waiting jobs end. Running
        runs continue. `paused`: one that is paused, too.

        Raises:
            NotFoundError: the schedule does not exist.
            ConflictError: it is disabled already; or paused.
        """
        return await self._suspend(
            ref, lambda app, now: change.disable(app, ref, reason=reason, paused=paused, now=now), plan=plan
        )

    async def pause(self, ref: ScheduleRef, pause: Pause, *, reason: str = "", plan: str | None = None) -> Suspended:
        """Pauses a schedule, or replaces its current pause. Running runs continue.

        Raises:
            NotFoundError: the schedule does not exist.
            ConflictError: it already has an equal pause.
            InvalidError: the pause would already have ended.
        """
        return await self._suspend(
            ref, lambda app, now: change.pause(app, ref, pause, reason=reason, now=now), plan=plan
        )

    async def enable_app(self, app: AppRef, *, reason: str = "") -> Applied:
        """Enables every disabled or paused schedule of the app in one change.

        Raises:
            NotFoundError: no such app, or it has no schedules.
        """
        return await self._change_app(app, lambda known, now: change.enable_all(known, reason=reason, now=now))

    async def pause_app(self, app: AppRef, pause: Pause, *, reason: str = "", plan: str | None = None) -> Suspension:
        """Pauses every enabled schedule of the app in one change; the others do not change.

        Raises:
            NotFoundError: no such app, or it has no schedules.
            InvalidError: the pause would already have ended.
        """
        return await self._suspend_app(
            app, lambda known, now: change.pause_all(known, pause, reason=reason, now=now), plan=plan
        )

    async def disable_app(self, app: AppRef, *, reason: str = "", plan: str | None = None) -> Suspension:
        """Disables every enabled or paused schedule of the app in one change. Raises as `enable_app`."""
        return await self._suspend_app(
            app, lambda known, now: change.disable_all(known, reason=reason, now=now), plan=plan
        )

    async def delete(self, ref: ScheduleRef, *, reason: str = "", plan: str | None = None) -> None:
        """Deletes the schedule. Running runs continue.

        Raises:
            NotFoundError: it does not exist.
        """
        if plan is not None:
            confirmed(await self.planner.delete(ref), plan, f"schedule '{ref}'")
        await self._change(ref, lambda app, now: change.delete(app, ref, reason=reason, now=now), plan=plan)

    async def get(self, ref: ScheduleRef) -> ScheduleStatus:
        """Raises NotFoundError."""
        return await self.reader.schedule(ref)

    async def some(self, refs: Collection[ScheduleRef]) -> Sequence[ScheduleStatus]:
        """Those of these schedules that exist, ordered by id."""
        return await self.reader.find_schedules(refs)

    async def history(self, ref: ScheduleRef, *, limit: int = 100) -> Sequence[HistoryEntry]:
        """The schedule's changes with their reasons, newest first; also of a deleted one, empty if it never existed."""
        return await self.reader.history("schedule", str(ref), limit=limit)

    async def list(
        self,
        *,
        namespace: str | None = None,
        app: AppRef | None = None,
        states: Collection[str] = (),
        after: str = "",
        limit: int | None = None,
    ) -> Sequence[ScheduleStatus]:
        """As `CatalogReader.schedules`."""
        return await self.reader.schedules(namespace=namespace, app=app, states=states, after=after, limit=limit)

    async def app(self, ref: AppRef) -> AppSummary:
        """Raises NotFoundError: it has neither programs, schedules nor expectations."""
        return await self.reader.app_summary(ref)

    async def apps(
        self, *, namespace: str | None = None, after: str = "", limit: int | None = None
    ) -> Sequence[AppSummary]:
        """Apps with programs or schedules, ordered by id; at most `limit` of those after the id `after`."""
        return await self.reader.apps(namespace=namespace, after=after, limit=limit)

    async def program(self, ref: ProgramRef) -> Program:
        """Raises NotFoundError."""
        return await self.reader.program(ref)

    async def programs(
        self, *, namespace: str | None = None, app: AppRef | None = None, after: str = "", limit: int | None = None
    ) -> Sequence[Program]:
        """Programs ordered by id; of every app by default; at most `limit` of those after the id `after`."""
        return await self.reader.programs(namespace=namespace, app=app, after=after, limit=limit)

    async def _suspend(self, ref: ScheduleRef, decide: Decide, *, plan: str | None) -> Suspended:
        before = await self.planner.of_schedule(ref, decide)
        confirmed(before, plan, f"schedule '{ref}'")
        applied = await self._change(ref, decide, plan=plan)
        return Suspended(await self.reader.schedule(ref), Suspension(applied, before))

    async def _suspend_app(self, app: AppRef, decide: Decide, *, plan: str | None) -> Suspension:
        before = await self.planner.of_app(app, decide)
        confirmed(before, plan, f"application '{app}'")
        return Suspension(await self._change_app(app, decide, plan=plan), before)

    async def _change(self, ref: ScheduleRef, decide: Decide, *, plan: str | None = None) -> Applied:
        return await self._apply(ref.owner, [ref], decide, plan, f"schedule '{ref}'")

    async def _change_app(self, app: AppRef, decide: Decide, *, plan: str | None = None) -> Applied:
        refs = [status.record.definition.ref for status in await self.reader.schedules(app=app)]
        if not refs:
            raise NotFoundError("application with schedules", str(app))
        return await self._apply(app, refs, decide, plan, f"application '{app}'")

    async def _apply(
        self, app: AppRef, refs: Sequence[ScheduleRef], decide: Decide, plan: str | None, what: str
    ) -> Applied:
        now = self._clock.now()

        def decide_checked(record: AppRecord) -> AppChange:
            change = decide(record, now)
            check_plan(change, plan, what)
            return self.planner.check_size(change)

        return await self._acknowledged(app, await self._store.change(app, refs, decide_checked, now=now))

    async def _acknowledged(self, app: AppRef, applied: Applied) -> Applied:
        _log_change(app, applied.change)
        await wait_for_ack(applied.outbox, acks=self._acks, notifier=self._notifier, patience=self._patience)
        if applied.outbox:
            ended = len(applied.ended_jobs)
            log.debug("change.acknowledged", app=str(app), records=len(applied.outbox), jobs_ended=ended)
        return applied


def _log_change(app: AppRef, change: AppChange) -> None:
    """Logs a line for each program and schedule; for a large change one line with counts."""
    if len(change.programs) + len(change.schedules) > _MAX_LOGGED:
        counts = Counter(f"schedules_{each.action}" for each in change.schedules)
        counts.update(f"programs_{each.action}" for each in change.programs)
        log.info("app.changed", app=str(app), **counts)
        return
    for program in change.programs:
        log.info(f"program.{program.action}", program=str(program.program.ref))
    for schedule in change.schedules:
        after = schedule.after
        detail = {"generation": after.generation, "enabled": after.enabled, "keeps": schedule.keeps}
        log.info(f"schedule.{schedule.action}", schedule=str(after.definition.ref), **detail)
