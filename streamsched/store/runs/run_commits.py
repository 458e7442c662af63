"""What runs have committed to datasets, as their announcements say: a column of runs, which moves into the history with
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streamsched.domain.jobs.run import job_of
from streamsched.domain.jobs.run_commit import MOST_COMMITS, RunCommit
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.sql import queries
from streamsched.wire.runs import stored_commit

_SQL: Final = queries("runs/run_commits")


class RunCommitStore:
    """Stores commits with their runs."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def add(self, commits: Sequence[RunCommit]) -> None:
        """Idempotent by dataset and commit. Those of unknown runs, and of runs with `MOST_COMMITS`, are left out.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        runs = [each.run for each in commits]
        names, said = zip(*map(stored_commit, commits), strict=True)
        with translate_errors():
            await self._pool.execute(_SQL["add"], runs, [job_of(run) for run in runs], names, MOST_COMMITS, said)
