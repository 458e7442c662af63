"""`ports.catalog.CatalogReader` in PostgreSQL: what people ask about programs and schedules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import asyncpg

from streamsched.codec import halt as halt_codec
from streamsched.domain.errors import NotFoundError
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.pause import Pause
from streamsched.domain.schedule import Program
from streamsched.ports.catalog import AppRecord, Decision, ScheduleStatus
from streamsched.store import decisions
from streamsched.store.catalog import app_record, awaiting, schedule_record, stored_program, stored_programs
from streamsched.store.pool import translated
from streamsched.store.sql import queries

_SQL = queries("catalog")


class PostgresCatalogReader:
    """Each answer is one statement, so it shows one moment."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def schedule(self, ref: ScheduleRef) -> ScheduleStatus:
        found = await self._schedules(None, None, str(ref))
        if not found:
            raise NotFoundError("schedule", str(ref))
        return found[0]

    async def schedules(self, *, namespace: str | None = None, app: AppRef | None = None) -> Sequence[ScheduleStatus]:
        return await self._schedules(namespace, app and str(app), None)

    async def app(self, ref: AppRef, *, programs: Collection[ProgramRef] | None = None) -> AppRecord:
        with translated():
            async with (
                self._pool.acquire() as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                known = stored_programs(await connection.fetch(_SQL["programs_of_app"], str(ref)))
                lost = () if programs is None else known.keys() - set(programs)
                elsewhere = await awaiting(connection, ref, lost)
                rows = await connection.fetch(_SQL["schedules_of_app"], str(ref), elsewhere)
                return await app_record(connection, ref, known, rows)

    async def program(self, ref: ProgramRef) -> Program:
        found = await self._programs(None, None, str(ref))
        if not found:
            raise NotFoundError("program", str(ref))
        return found[0]

    async def programs(self, *, namespace: str | None = None, app: AppRef | None = None) -> Sequence[Program]:
        return await self._programs(namespace, app and str(app), None)

    async def history(self, subject_kind: str, subject: str, *, limit: int = 100) -> Sequence[Decision]:
        with translated():
            async with self._pool.acquire() as connection:
                return await decisions.history(connection, subject_kind, subject, limit)

    async def _schedules(self, *asked: str | None) -> list[ScheduleStatus]:
        with translated():
            rows = await self._pool.fetch(_SQL["schedules"], *asked)
        return [
            ScheduleStatus(
                schedule_record(row, pause_of(row)),
                row["next_tick_at"],
                row["waiting_jobs"],
                row["open_keys"],
                row["progress"],
                None if row["halt"] is None else halt_codec.from_json(row["halt"]),
            )
            for row in rows
        ]

    async def _programs(self, *asked: str | None) -> list[Program]:
        with translated():
            rows = await self._pool.fetch(_SQL["programs"], *asked)
        return [stored_program(row) for row in rows]


def pause_of(row: Any) -> Pause | None:
    """How a schedule is paused, of a row joined with `pauses`; None when it is not."""
    return None if row["keep"] is None else Pause(row["keep"], row["until"], row["note"])
