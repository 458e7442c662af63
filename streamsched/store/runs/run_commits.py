"""`ports.programs.run_commits.RunCommitStore` on PostgreSQL: a column of runs, moved into the history with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import asyncpg

from streamsched.codec.views import run_commits
from streamsched.domain.jobs.run import job_of
from streamsched.domain.jobs.run_commit import MOST_COMMITS, RunCommit
from streamsched.store.connections import translated
from streamsched.store.sql import queries

_SQL: Final = queries("runs/run_commits")


class PostgresRunCommitStore:
    """See `ports.programs.run_commits.RunCommitStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def add(self, commits: Sequence[RunCommit]) -> None:
        runs = [each.run for each in commits]
        names, said = zip(*map(run_commits.stored_member, commits), strict=True)
        with translated():
            await self._pool.execute(_SQL["add"], runs, [job_of(run) for run in runs], names, MOST_COMMITS, said)
