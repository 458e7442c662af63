"""`ports.archive.Archive` on PostgreSQL: tables partitioned by time, filled in batches; old partitions are dropped."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import asyncpg

from streamsched.codec.schedules import constraint as constraint_codec
from streamsched.domain.decisions.retention import TimePartition, looks_back
from streamsched.domain.limits import as_stored
from streamsched.log.topics import LAUNCH
from streamsched.ports.archive import ArchiveCursor, EndedRows
from streamsched.store.connections import translated
from streamsched.store.sql import queries

_SQL: Final = queries("jobs/archive")
_BEGINNING: Final = ArchiveCursor(datetime.min.replace(tzinfo=UTC), "")


class PostgresArchive:
    """See `ports.archive.Archive`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._existing: set[tuple[str, TimePartition]] = set()

    async def lookback(self) -> timedelta:
        with translated():
            rows = await self._pool.fetch(_SQL["lookback"])
        with as_stored():
            return max((looks_back(constraint_codec.from_json(row["each"])) for row in rows), default=timedelta(0))

    async def dedupe(self) -> timedelta:
        with translated():
            return await self._pool.fetchval(_SQL["dedupe"])

    async def ended_jobs(self, before: datetime, *, behind: ArchiveCursor | None, limit: int) -> EndedRows:
        with translated():
            return _ended_rows(await self._pool.fetch(_SQL["pick_jobs"], before, *(behind or _BEGINNING), limit))

    async def ended_runs(self, before: datetime, *, behind: ArchiveCursor | None, limit: int) -> EndedRows:
        with translated():
            return _ended_rows(await self._pool.fetch(_SQL["pick_runs"], before, *(behind or _BEGINNING), limit))

    async def move_jobs(self, ended: EndedRows, *, keep_from: datetime) -> int:
        jobs, done = list(ended.done_at), list(ended.done_at.values())
        with translated():
            await self._pool.execute(_SQL["mark_archived"], jobs)
            await self._pool.execute(_SQL["wait_for_older_intakes"], LAUNCH)
            return await self._pool.fetchval(_SQL["move_jobs"], jobs, done, keep_from)

    async def move_runs(self, ended: EndedRows, *, keep_from: datetime) -> int:
        with translated():
            return await self._pool.fetchval(
                _SQL["move_runs"], list(ended.done_at), list(ended.done_at.values()), keep_from
            )

    async def known_runs(self, runs: Sequence[str]) -> Collection[str]:
        with translated():
            return {row["id"] for row in await self._pool.fetch(_SQL["known_runs"], runs)}

    async def active_runs(self, runs: Sequence[str]) -> Collection[str]:
        with translated():
            return {row["id"] for row in await self._pool.fetch(_SQL["active_runs"], runs)}

    async def early(self) -> Sequence[tuple[str, datetime]]:
        with translated():
            return [(row["parent"], row["at"]) for row in await self._pool.fetch(_SQL["early"])]

    async def make(self, table: str, part: TimePartition) -> None:
        if (table, part) not in self._existing:
            with translated():
                await self._pool.execute(_SQL["make_part"], table, *part)
            self._existing.add((table, part))

    async def drop(self, table: str, *, before: datetime) -> int:
        dropped = 0
        with translated():
            while await self._pool.fetchval(_SQL["drop_part"], table, before):
                dropped += 1
        if dropped:
            self._existing = {(name, part) for name, part in self._existing if name != table or part.ends > before}
        return dropped


def _ended_rows(rows: Sequence[asyncpg.Record]) -> EndedRows:
    last = ArchiveCursor(rows[-1]["created_at"], rows[-1]["id"]) if rows else None
    return EndedRows({row["id"]: row["done_at"] for row in rows}, last)
