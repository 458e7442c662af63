"""Administration of apps, programs and schedules: what API, UI, CLI and deploy all call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import structlog

from streamsched.catalog import change, deployment
from streamsched.catalog.preview import Preview, foreseen
from streamsched.catalog.receipt import acknowledged
from streamsched.codec.reading import below
from streamsched.domain.app import AppDefinition
from streamsched.domain.errors import InvalidDefinitionError, NotFoundError
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.pause import DISABLED, Pause
from streamsched.domain.schedule import Program, Schedule
from streamsched.ports.bell import Bell
from streamsched.ports.catalog import (
    AppChange,
    Applied,
    AppRecord,
    CatalogReader,
    CatalogStore,
    Decision,
    ScheduleStatus,
)
from streamsched.ports.clock import Clock
from streamsched.ports.outbox import Receipts

log = structlog.get_logger()

#: How long a change waits for the log, in seconds.
PATIENCE = 15.0


def _unchecked(schedule: Schedule, path: str) -> None: ...


class Catalog:
    """Changes return when the log has acknowledged them: every event emitted afterwards is judged by the new definition
    (promise G4). Waiting and ready jobs of older generations have ended as OBSOLETE by then.

    Every change may raise, besides what it names:
        UnavailableError: PostgreSQL is away and nothing changed; or the change stands but the log has not
            acknowledged it yet (the message says which).
    """

    def __init__(
        self,
        *,
        store: CatalogStore,
        reader: CatalogReader,
        receipts: Receipts,
        bell: Bell,
        clock: Clock,
        patience: float = PATIENCE,
        check: Callable[[Schedule, str], None] = _unchecked,
        largest_record: int | None = None,
    ) -> None:
        """`largest_record` is what the log takes: a definition that is larger than that is refused."""
        self._store = store
        self._reader = reader
        self._receipts = receipts
        self._bell = bell
        self._clock = clock
        self._patience = patience
        self._check = check
        self._largest = largest_record

    async def deploy(
        self, wanted: AppDefinition, update_schedules: bool = True, *, keep: bool | None = None
    ) -> Applied:
        """Makes the app's programs, and with `update_schedules` its schedules, what is wanted; creates namespace and
        app. Equal schedules keep their generation, accumulation and jobs; changed ones keep what fits as `keep` or,
        when it is None, `wanted.keeping` says; schedules of removed programs always go, and those of any app that wait
        for one go on without it, or go. Idempotent. Returns what changed.

        Raises:
            InvalidDefinitionError: a new or changed schedule can never tick, or is larger than the log takes.
        """
        self._check_app(wanted)
        now = self._clock.now()

        def decide(app: AppRecord) -> AppChange:
            decided = deployment.deploy(app, wanted, update_schedules=update_schedules, keep=keep, now=now)
            return self._fitting(decided, app=wanted)

        staying = [program.ref for program in wanted.programs]
        applied = await self._store.change(wanted.ref, None, decide, now=now, programs=staying)
        return await self._acknowledged(wanted.ref, applied)

    async def preview(
        self, wanted: AppDefinition, update_schedules: bool = True, *, keep: bool | None = None
    ) -> Preview:
        """What `deploy` would do now, and what would be lost by it. Changes nothing.

        Raises:
            InvalidDefinitionError: a new or changed schedule can never tick, or is larger than the log takes.
        """
        self._check_app(wanted)
        app = await self._reader.app(wanted.ref, programs=[program.ref for program in wanted.programs])
        now = self._clock.now()
        decided = deployment.deploy(app, wanted, update_schedules=update_schedules, keep=keep, now=now)
        return await self._foreseen(self._fitting(decided, app=wanted))

    async def preview_update(self, definition: Schedule, *, keep: bool = False) -> Preview:
        """What `update` would do now, and what would be lost by it. Changes nothing.

        Raises:
            NotFoundError: the schedule or its program does not exist.
            InvalidDefinitionError: it can never tick, or is larger than the log takes.
        """
        self._check(definition, "$")
        app = await self._reader.app(definition.ref.owner)
        decided = change.update(app, definition, keep=keep, now=self._clock.now())
        return await self._foreseen(self._fitting(decided))

    async def delete_program(self, ref: ProgramRef) -> Applied:
        """The program is gone, with its schedules; schedules of any app that wait for it go on without that, or go.
        Running runs go on. Returns what changed.

        Raises:
            NotFoundError: it does not exist.
        """
        now = self._clock.now()
        staying = [program.ref for program in await self._reader.programs(app=ref.owner) if program.ref != ref]

        def decide(app: AppRecord) -> AppChange:
            return deployment.remove_program(app, ref, now=now)

        applied = await self._store.change(ref.owner, None, decide, now=now, programs=staying)
        return await self._acknowledged(ref.owner, applied)

    async def create(self, definition: Schedule, *, enabled: bool = False) -> ScheduleStatus:
        """A new schedule of an app that is deployed; after a deletion its generation goes on.

        Raises:
            ConflictError: it exists already.
            NotFoundError: its program does not.
            InvalidDefinitionError: it can never tick, or is larger than the log takes.
        """
        ref = definition.ref
        self._check(definition, "$")
        await self._change(ref, lambda app, now: change.create(app, definition, enabled=enabled, now=now))
        return await self._reader.schedule(ref)

    async def update(self, definition: Schedule, *, keep: bool = False) -> ScheduleStatus:
        """Another definition for an existing schedule, which stays enabled, paused or disabled. Its accumulation starts
        anew and its waiting jobs end; with `keep`, what fits of the one and all of the others go on. An equal
        definition changes nothing and loses nothing.

        Raises:
            NotFoundError: the schedule or its program does not exist.
            InvalidDefinitionError: it can never tick, or is larger than the log takes.
        """
        self._check(definition, "$")
        await self._change(definition.ref, lambda app, now: change.update(app, definition, keep=keep, now=now))
        return await self._reader.schedule(definition.ref)

    async def enable(self, ref: ScheduleRef, *, reason: str = "") -> ScheduleStatus:
        """From here on events start jobs. One whose pause kept goes on with what it has, and fires at once if that is
        enough; ticks of any other start with the first one after now.

        Raises:
            NotFoundError: the schedule does not exist.
            ConflictError: it is enabled already.
        """
        await self._change(ref, lambda app, now: change.enable(app, ref, reason=reason, now=now))
        return await self._reader.schedule(ref)

    async def disable(self, ref: ScheduleRef, *, reason: str = "") -> ScheduleStatus:
        """From here on nothing counts, and what was accumulated is gone. Running runs go on.

        Raises:
            NotFoundError: the schedule does not exist.
            ConflictError: it is disabled already.
        """
        return await self.pause(ref, DISABLED, reason=reason)

    async def pause(self, ref: ScheduleRef, pause: Pause, *, reason: str = "") -> ScheduleStatus:
        """From here on nothing starts, as `pause` says; one that is paused already is paused in this way from here on.
        Running runs go on.

        Raises:
            NotFoundError: the schedule does not exist.
            ConflictError: it is paused in just this way already.
            InvalidError: the pause would be over already.
        """
        await self._change(ref, lambda app, now: change.pause(app, ref, pause, reason=reason, now=now))
        return await self._reader.schedule(ref)

    async def enable_app(self, app: AppRef, *, reason: str = "") -> Applied:
        """Every schedule of the app that is disabled or paused is enabled, all in one change.

        Raises:
            NotFoundError: no such app, or it has no schedules.
        """
        return await self._change_app(app, lambda known, now: change.enable_all(known, reason=reason, now=now))

    async def pause_app(self, app: AppRef, pause: Pause, *, reason: str = "") -> Applied:
        """Every schedule of the app that is enabled is paused, all in one change; one that is disabled or paused
        already stays as it is.

        Raises:
            NotFoundError: no such app, or it has no schedules.
            InvalidError: the pause would be over already.
        """
        return await self._change_app(app, lambda known, now: change.pause_all(known, pause, reason=reason, now=now))

    async def delete(self, ref: ScheduleRef, *, reason: str = "") -> None:
        """The schedule is gone. Running runs go on.

        Raises:
            NotFoundError: it does not exist.
        """
        await self._change(ref, lambda app, now: change.delete(app, ref, reason=reason, now=now))

    async def get(self, ref: ScheduleRef) -> ScheduleStatus:
        """Raises:
        NotFoundError: no such schedule.
        """
        return await self._reader.schedule(ref)

    async def history(self, ref: ScheduleRef, *, limit: int = 100) -> Sequence[Decision]:
        """What was done to the schedule, newest first, and why, as far as it was said; to one that was deleted too,
        and none to one that never was.
        """
        return await self._reader.history("schedule", str(ref), limit=limit)

    async def list(self, *, namespace: str | None = None, app: AppRef | None = None) -> Sequence[ScheduleStatus]:
        """Schedules ordered by id; of every app when none is named."""
        return await self._reader.schedules(namespace=namespace, app=app)

    async def program(self, ref: ProgramRef) -> Program:
        """Raises:
        NotFoundError: no such program.
        """
        return await self._reader.program(ref)

    async def programs(self, *, namespace: str | None = None, app: AppRef | None = None) -> Sequence[Program]:
        """Programs ordered by id; of every app when none is named."""
        return await self._reader.programs(namespace=namespace, app=app)

    async def _change(self, ref: ScheduleRef, decide: Callable[[AppRecord, datetime], AppChange]) -> None:
        now = self._clock.now()
        applied = await self._store.change(ref.owner, [ref], lambda app: self._fitting(decide(app, now)), now=now)
        await self._acknowledged(ref.owner, applied)

    async def _change_app(self, app: AppRef, decide: Callable[[AppRecord, datetime], AppChange]) -> Applied:
        now = self._clock.now()
        refs = [status.record.definition.ref for status in await self._reader.schedules(app=app)]
        if not refs:
            raise NotFoundError("application with schedules", str(app))
        applied = await self._store.change(app, refs, lambda known: self._fitting(decide(known, now)), now=now)
        return await self._acknowledged(app, applied)

    def _check_app(self, wanted: AppDefinition) -> None:
        for schedule in wanted.schedules:
            self._check(schedule, below("$.schedules", schedule.ref.name))

    def _fitting(self, decided: AppChange, *, app: AppDefinition | None = None) -> AppChange:
        """What was decided, each record of which the log takes."""
        for schedule in decided.schedules:
            size = max((len(record.key.encode()) + len(record.value) for record in schedule.records), default=0)
            if self._largest is not None and size > self._largest:
                path = "$" if app is None else below("$.schedules", schedule.after.definition.ref.name)
                raise InvalidDefinitionError(
                    path, f"needs {size} bytes in the log, which takes {self._largest} at most"
                )
        return decided

    async def _foreseen(self, decided: AppChange) -> Preview:
        known = [
            await self._reader.schedule(each.after.definition.ref)
            for each in decided.schedules
            if each.before is not None and each.before.exists
        ]
        return foreseen(decided, {status.record.definition.ref: status for status in known})

    async def _acknowledged(self, app: AppRef, applied: Applied) -> Applied:
        for program in applied.change.programs:
            log.info(f"program.{program.action}", program=str(program.program.ref))
        for schedule in applied.change.schedules:
            after = schedule.after
            log.info(
                f"schedule.{schedule.action}",
                schedule=str(after.definition.ref),
                generation=after.generation,
                enabled=after.enabled,
                keeps=schedule.keeps,
            )
        await acknowledged(applied.outbox, receipts=self._receipts, bell=self._bell, patience=self._patience)
        if applied.outbox:
            log.debug(
                "change.acknowledged", app=str(app), records=len(applied.outbox), jobs_ended=len(applied.ended_jobs)
            )
        return applied
