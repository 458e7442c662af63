"""Administration of apps, programs and schedules: what API, UI, CLI and deploy all call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import structlog

from streamsched.catalog import change, deployment
from streamsched.catalog.receipt import acknowledged
from streamsched.domain.app import AppDefinition
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedule import Program, Schedule
from streamsched.ports.bell import Bell
from streamsched.ports.catalog import AppChange, Applied, AppRecord, CatalogReader, CatalogStore, ScheduleStatus
from streamsched.ports.clock import Clock
from streamsched.ports.outbox import Receipts

log = structlog.get_logger()

#: How long a change waits for the log, in seconds.
PATIENCE = 15.0


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
    ) -> None:
        self._store = store
        self._reader = reader
        self._receipts = receipts
        self._bell = bell
        self._clock = clock
        self._patience = patience

    async def deploy(self, wanted: AppDefinition, update_schedules: bool = True) -> Applied:
        """Makes the app's programs, and with `update_schedules` its schedules, what is wanted; creates namespace and
        app. Equal schedules keep their generation, accumulation and jobs; schedules of removed programs always go.
        Idempotent. Returns what changed.

        Raises:
            InvalidDefinitionError: a new or changed schedule can never tick.
        """
        now = self._clock.now()

        def decide(app: AppRecord) -> AppChange:
            return deployment.deploy(app, wanted, update_schedules=update_schedules, now=now)

        return await self._acknowledged(wanted.ref, await self._store.change(wanted.ref, None, decide, now=now))

    async def create(self, definition: Schedule, *, enabled: bool = False) -> ScheduleStatus:
        """A new schedule of an app that is deployed; after a deletion its generation goes on.

        Raises:
            ConflictError: it exists already.
            NotFoundError: its program does not.
            InvalidDefinitionError: it can never tick.
        """
        ref = definition.ref
        await self._change(ref, lambda app, now: change.create(app, definition, enabled=enabled, now=now))
        return await self._reader.schedule(ref)

    async def update(self, definition: Schedule) -> ScheduleStatus:
        """Another definition for an existing schedule, which stays enabled or disabled. Its accumulation starts anew;
        an equal definition changes nothing and loses nothing.

        Raises:
            NotFoundError: the schedule or its program does not exist.
            InvalidDefinitionError: it can never tick.
        """
        await self._change(definition.ref, lambda app, now: change.update(app, definition, now=now))
        return await self._reader.schedule(definition.ref)

    async def enable(self, ref: ScheduleRef) -> ScheduleStatus:
        """From here on events count; ticks start with the first one after now.

        Raises:
            NotFoundError: the schedule does not exist.
            ConflictError: it is enabled already.
        """
        await self._change(ref, lambda app, now: change.enable(app, ref, now=now))
        return await self._reader.schedule(ref)

    async def disable(self, ref: ScheduleRef) -> ScheduleStatus:
        """From here on nothing counts, and what was accumulated is gone. Running runs go on.

        Raises:
            NotFoundError: the schedule does not exist.
            ConflictError: it is disabled already.
        """
        await self._change(ref, lambda app, now: change.disable(app, ref, now=now))
        return await self._reader.schedule(ref)

    async def delete(self, ref: ScheduleRef) -> None:
        """The schedule is gone. Running runs go on.

        Raises:
            NotFoundError: it does not exist.
        """
        await self._change(ref, lambda app, now: change.delete(app, ref, now=now))

    async def get(self, ref: ScheduleRef) -> ScheduleStatus:
        """Raises:
        NotFoundError: no such schedule.
        """
        return await self._reader.schedule(ref)

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
        applied = await self._store.change(ref.owner, [ref], lambda app: decide(app, now), now=now)
        await self._acknowledged(ref.owner, applied)

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
            )
        await acknowledged(applied.outbox, receipts=self._receipts, bell=self._bell, patience=self._patience)
        if applied.outbox:
            log.debug(
                "change.acknowledged", app=str(app), records=len(applied.outbox), jobs_ended=len(applied.ended_jobs)
            )
        return applied
