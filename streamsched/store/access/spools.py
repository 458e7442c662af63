"""`ports.access.spools.SpoolStore` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import asyncpg

from streamsched.domain.jobs.run import LONGEST_FILE_NAME, file_name, stands_for_long_id
from streamsched.domain.names import ProgramRef
from streamsched.ports.access.spools import RefusedLines, SpoolingRun
from streamsched.store.connections import Connection, translated
from streamsched.store.sql import queries

_SQL: Final = queries("access/spools")


class PostgresSpoolStore:
    """See `ports.access.spools.SpoolStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def find(self, runs: Sequence[str]) -> Mapping[str, SpoolingRun]:
        with translated():
            rows = await self._pool.fetch(_SQL["find"], list(runs))
            if any(map(stands_for_long_id, runs)):
                rows += await self._pool.fetch(_SQL["find_long"], LONGEST_FILE_NAME)
        found = (SpoolingRun(row["id"], ProgramRef.parse(row["program"]), row["active"]) for row in rows)
        return {file_name(run.run): run for run in found}

    async def add_refused(self, refused: RefusedLines) -> None:
        with translated():
            values = (refused.host, refused.run, refused.lines, refused.reason, refused.at)
            await self._pool.execute(_SQL["add_refused"], *values)


async def last_refused(connection: Connection, most: int) -> Sequence[RefusedLines]:
    """The last `most` spools of which lines were refused, newest first."""
    return [RefusedLines(**dict(row)) for row in await connection.fetch(_SQL["refused"], most)]
