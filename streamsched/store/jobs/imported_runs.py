"""`ports.archive.ImportedRunStore` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import asyncpg

from streamsched.domain.decisions.retention import day_of
from streamsched.domain.jobs.imported_run import ImportedRun
from streamsched.ports.archive import RUNS, AddedRuns
from streamsched.store.connections import translated
from streamsched.store.jobs.archive import PostgresArchive
from streamsched.store.sql import queries

_SQL: Final = queries("jobs/imported_runs")


class PostgresImportedRuns:
    """See `ports.archive.ImportedRunStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._archive = PostgresArchive(pool)

    async def add(self, runs: Sequence[ImportedRun]) -> AddedRuns:
        for part in sorted({day_of(run.ended_at) for run in runs}):
            await self._archive.make(RUNS, part)
        columns: tuple[list[object], ...] = tuple(map(list, zip(*map(_row, runs), strict=True)))
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["lock"])
                row = await connection.fetchrow(_SQL["add"], *columns)
        known = len(runs) - row["added"] - row["without_program"]
        return AddedRuns(row["added"], known, row["without_program"], tuple(row["unknown"]))


def _row(run: ImportedRun) -> tuple[object, ...]:
    times = run.created_at, run.started_at, run.ended_at
    return (run.run, str(run.program), run.state, *times, dict(run.arguments), run.reason)
