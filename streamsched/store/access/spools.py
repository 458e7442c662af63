"""Runs that spool events, and what was refused of their spools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from streamsched.domain.jobs.run import LONGEST_FILE_NAME, file_name, stands_for_long_id
from streamsched.domain.jobs.spool import RefusedLines, SpoolingRun
from streamsched.domain.names import ProgramRef
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.sql import Select, queries


class _Run(NamedTuple):
    id: str
    program: str
    active: bool


_SQL: Final = queries("access/spools")
_FIND: Final = Select(_SQL["find"], _Run)
_FIND_LONG: Final = Select(_SQL["find_long"], _Run)
_REFUSED: Final = Select(_SQL["refused"], RefusedLines)


class SpoolStore:
    """Each method raises UnavailableError when PostgreSQL cannot be reached."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, runs: Sequence[str]) -> Mapping[str, SpoolingRun]:
        """Those of these runs that are known, also ended ones as long as history has them; by their file names
        (`domain.jobs.run.file_name`), which `runs` are too.
        """
        with translate_errors():
            rows = await _FIND.fetch(self._pool, runs)
            if any(map(stands_for_long_id, runs)):
                rows += await _FIND_LONG.fetch(self._pool, LONGEST_FILE_NAME)
        return {file_name(row.id): SpoolingRun(row.id, ProgramRef.parse(row.program), row.active) for row in rows}

    async def add_refused(self, refused: RefusedLines) -> None:
        """Counts lines as refused, and forgets what was refused more than 30 days before."""
        with translate_errors():
            await self._pool.execute(_SQL["add_refused"], *refused)


async def read_last_refused(connection: Connection, most: int) -> Sequence[RefusedLines]:
    """The last `most` spools of which lines were refused, newest first."""
    return await _REFUSED.fetch(connection, most)
