"""A change of apps, programs or schedules that was asked for: what it would do now, and doing it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, NamedTuple

import structlog

from streamsched.catalog.outbox_ack import wait_for_ack, wait_for_ids
from streamsched.catalog.preview import Preview, app_revision, check_plan, foresee
from streamsched.domain.errors import InvalidDefinitionError, PlanChangedError
from streamsched.domain.json_value import member_path
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.revision import Expected
from streamsched.domain.signals.signal import Signal
from streamsched.log.control import control, outbox_record
from streamsched.ports.clock import Clock
from streamsched.ports.notifier import Notifier
from streamsched.store.catalog.catalog import CatalogStore
from streamsched.store.catalog.catalog_reader import CatalogReader
from streamsched.store.catalog.outbox import PostgresOutbox
from streamsched.store.catalog.records import AppChange, Applied, AppRecord

log = structlog.get_logger()

#: A change of more programs and schedules than this is logged in one line.
_MAX_LOGGED: Final = 100
#: Of an affinity: eight digits in a key, ten at most in a value.
_LARGEST_AFFINITY: Final = 2**32 - 1

Decide = Callable[[AppRecord, datetime], AppChange]


class Scope(NamedTuple):
    """What a change reads, and locks when it is applied: some schedules of the app; or all of it (`schedules` None),
    which is then to have `programs`, and whose schedules are to wait for `awaited`.
    """

    schedules: Sequence[ScheduleRef] | None
    programs: Collection[ProgramRef] = ()
    awaited: Collection[ProgramRef] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeServices:
    """What changes are made with.

    Attributes:
        patience: how long a change waits for a log that makes no progress, in seconds.
        largest_record: the log's record size limit in bytes; None: it has none.
        by: the name of the caller, where the change concerns other namespaces.
    """

    store: CatalogStore
    reader: CatalogReader
    acks: PostgresOutbox
    notifier: Notifier
    clock: Clock
    patience: float
    largest_record: int | None = None
    by: str = ""


class RequestedChange:
    """Belongs to one request. `preview` and `apply` decide alike: on the current records without locks, and on those
    under locks. Both raise what the decision raises.
    """

    def __init__(
        self,
        services: ChangeServices,
        about: AppRef | ProgramRef | ScheduleRef,
        decide: Decide,
        scope: Scope | Callable[[], Awaitable[Scope]],
        *,
        origin: str | None = None,
        deploys: bool = False,
    ) -> None:
        """`decide` must be pure. `scope` is asked for each time, if it has to be read. `origin`: the file of a
        deployment. `deploys`: the definition is that of an app, and errors name its schedules.
        """
        self._services = services
        self._about = about
        self._app = about if isinstance(about, AppRef) else about.owner
        self._decide = decide
        self._scope = scope
        self._origin = origin
        self._deploys = deploys
        self._expected: Expected | None = None
        self._preview: Preview | None = None

    def with_expected(self, expected: Expected | None) -> RequestedChange:
        """The same change, which raises RevisionChangedError when its schedule or app has another revision."""
        self._expected = expected
        return self

    async def preview(self) -> Preview:
        """What it would do, and lose, now. Read-only.

        Raises:
            NotFoundError: there is no such schedule or app.
            InvalidDefinitionError: a schedule can never tick, or is larger than a log record may be.
        """
        scope, reader, now = await self._read_scope(), self._services.reader, self._services.clock.now()
        if scope.schedules is None:
            app = await reader.app(self._app, programs=scope.programs, awaited=scope.awaited)
            decided = await asyncio.to_thread(self._decide_checked, app, scope, now)
            changed = [
                each.after.definition.ref
                for each in decided.schedules
                if each.before is not None and each.before.exists
            ]
            found = await reader.find_schedules(changed) if changed else ()
        else:
            one = len(scope.schedules) == 1
            found = [await reader.schedule(scope.schedules[0])] if one else await reader.find_schedules(scope.schedules)
            programs = {each.ref: each for each in await reader.programs(app=self._app)}
            app = AppRecord(self._app, programs, {each.record.definition.ref: each.record for each in found})
            decided = await asyncio.to_thread(self._decide_checked, app, scope, now)
        known = {each.record.definition.ref: each for each in found}
        self._preview = await asyncio.to_thread(foresee, decided, known, origin=app.origin)
        return self._preview

    async def apply(self, plan: str | None = None, *, within: float | None = None) -> Applied:
        """Stores the change and waits for the log. With a `plan` (`Preview.token`), only if it still equals the plan
        and loses nothing that the plan did not show. With `within`, waits at most so many seconds, and then
        `Applied.pending` is the number of records that the log has not acknowledged yet.

        Raises:
            PlanChangedError: the change or its losses differ from the plan; nothing changed.
            UnavailableError: PostgreSQL is unreachable and nothing changed; or the change is stored but the log has not
                acknowledged it yet (the message says which).
        """
        scope, services, now = await self._read_scope(), self._services, self._services.clock.now()
        if plan is not None and (self._preview or await self.preview()).token != plan:
            raise PlanChangedError(self._subject_text)

        def decide(app: AppRecord) -> AppChange:
            decided = self._decide_checked(app, scope, now)
            check_plan(decided, plan, self._subject_text)
            return decided

        applied = await services.store.change(
            self._app,
            scope.schedules,
            decide,
            now=now,
            programs=scope.programs,
            awaited=scope.awaited,
            origin=self._origin,
            by=services.by,
        )
        _log_change(self._app, applied.change)
        ids, acks, notifier = applied.outbox, services.acks, services.notifier
        if within is not None:
            return replace(applied, pending=await wait_for_ids(ids, acks=acks, notifier=notifier, within=within))
        await wait_for_ack(ids, acks=acks, notifier=notifier, patience=services.patience)
        if ids:
            log.debug("change.acknowledged", app=str(self._app), records=len(ids), jobs_ended=len(applied.ended_jobs))
        return applied

    async def _read_scope(self) -> Scope:
        return self._scope if isinstance(self._scope, Scope) else await self._scope()

    @property
    def _subject_text(self) -> str:
        """Whose plan it is, for people."""
        match self._about:
            case AppRef():
                return f"application '{self._about}'"
            case ProgramRef():
                return f"program '{self._about}'"
            case ScheduleRef():
                return f"schedule '{self._about}'"

    def _decide_checked(self, app: AppRecord, scope: Scope, now: datetime) -> AppChange:
        """Raises:
        RevisionChangedError: it is of another revision than expected.
        InvalidDefinitionError: a record is too large.
        """
        if self._expected is not None and scope.schedules is None:
            existing = {ref: each.generation for ref, each in app.schedules.items() if each.exists}
            self._expected.check(
                f"application '{self._app}'", app_revision(app.programs.values(), existing, app.watched)
            )
        elif self._expected is not None and isinstance(self._about, ScheduleRef):
            one = app.schedules.get(self._about)
            if one is not None and one.exists:
                self._expected.check(self._subject_text, str(one.generation))
        decided, most = self._decide(app, now), self._services.largest_record
        for schedule in decided.schedules if most is not None else ():
            after = replace(schedule.after, affinity=_LARGEST_AFFINITY)
            size = max(map(_record_size, control(schedule.before, after)), default=0)
            if most is not None and size > most:
                path = member_path("$.schedules", schedule.after.definition.ref.name) if self._deploys else "$"
                raise InvalidDefinitionError(path, f"needs {size} bytes in one log record, the limit is {most}")
        return decided


def _record_size(signal: Signal) -> int:
    """Bytes of its record in the log, wherever its schedule lives."""
    record = outbox_record(signal, _LARGEST_AFFINITY)
    return len(record.key.encode()) + len(record.value)


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
