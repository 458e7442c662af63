"""`ports.catalog.CatalogReader` on PostgreSQL: programs and schedules as the API, CLI and UI read them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

import asyncpg
import structlog

from streamsched.codec.records import halt as halt_codec
from streamsched.domain.errors import NotFoundError, described
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.pause import Pause
from streamsched.domain.schedules.schedule import Program
from streamsched.domain.ticks.since_last_run import NO_RUN, RunActivity, next_tick
from streamsched.domain.triggers.leaf import since_last_run_of
from streamsched.domain.triggers.removal import awaited
from streamsched.ports.catalog import (
    AppRecord,
    AppSummary,
    HistoryEntry,
    RemovedProgram,
    ScheduleRecord,
    ScheduleStatus,
)
from streamsched.ports.schedules.expectations import AppExpectations
from streamsched.ports.schedules.version import ScheduleVersion
from streamsched.store.catalog import history, versions
from streamsched.store.catalog.app_expectations import watched_by
from streamsched.store.catalog.catalog import (
    app_rows,
    missing_programs,
    schedule_record,
    stored_pause,
    stored_program,
)
from streamsched.store.catalog.last_runs import last_runs_of
from streamsched.store.catalog.program_links import read_links
from streamsched.store.catalog.removed_programs import find_waiting, find_waiting_in
from streamsched.store.connections import translated
from streamsched.store.sql import queries

log = structlog.get_logger()

_SQL = queries("catalog/catalog")
_R = TypeVar("_R")
#: Schedules that are decoded before others get their turn.
_AT_ONCE: Final = 100


class PostgresCatalogReader:
    """Each method reads one snapshot, except a page with unreadable rows, which takes several statements."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def schedule(self, ref: ScheduleRef) -> ScheduleStatus:
        found = await self._schedules(None, None, [str(ref)], "", None)
        if not found:
            raise NotFoundError("schedule", str(ref))
        return found[0]

    async def some(self, refs: Collection[ScheduleRef]) -> Sequence[ScheduleStatus]:
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
        return await self._schedules(namespace, app and str(app), None, after, limit, states=states, skip=True)

    async def list_waiting(
        self, program: ProgramRef, *, namespace: str, after: str = "", limit: int | None = None
    ) -> Sequence[ScheduleStatus]:
        with translated():
            async with self._pool.acquire() as connection:
                found = await find_waiting_in(connection, namespace, program)
        return await self._schedules(namespace, None, found, after, limit, skip=True) if found else []

    async def ticking(
        self, *, limit: int, namespace: str | None = None, app: AppRef | None = None
    ) -> Sequence[ScheduleRecord]:
        with translated():
            rows = await self._pool.fetch(_SQL["ticking"], namespace, app and str(app), limit)
        found: list[ScheduleRecord] = []
        for row in rows:
            try:
                found.append(schedule_record(row, pause_of(row)))
            except Exception as failure:  # noqa: BLE001 - a row may hold anything; the others are listed
                log.error("schedule.unreadable", schedule=row["id"], reason=described(failure))
        return found

    async def enabled_of(
        self, programs: Collection[ProgramRef], *, limit: int | None = None
    ) -> Mapping[ProgramRef, Sequence[ScheduleRecord]]:
        with translated():
            rows = await self._pool.fetch(_SQL["enabled_of_programs"], [str(each) for each in programs], limit)
        found: dict[ProgramRef, list[ScheduleRecord]] = {}
        async for row in _with_pauses(rows):
            listed = found.setdefault(ProgramRef.parse(row["of_program"]), [])
            if row["id"] is None:
                continue
            try:
                listed.append(schedule_record(row))
            except Exception as failure:  # noqa: BLE001 - a row may hold anything; the others are listed
                log.error("schedule.unreadable", schedule=row["id"], reason=described(failure))
        return found

    async def app(
        self, ref: AppRef, *, programs: Collection[ProgramRef] | None = None, awaited: Collection[ProgramRef] = ()
    ) -> AppRecord:
        with translated():
            async with (
                self._pool.acquire() as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                known = await connection.fetch(_SQL["programs_of_app"], str(ref))
                of_other_apps, foreign_waits = await find_waiting(connection, ref, missing_programs(known, programs))
                rows = await connection.fetch(_SQL["schedules_of_app"], str(ref), of_other_apps)
                links = await read_links(connection, ref, awaited) if programs is not None else ()
                found = await app_rows(connection, ref, known, rows, foreign_waits, links=links, whole=True)
        return await found.record()

    async def app_summary(self, ref: AppRef) -> AppSummary:
        found = await self._apps(None, str(ref), "", None)
        if not found:
            raise NotFoundError("application", str(ref))
        return found[0]

    async def apps(
        self, *, namespace: str | None = None, after: str = "", limit: int | None = None
    ) -> Sequence[AppSummary]:
        return await self._apps(namespace, None, after, limit)

    async def program(self, ref: ProgramRef) -> Program:
        found = await self._programs(None, None, str(ref), "", None)
        if not found:
            raise NotFoundError("program", str(ref))
        return found[0]

    async def programs(
        self, *, namespace: str | None = None, app: AppRef | None = None, after: str = "", limit: int | None = None
    ) -> Sequence[Program]:
        return await self._programs(namespace, app and str(app), None, after, limit)

    async def generations(self, app: AppRef) -> Mapping[ScheduleRef, int]:
        with translated():
            rows = await self._pool.fetch(_SQL["generations"], str(app))
        return {ScheduleRef.parse(row["id"]): row["generation"] for row in rows}

    async def expectations(self, app: AppRef) -> AppExpectations:
        with translated():
            async with self._pool.acquire() as connection:
                return await watched_by(connection, app)

    async def versions(self, ref: ScheduleRef, *, limit: int) -> Sequence[ScheduleVersion]:
        with translated():
            async with self._pool.acquire() as connection:
                return await versions.versions(connection, str(ref), limit)

    async def history(self, subject_kind: str, subject: str, *, limit: int = 100) -> Sequence[HistoryEntry]:
        with translated():
            async with self._pool.acquire() as connection:
                return await history.history(connection, subject_kind, subject, limit)

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
            with translated():
                rows = await self._pool.fetch(_SQL["schedules"], namespace, app, refs, after, wanted, list(states))
                since = [
                    (row["id"], leaf, due_at)
                    for row in rows
                    for leaf, due_at in zip(row["since_leaves"], row["since_due_at"], strict=True)
                ]
                last_runs = await last_runs_of(self._pool, since)
            async for row in _with_pauses(rows):
                try:
                    found.append(_status(row, last_runs))
                except Exception as failure:
                    if not skip:
                        raise
                    log.error("schedule.unreadable", schedule=row["id"], reason=described(failure))
            if wanted is None or len(rows) < wanted or len(found) == limit:
                return found
            after = rows[-1]["id"]

    async def _apps(self, *filters: str | int | None) -> list[AppSummary]:
        with translated():
            rows = await self._pool.fetch(_SQL["apps"], *filters)
        states = ("enabled", "paused", "disabled")
        return [
            AppSummary(
                AppRef.parse(row["id"]),
                row["programs"],
                {state: row[state] for state in states if row[state]},
                row["updated_at"],
                row["origin"] or "",
            )
            for row in rows
        ]

    async def _programs(self, *filters: str | int | None) -> list[Program]:
        with translated():
            rows = await self._pool.fetch(_SQL["programs"], *filters)
        return [stored_program(row) for row in rows]


async def _with_pauses(rows: Sequence[_R]) -> AsyncIterator[_R]:
    """The rows, with a turn for others after some: thousands of schedules take seconds to decode."""
    for index, row in enumerate(rows):
        if index % _AT_ONCE == _AT_ONCE - 1:
            await asyncio.sleep(0)
        yield row


def _status(row: Any, last_runs: Mapping[tuple[str, str], RunActivity]) -> ScheduleStatus:
    since_last_run = {
        leaf: next_tick(duration, due_at, last_runs.get((row["id"], leaf), NO_RUN))
        for leaf, due_at in zip(row["since_leaves"], row["since_due_at"], strict=True)
        if (duration := since_last_run_of(leaf)) is not None
    }
    record = schedule_record(row, pause_of(row))
    return ScheduleStatus(
        record,
        min((at for at in (row["next_tick_at"], *since_last_run.values()) if at is not None), default=None),
        row["waiting_jobs"],
        row["open_keys"],
        row["progress"] if isinstance(row["progress"], dict) else None,  # damaged: treated as not copied yet
        None if row["halt"] is None else halt_codec.from_json(row["halt"]),
        since_last_run,
        _removed(row, record) if row["removed"] else (),
    )


def _removed(row: Any, record: ScheduleRecord) -> Sequence[RemovedProgram]:
    """Those of the removed programs that the present definition waits for."""
    waits_for = awaited(record.definition.trigger)
    found = zip(map(ProgramRef.parse, row["removed"]), row["removed_at"], row["removed_by"], strict=True)
    return tuple(RemovedProgram(*each) for each in found if each[0] in waits_for)


def pause_of(row: Any) -> Pause | None:
    """The pause in a row joined with `pauses`; None when the schedule is not paused."""
    return None if row["keep"] is None else stored_pause(row)
