"""Runs of another scheduler, in the history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from streamsched.domain.decisions.retention import day_of
from streamsched.domain.jobs.imported_run import ImportedRun
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.jobs.archive import Archive
from streamsched.store.partitioned import RUNS
from streamsched.store.sql import Select, queries

_SQL: Final = queries("jobs/imported_runs")


class _Added(NamedTuple):
    added: int
    unknown: list[str]
    without_program: int


_ADD: Final = Select(_SQL["add"], _Added)


@dataclass(frozen=True, slots=True)
class AddedRuns:
    """What became of runs.

    Attributes:
        added: how many are in the history now that were not.
        known: how many were there already.
        without_program: how many are of programs that are not deployed here, which were left out.
        unknown: these programs.
    """

    added: int = 0
    known: int = 0
    without_program: int = 0
    unknown: tuple[str, ...] = ()


class ImportedRunStore:
    """Several processes may call it at a time."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._archive = Archive(pool)

    async def add(self, runs: Sequence[ImportedRun]) -> AddedRuns:
        """Adds runs, at least one and each once, in one transaction. Idempotent by their ids. They start nothing, and
        no message, webhook or expectation is about them; constraints that look back on the last completed run of a
        program see them.

        Raises:
            UnavailableError: PostgreSQL is unavailable, or the history stays locked; call again.
        """
        for part in sorted({day_of(run.ended_at) for run in runs}):
            await self._archive.make(RUNS, part)
        columns: tuple[list[object], ...] = tuple(map(list, zip(*map(_row, runs), strict=True)))
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["lock"])
                row = await _ADD.fetch_one(connection, *columns)
        known = len(runs) - row.added - row.without_program
        return AddedRuns(row.added, known, row.without_program, tuple(row.unknown))


def _row(run: ImportedRun) -> tuple[object, ...]:
    times = run.created_at, run.started_at, run.ended_at
    return (run.run, str(run.program), run.state, *times, dict(run.arguments), run.reason)
