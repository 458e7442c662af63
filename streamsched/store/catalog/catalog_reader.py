"""Apps, programs and schedules as the API, CLI and UI read them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar

import asyncpg
import structlog

from streamsched.codec.records import halt as halt_codec
from streamsched.domain.errors import NotFoundError, describe_failure
from streamsched.domain.history import HistoryEntry
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.programs.removed_program import RemovedProgram
from streamsched.domain.schedules.schedule import Program, ScheduleRecord
from streamsched.domain.ticks.since_last_run import NO_RUN, RunActivity, next_tick
from streamsched.domain.triggers.leaf import since_last_run_of
from streamsched.domain.triggers.removal import awaited_programs
from streamsched.store.catalog.app_expectations import read_expectations
from streamsched.store.catalog.app_rows import (
    PROGRAMS_OF_APP,
    SCHEDULES_OF_APP,
    ScheduleRow,
    missing_programs,
    read_app_rows,
    schedule_record,
    stored_program,
)
from streamsched.store.catalog.history import HISTORY
from streamsched.store.catalog.last_runs import last_runs_of
from streamsched.store.catalog.program_links import read_links
from streamsched.store.catalog.records import AppExpectations, AppRecord, AppSummary, ScheduleStatus
from streamsched.store.catalog.removed_programs import find_waiting, find_waiting_for
from streamsched.store.catalog.versions import VERSIONS, ScheduleVersion
from streamsched.store.connections import translate_errors
from streamsched.store.sql import Select, queries

log = structlog.get_logger()

_SQL = queries("catalog/catalog")
_R = TypeVar("_R")
_STATES: Final = ("enabled", "paused", "disabled")
#: Schedules that are decoded before others get their turn.
_AT_ONCE: Final = 100


class _ListedSchedule(NamedTuple):
    """The columns of `ScheduleRow`, and the state of the schedule: two arrays about its timers of `SinceLastRun`, three
    about removed programs that it waits for.
    """

    id: str
    definition: Any
    generation: int
    enabled: bool
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    kept_in: int | None
    kept_from: int | None
    resumed_at: datetime | None
    affinity: int | None
    mode: str | None
    until: datetime | None
    note: str | None
    progress: Any
    halt: Any
    next_tick_at: datetime | None
    since_leaves: list[str]
    since_due_at: list[datetime]
    removed: list[str]
    removed_at: list[datetime]
    removed_by: list[str]
    waiting_jobs: int
    open_keys: int


class _ListedApp(NamedTuple):
    """An app with the numbers of its programs and schedules."""

    id: str
    updated_at: datetime
    origin: str | None
    programs: int
    enabled: int
    paused: int
    disabled: int


class _Generation(NamedTuple):
    """The generation of a schedule."""

    id: str
    generation: int


_SCHEDULES: Final = Select(_SQL["schedules"], _ListedSchedule)
_TICKING: Final = Select(_SQL["ticking"], ScheduleRow)
_ENABLED: Final = Select(_SQL["enabled_of_programs"], ScheduleRow)
_APPS: Final = Select(_SQL["apps"], _ListedApp)
_GENERATIONS: Final = Select(_SQL["generations"], _Generation)


class CatalogReader:
    """Reads for API, CLI and UI. Deleted schedules do not exist here.

    Each method reads one snapshot, except a page with unreadable rows, which takes several statements.
    """

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def schedule(self, ref: ScheduleRef) -> ScheduleStatus:
        """The schedule with its state and progress.

        Raises:
            NotFoundError: no such schedule.
        """
        found = await self._schedules(None, None, [str(ref)], "", None)
        if not found:
            raise NotFoundError("schedule", str(ref))
        return found[0]

    async def find_schedules(self, refs: Collection[ScheduleRef]) -> Sequence[ScheduleStatus]:
        """Those of these schedules that exist and can be read, ordered by id."""
        return await self._schedules(None, None, [str(ref) for ref in refs], "", None, skip=True)

    async def schedules(
        self,
        *,
        namespace: str | None = None,
        app: AppRef | None = None,
        states: Collection[str] = (),
        after: str = "",
        limit: int | None = None,
    ) -> Sequence[ScheduleStatus]:
        """Ordered by id; of every app when none is named; at most `limit` of those after the id `after`. `states`:
        `enabled`, `paused`, `disabled` or `error`; of every state when none is named.
        """
        return await self._schedules(namespace, app and str(app), None, after, limit, states=states, skip=True)

    async def list_waiting(
        self, program: ProgramRef, *, after: str = "", limit: int | None = None
    ) -> Sequence[ScheduleStatus]:
        """The schedules of any namespace whose trigger has a status of the program, ordered by id; at most `limit` of
        those after the id `after`.
        """
        with translate_errors():
            found = await find_waiting_for(self._pool, program)
        return await self._schedules(None, None, found, after, limit, skip=True) if found else []

    async def list_ticking(
        self, *, limit: int, namespace: str | None = None, app: AppRef | None = None
    ) -> Sequence[ScheduleRecord]:
        """The schedules with the earliest next ticks, in order; of every app when none is named."""
        with translate_errors():
            rows = await _TICKING.fetch(self._pool, namespace, app and str(app), limit)
        return [record async for record in _read_records(rows)]

    async def existing_programs(self, programs: Collection[ProgramRef]) -> frozenset[ProgramRef]:
        """Those of the programs that exist."""
        with translate_errors():
            rows = await self._pool.fetch(_SQL["existing_programs"], [str(each) for each in programs])
        return frozenset(ProgramRef.parse(name) for (name,) in rows)

    async def list_enabled(
        self, programs: Collection[ProgramRef], *, limit: int
    ) -> Mapping[ProgramRef, Sequence[ScheduleRecord]]:
        """Of those programs that exist, the enabled schedules that start them, by name; at most `limit` of all."""
        found: dict[ProgramRef, list[ScheduleRecord]] = {each: [] for each in await self.existing_programs(programs)}
        with translate_errors():
            rows = await _ENABLED.fetch(self._pool, [str(each) for each in programs], limit)
        async for record in _read_records(rows):
            found.setdefault(record.definition.program, []).append(record)
        return found

    async def app(
        self, ref: AppRef, *, programs: Collection[ProgramRef] | None = None, awaited: Collection[ProgramRef] = ()
    ) -> AppRecord:
        """The input `CatalogStore.change` gives to a decision, read without locks; empty when there is no such app."""
        with translate_errors():
            async with (
                self._pool.acquire() as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                known = await PROGRAMS_OF_APP.fetch(connection, str(ref))
                of_other_apps, foreign_waits = await find_waiting(connection, ref, missing_programs(known, programs))
                rows = await SCHEDULES_OF_APP.fetch(connection, str(ref), of_other_apps)
                links = await read_links(connection, ref, awaited) if programs is not None else ()
                found = await read_app_rows(connection, ref, known, rows, foreign_waits, links=links, whole=True)
        return await found.record()

    async def app_summary(self, ref: AppRef) -> AppSummary:
        """How many programs and schedules the app has, and when it was changed.

        Raises:
            NotFoundError: the app has neither programs, schedules nor expectations.
        """
        found = await self._apps(None, str(ref), "", None)
        if not found:
            raise NotFoundError("application", str(ref))
        return found[0]

    async def apps(
        self, *, namespace: str | None = None, after: str = "", limit: int | None = None
    ) -> Sequence[AppSummary]:
        """Apps with programs or schedules, ordered by id; of all namespaces by default; `limit` after id `after`."""
        return await self._apps(namespace, None, after, limit)

    async def program(self, ref: ProgramRef) -> Program:
        """The program as it is defined now.

        Raises:
            NotFoundError: no such program.
        """
        found = await self._programs(None, None, str(ref), "", None)
        if not found:
            raise NotFoundError("program", str(ref))
        return found[0]

    async def programs(
        self, *, namespace: str | None = None, app: AppRef | None = None, after: str = "", limit: int | None = None
    ) -> Sequence[Program]:
        """Ordered by id; of every app when none is named; at most `limit` of those after the id `after`."""
        return await self._programs(namespace, app and str(app), None, after, limit)

    async def generations(self, app: AppRef) -> Mapping[ScheduleRef, int]:
        """Of the schedules of the app."""
        with translate_errors():
            rows = await _GENERATIONS.fetch(self._pool, str(app))
        return {ScheduleRef.parse(row.id): row.generation for row in rows}

    async def expectations(self, app: AppRef) -> AppExpectations:
        """What the app expects."""
        with translate_errors():
            return await read_expectations(self._pool, app)

    async def versions(self, ref: ScheduleRef, *, limit: int) -> Sequence[ScheduleVersion]:
        """The newest definitions that the schedule has had, newest first: what it can be changed back to; also of a
        deleted one.

        Raises:
            NotFoundError: it never existed.
        """
        with translate_errors():
            found = await VERSIONS.fetch(self._pool, str(ref), limit)
        if not found:
            raise NotFoundError("schedule", str(ref))
        return found

    async def history(self, subject_kind: str, subject: str, *, limit: int = 100) -> Sequence[HistoryEntry]:
        """The newest history lines of an app, program, schedule, job or run, newest first."""
        with translate_errors():
            return await HISTORY.fetch(self._pool, subject, subject_kind, limit)

    async def _schedules(
        self,
        namespace: str | None,
        app: str | None,
        refs: list[str] | None,
        after: str,
        limit: int | None,
        *,
        states: Collection[str] = (),
        skip: bool = False,
    ) -> list[ScheduleStatus]:
        """With `skip`, rows that cannot be read are logged and replaced by the rows after them."""
        found: list[ScheduleStatus] = []
        while True:
            wanted = None if limit is None else limit - len(found)
            with translate_errors():
                rows = await _SCHEDULES.fetch(self._pool, namespace, app, refs, after, wanted, list(states))
                since = [
                    (row.id, leaf, due_at)
                    for row in rows
                    for leaf, due_at in zip(row.since_leaves, row.since_due_at, strict=True)
                ]
                last_runs = await last_runs_of(self._pool, since)
            async for row in _take_turns(rows):
                try:
                    found.append(_status(row, last_runs))
                except Exception as failure:
                    if not skip:
                        raise
                    log.error("schedule.unreadable", schedule=row.id, reason=describe_failure(failure))
            if wanted is None or len(rows) < wanted or len(found) == limit:
                return found
            after = rows[-1].id

    async def _apps(self, *filters: str | int | None) -> list[AppSummary]:
        with translate_errors():
            rows = await _APPS.fetch(self._pool, *filters)
        return [
            AppSummary(
                AppRef.parse(row.id),
                row.programs,
                {
                    state: number
                    for state, number in zip(_STATES, (row.enabled, row.paused, row.disabled), strict=True)
                    if number
                },
                row.updated_at,
                row.origin or "",
            )
            for row in rows
        ]

    async def _programs(self, *filters: str | int | None) -> list[Program]:
        with translate_errors():
            rows = await self._pool.fetch(_SQL["programs"], *filters)
        return [stored_program(definition) async for (definition,) in _take_turns(rows)]


async def _take_turns(rows: Sequence[_R]) -> AsyncIterator[_R]:
    """The rows, with a turn for others after some: thousands of definitions take seconds to decode."""
    for index, row in enumerate(rows):
        if index % _AT_ONCE == _AT_ONCE - 1:
            await asyncio.sleep(0)
        yield row


async def _read_records(rows: Sequence[ScheduleRow]) -> AsyncIterator[ScheduleRecord]:
    """The schedules; those that this release cannot read are logged and left out."""
    async for row in _take_turns(rows):
        try:
            record = schedule_record(row)
        except Exception as failure:  # noqa: BLE001 - its definition may hold anything; the others are listed
            log.error("schedule.unreadable", schedule=row.id, reason=describe_failure(failure))
        else:
            yield record


def _status(row: _ListedSchedule, last_runs: Mapping[tuple[str, str], RunActivity]) -> ScheduleStatus:
    since_last_run = {
        leaf: next_tick(duration, due_at, last_runs.get((row.id, leaf), NO_RUN))
        for leaf, due_at in zip(row.since_leaves, row.since_due_at, strict=True)
        if (duration := since_last_run_of(leaf)) is not None
    }
    record = schedule_record(ScheduleRow(*row[:14]))
    return ScheduleStatus(
        record,
        min((at for at in (row.next_tick_at, *since_last_run.values()) if at is not None), default=None),
        row.waiting_jobs,
        row.open_keys,
        row.progress if isinstance(row.progress, dict) else None,  # damaged: treated as not copied yet
        None if row.halt is None else halt_codec.from_json(row.halt),
        since_last_run,
        _removed_programs(row, record) if row.removed else (),
    )


def _removed_programs(row: _ListedSchedule, record: ScheduleRecord) -> Sequence[RemovedProgram]:
    """Those of the removed programs that the present definition waits for."""
    waits_for = awaited_programs(record.definition.trigger)
    found = zip(map(ProgramRef.parse, row.removed), row.removed_at, row.removed_by, strict=True)
    return tuple(RemovedProgram(*each) for each in found if each[0] in waits_for)
