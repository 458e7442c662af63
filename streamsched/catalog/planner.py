"""Plans of changes: what each would do now, and what it would lose. Read-only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from streamsched.catalog import change, deployment
from streamsched.catalog.preview import Preview, app_revision, foreseen
from streamsched.codec.json.reading import below
from streamsched.codec.schedules.schedule import schedule_to_json
from streamsched.domain.errors import InvalidDefinitionError, NotFoundError
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.revision import Expected
from streamsched.domain.schedules.app import AppDefinition
from streamsched.domain.schedules.arguments import check_properties
from streamsched.domain.schedules.pause import Pause
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.triggers.trigger import check_key_grains
from streamsched.ports.clock import Clock
from streamsched.store.catalog.catalog_reader import CatalogReader
from streamsched.store.catalog.records import AppChange, AppRecord, ScheduleStatus
from streamsched.store.catalog.versions import ScheduleVersion

#: For more schedules than this, all schedules of the app are read at once instead of one by one.
_MAX_SINGLE_READS: Final = 20


def unchecked(schedule: Schedule, path: str) -> None:
    """Accepts every definition."""


class Planner:
    """Makes the same decisions as `Catalog`, on the current records, without locks."""

    def __init__(
        self,
        reader: CatalogReader,
        clock: Clock,
        *,
        check: Callable[[Schedule, str], None] = unchecked,
        largest_record: int | None = None,
    ) -> None:
        """`largest_record`: the log's record size limit in bytes; a larger definition is refused."""
        self._reader = reader
        self._clock = clock
        self._check = check
        self._largest = largest_record

    async def deploy(
        self, wanted: AppDefinition, update_schedules: bool = True, *, keep: bool | None = None
    ) -> Preview:
        """The plan of `Catalog.deploy`.

        Raises:
            InvalidDefinitionError: a new or changed schedule can never tick, or is larger than a log record may be.
        """
        await asyncio.to_thread(self.check_app, wanted)
        kept = [program.ref for program in wanted.programs]
        app = await self._reader.app(wanted.ref, programs=kept, awaited=wanted.awaited())
        now = self._clock.now()

        def decide() -> AppChange:
            decided = deployment.deploy(app, wanted, update_schedules=update_schedules, keep=keep, now=now)
            return self.check_size(decided, app=wanted)

        return replace(await self._foreseen(wanted.ref, await asyncio.to_thread(decide)), origin=app.origin)

    async def update(self, definition: Schedule, *, keep: bool | None = None) -> Preview:
        """The plan of `Catalog.update`.

        Raises:
            NotFoundError: the schedule or its program does not exist.
            InvalidDefinitionError: it can never tick, or is larger than a log record may be.
        """
        self.check(definition)
        app = await self._reader.app(definition.ref.owner)
        decided = change.update(app, definition, keep=keep, now=self._clock.now())
        return await self._foreseen(definition.ref.owner, self.check_size(decided))

    async def pause(self, ref: ScheduleRef, pause: Pause) -> Preview:
        """The plan of `Catalog.pause`; raises the same."""
        return await self.of_schedule(ref, lambda app, now: change.pause(app, ref, pause, now=now))

    async def disable(self, ref: ScheduleRef) -> Preview:
        """The plan of `Catalog.disable`; raises the same."""
        return await self.of_schedule(ref, lambda app, now: change.disable(app, ref, now=now))

    async def delete(self, ref: ScheduleRef) -> Preview:
        """The plan of `Catalog.delete`; raises the same."""
        return await self.of_schedule(ref, lambda app, now: change.delete(app, ref, now=now))

    async def pause_app(self, app: AppRef, pause: Pause) -> Preview:
        """The plan of `Catalog.pause_app`; raises the same."""
        return await self.of_app(app, lambda known, now: change.pause_all(known, pause, now=now))

    async def disable_app(self, app: AppRef) -> Preview:
        """The plan of `Catalog.disable_app`; raises the same."""
        return await self.of_app(app, lambda known, now: change.disable_all(known, now=now))

    async def delete_program(self, ref: ProgramRef) -> Preview:
        """The plan of `Catalog.delete_program`; raises the same."""
        app = await self._reader.app(ref.owner, programs=await self.other_programs(ref))
        return await self._foreseen(ref.owner, deployment.remove_program(app, ref, now=self._clock.now()))

    async def delete_app(self, ref: AppRef) -> Preview:
        """The plan of `Catalog.delete_app`; raises the same."""
        app = await self._reader.app(ref, programs=())
        now = self._clock.now()
        return await self._foreseen(ref, await asyncio.to_thread(lambda: deployment.remove_app(app, now=now)))

    async def revision(self, ref: AppRef) -> str:
        """The revision of the app's programs and schedules.

        Raises:
            NotFoundError: it has neither programs, schedules nor expectations.
        """
        revision = await self._revision(ref)
        if revision is None:
            raise NotFoundError("application", str(ref))
        return revision

    async def _revision(self, ref: AppRef) -> str | None:
        programs, generations = await self._reader.programs(app=ref), await self._reader.generations(ref)
        return app_revision(programs, generations, await self._reader.expectations(ref))

    async def expect(self, ref: AppRef | ScheduleRef, expected: Expected | None) -> None:
        """Refuses to plan a change of an app or schedule of another revision, as `Catalog.expecting` does the change.

        Raises:
            NotFoundError: there is no such schedule.
            RevisionChangedError: it has another revision, or there is no such app.
        """
        if expected is None:
            return
        if isinstance(ref, ScheduleRef):
            expected.check(f"schedule '{ref}'", str((await self._reader.schedule(ref)).record.generation))
            return
        expected.check(f"application '{ref}'", await self._revision(ref))

    async def versions(self, ref: ScheduleRef, *, limit: int) -> Sequence[ScheduleVersion]:
        """The definitions that the schedule has had, newest first: what it can be changed back to.

        Raises:
            NotFoundError: it never existed.
        """
        found = await self._reader.versions(ref, limit=limit)
        if not found:
            status = await self._reader.schedule(ref)  # stored by a release without versions
            record = status.record
            return [ScheduleVersion(record.generation, record.updated_at, "", schedule_to_json(record.definition))]
        return found

    async def of_schedule(self, ref: ScheduleRef, decide: Callable[[AppRecord, datetime], AppChange]) -> Preview:
        """The plan of a decision that depends only on the schedule.

        Raises:
            NotFoundError: it does not exist.
        """
        status = await self._reader.schedule(ref)
        decided = decide(AppRecord(ref.owner, {}, {ref: status.record}), self._clock.now())
        return foreseen(decided, {ref: status})

    async def of_app(self, app: AppRef, decide: Callable[[AppRecord, datetime], AppChange]) -> Preview:
        """The plan of a decision that depends only on the app's schedules.

        Raises:
            NotFoundError: it has none.
        """
        known = {status.record.definition.ref: status for status in await self._reader.schedules(app=app)}
        if not known:
            raise NotFoundError("application with schedules", str(app))
        records = {ref: status.record for ref, status in known.items()}
        now = self._clock.now()
        return await asyncio.to_thread(lambda: foreseen(decide(AppRecord(app, {}, records), now), known))

    async def other_programs(self, ref: ProgramRef) -> Sequence[ProgramRef]:
        """The other programs of its app."""
        return [program.ref for program in await self._reader.programs(app=ref.owner) if program.ref != ref]

    def check(self, definition: Schedule) -> None:
        """Raises:
        InvalidDefinitionError: a plug-in refuses it, it waits for keys that are never equal, or a property hides a
            column of its key.
        """
        check_key_grains(definition.trigger)
        check_properties(definition)
        self._check(definition, "$")

    def check_app(self, wanted: AppDefinition) -> None:
        """Raises:
        InvalidDefinitionError: a plug-in refuses a schedule.
        """
        for schedule in wanted.schedules:
            self._check(schedule, below("$.schedules", schedule.ref.name))

    def check_size(self, decided: AppChange, *, app: AppDefinition | None = None) -> AppChange:
        """Returns the decision if none of its records exceeds the log's limit.

        Raises:
            InvalidDefinitionError: one is too large.
        """
        for schedule in decided.schedules:
            size = max((len(record.key.encode()) + len(record.value) for record in schedule.records), default=0)
            if self._largest is not None and size > self._largest:
                path = "$" if app is None else below("$.schedules", schedule.after.definition.ref.name)
                raise InvalidDefinitionError(
                    path, f"needs {size} bytes in one log record, the limit is {self._largest}"
                )
        return decided

    async def _foreseen(self, app: AppRef, decided: AppChange) -> Preview:
        existing = [
            each.after.definition.ref for each in decided.schedules if each.before is not None and each.before.exists
        ]
        found: list[ScheduleStatus] = []
        own = {ref for ref in existing if ref.owner == app}
        if len(own) > _MAX_SINGLE_READS:
            found = [each for each in await self._reader.schedules(app=app) if each.record.definition.ref in own]
            existing = [ref for ref in existing if ref not in own]
        found += [await self._reader.schedule(ref) for ref in existing]
        known = {status.record.definition.ref: status for status in found}
        return await asyncio.to_thread(foreseen, decided, known)
