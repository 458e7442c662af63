"""`ports.catalog.CatalogReader` in PostgreSQL: what people ask about programs and schedules."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from streamsched.domain.errors import NotFoundError
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedule import Program
from streamsched.ports.catalog import Decision, ScheduleStatus
from streamsched.store import decisions
from streamsched.store.catalog import schedule_record, stored_program
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
            ScheduleStatus(schedule_record(row), row["next_tick_at"], row["waiting_jobs"], row["progress"])
            for row in rows
        ]

    async def _programs(self, *asked: str | None) -> list[Program]:
        with translated():
            rows = await self._pool.fetch(_SQL["programs"], *asked)
        return [stored_program(row) for row in rows]
