"""Administration of apps, programs and schedules: what API, UI, CLI and deploy all call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from copy import copy
from dataclasses import replace
from datetime import datetime
from typing import Final

from streamsched.catalog import change, deployment
from streamsched.catalog.outbox_ack import wait_for_range
from streamsched.catalog.preview import app_revision
from streamsched.catalog.requested_change import ChangeServices, Decide, RequestedChange, Scope
from streamsched.domain.errors import NotFoundError
from streamsched.domain.json_value import member_path
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.app import AppDefinition
from streamsched.domain.schedules.arguments import check_properties
from streamsched.domain.schedules.pause import Pause
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.triggers.trigger import check_key_grains
from streamsched.ports.clock import Clock
from streamsched.ports.notifier import Notifier
from streamsched.store.catalog.catalog import CatalogStore
from streamsched.store.catalog.catalog_reader import CatalogReader
from streamsched.store.catalog.outbox import PostgresOutbox
from streamsched.store.catalog.records import AppChange, AppRecord

#: How long a change waits for a log that makes no progress, in seconds.
PATIENCE: Final = 15.0


def accept_all(schedule: Schedule, path: str) -> None:
    """Accepts every definition."""


class Catalog:
    """Makes changes, each of which can be planned (`RequestedChange.preview`) and applied (`RequestedChange.apply`).
    `reader` answers all questions.

    An applied change returns when the log has acknowledged it: every event emitted afterwards is judged by the new
    definition (promise G4). By then, waiting and ready jobs of older generations have ended as OBSOLETE.

    The errors named at a method are raised by both, what is wrong with a definition by itself by the method.
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
        check: Callable[[Schedule, str], None] = accept_all,
        largest_record: int | None = None,
    ) -> None:
        """`largest_record`: the log's record size limit in bytes; a larger definition is refused."""
        self._services = ChangeServices(
            store=store,
            reader=reader,
            acks=acks,
            notifier=notifier,
            clock=clock,
            patience=patience,
            largest_record=largest_record,
        )
        self._check = check
        self.reader = reader

    def with_caller(self, caller: str) -> Catalog:
        """This catalog with changes that name the caller where they concern other namespaces."""
        named = copy(self)
        named._services = replace(self._services, by=caller)
        return named

    def deploy(
        self,
        wanted: AppDefinition,
        update_schedules: bool = True,
        *,
        keep: bool | None = None,
        origin: str | None = None,
    ) -> RequestedChange:
        """Replaces the app's programs, and with `update_schedules` its schedules, by the wanted ones; creates namespace
        and app. Equal schedules keep their generation, accumulation and jobs. Changed ones keep what fits if `keep`
        says so; when that is None, those of `wanted.keeping` do, and those of which nothing changed that decides what
        counts. Schedules of removed programs are deleted; other schedules of the namespace lose the
        leaves that wait for them, or are deleted if none remain; those of other namespaces stay and say so. `origin` is
        stored as the file of the deployment. Idempotent.

        Raises:
            InvalidDefinitionError: a new or changed schedule can never tick, or is larger than a log record may be.
        """

        async def scope() -> Scope:
            await asyncio.to_thread(self._check_app, wanted)
            return Scope(None, [program.ref for program in wanted.programs], wanted.awaited_programs())

        return RequestedChange(
            self._services,
            wanted.ref,
            lambda app, now: deployment.deploy(app, wanted, update_schedules=update_schedules, keep=keep, now=now),
            scope,
            origin=origin,
            deploys=True,
        )

    def delete_program(self, ref: ProgramRef) -> RequestedChange:
        """Deletes the program and its schedules; other schedules change as in `deploy`. Running runs continue.

        Raises:
            NotFoundError: it does not exist.
        """

        async def scope() -> Scope:
            programs = await self.reader.programs(app=ref.owner)
            return Scope(None, [program.ref for program in programs if program.ref != ref])

        return RequestedChange(
            self._services, ref, lambda app, now: deployment.remove_program(app, ref, now=now), scope
        )

    def delete_app(self, ref: AppRef, *, reason: str = "") -> RequestedChange:
        """Deletes the app: its schedules and programs; other schedules change as in `deploy`. Waiting jobs end as
        OBSOLETE; active runs continue, and runs and history stay.

        Raises:
            NotFoundError: it has neither programs, schedules nor expectations.
        """
        return RequestedChange(
            self._services, ref, lambda app, now: deployment.remove_app(app, reason=reason, now=now), Scope(None)
        )

    def create(self, definition: Schedule, *, enabled: bool = False) -> RequestedChange:
        """Creates a schedule of a deployed app. Recreating a deleted one continues its generation numbers. It has no
        preview.

        Raises:
            ConflictError: it exists already.
            NotFoundError: its program does not exist.
            InvalidDefinitionError: it can never tick, or is larger than a log record may be.
        """
        self._check_schedule(definition)
        return self._of_schedule(
            definition.ref, lambda app, now: change.create(app, definition, enabled=enabled, now=now)
        )

    def update(self, definition: Schedule, *, keep: bool | None = None) -> RequestedChange:
        """Replaces the definition of a schedule, which stays enabled, paused or disabled. With `keep`, keeps the
        part of the accumulation that fits, and all waiting jobs; without it, drops both. None keeps when nothing
        changed that decides what counts: trigger, consumption, late policy and program. An equal definition changes
        nothing.

        Raises:
            NotFoundError: the schedule or its program does not exist.
            InvalidDefinitionError: it can never tick, or is larger than a log record may be.
        """
        self._check_schedule(definition)
        return self._of_schedule(definition.ref, lambda app, now: change.update(app, definition, keep=keep, now=now))

    def amend(self, ref: ScheduleRef, make: Callable[[Schedule], Schedule]) -> RequestedChange:
        """As `update` that keeps nothing. The definition is made from the current one while it is locked, so that of
        amendments at once none is lost. Raises what `make` raises, too.
        """

        def decide(app: AppRecord, now: datetime) -> AppChange:
            self._check_schedule(after := make(change.find_existing(app, ref).definition))
            return change.update(app, after, keep=False, now=now)

        return self._of_schedule(ref, decide)

    def enable(self, ref: ScheduleRef, *, reason: str = "") -> RequestedChange:
        """Enables a schedule. After a pause that kept, it continues with its accumulation and fires at once if that is
        complete; otherwise the first tick is the next one after now.

        Raises:
            NotFoundError: the schedule does not exist.
            ConflictError: it is enabled already.
        """
        return self._of_schedule(ref, lambda app, now: change.enable(app, ref, reason=reason, now=now))

    def disable(self, ref: ScheduleRef, *, reason: str = "", paused: bool = True) -> RequestedChange:
        """Disables a schedule: events no longer count, its accumulation is dropped and its waiting jobs end. Running
        runs continue. `paused`: one that is paused, too.

        Raises:
            NotFoundError: the schedule does not exist.
            ConflictError: it is disabled already; or paused.
        """
        return self._of_schedule(ref, lambda app, now: change.disable(app, ref, reason=reason, paused=paused, now=now))

    def pause(self, ref: ScheduleRef, pause: Pause, *, reason: str = "") -> RequestedChange:
        """Pauses a schedule, or replaces its current pause. Running runs continue.

        Raises:
            NotFoundError: the schedule does not exist.
            ConflictError: it already has an equal pause.
            InvalidError: the pause would already have ended.
        """
        return self._of_schedule(ref, lambda app, now: change.pause(app, ref, pause, reason=reason, now=now))

    def delete(self, ref: ScheduleRef, *, reason: str = "") -> RequestedChange:
        """Deletes the schedule. Running runs continue.

        Raises:
            NotFoundError: it does not exist.
        """
        return self._of_schedule(ref, lambda app, now: change.delete(app, ref, reason=reason, now=now))

    def enable_app(self, app: AppRef, *, reason: str = "") -> RequestedChange:
        """Enables every disabled or paused schedule of the app in one change.

        Raises:
            NotFoundError: no such app, or it has no schedules.
        """
        why = f"with its app: {reason}" if reason else "with its app"
        return self._of_schedules(app, lambda known, now: change.enable_all(known, reason=why, now=now))

    def enable_some(self, app: AppRef, schedules: Collection[ScheduleRef], *, reason: str = "") -> RequestedChange:
        """Enables those of these schedules of the app that are disabled or paused, in one change. One that does not
        exist any more is left out.
        """
        return RequestedChange(
            self._services,
            app,
            lambda known, now: change.enable_all(known, reason=reason, now=now),
            Scope(list(schedules)),
        )

    def pause_app(self, app: AppRef, pause: Pause, *, reason: str = "") -> RequestedChange:
        """Pauses every enabled schedule of the app in one change; the others do not change.

        Raises:
            NotFoundError: no such app, or it has no schedules.
            InvalidError: the pause would already have ended.
        """
        return self._of_schedules(app, lambda known, now: change.pause_all(known, pause, reason=reason, now=now))

    def disable_app(self, app: AppRef, *, reason: str = "") -> RequestedChange:
        """Disables every enabled or paused schedule of the app in one change. Raises as `enable_app`."""
        return self._of_schedules(app, lambda known, now: change.disable_all(known, reason=reason, now=now))

    async def count_pending(self, first: int, last: int, *, within: float) -> int:
        """How many outbox records with these ids the log has not acknowledged yet; waits up to `within` seconds for 0.

        Raises:
            UnavailableError: PostgreSQL is unreachable.
        """
        services = self._services
        return await wait_for_range(first, last, acks=services.acks, notifier=services.notifier, within=within)

    async def revision(self, ref: AppRef) -> str:
        """The revision of the app's programs and schedules.

        Raises:
            NotFoundError: it has neither programs, schedules nor expectations.
        """
        reader = self.reader
        programs, generations = await reader.programs(app=ref), await reader.generations(ref)
        revision = await asyncio.to_thread(app_revision, programs, generations, await reader.expectations(ref))
        if revision is None:
            raise NotFoundError("application", str(ref))
        return revision

    def _of_schedule(self, ref: ScheduleRef, decide: Decide) -> RequestedChange:
        return RequestedChange(self._services, ref, decide, Scope([ref]))

    def _of_schedules(self, app: AppRef, decide: Decide) -> RequestedChange:
        async def scope() -> Scope:
            refs = list(await self.reader.generations(app))
            if not refs:
                raise NotFoundError("application with schedules", str(app))
            return Scope(refs)

        return RequestedChange(self._services, app, decide, scope)

    def _check_schedule(self, definition: Schedule) -> None:
        """Raises:
        InvalidDefinitionError: a plug-in refuses it, it waits for keys that are never equal, or a property hides a
            column of its key.
        """
        check_key_grains(definition.trigger)
        check_properties(definition)
        self._check(definition, "$")

    def _check_app(self, wanted: AppDefinition) -> None:
        """Raises:
        InvalidDefinitionError: a plug-in refuses a schedule.
        """
        for schedule in wanted.schedules:
            self._check(schedule, member_path("$.schedules", schedule.ref.name))
