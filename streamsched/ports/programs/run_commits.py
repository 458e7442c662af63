"""What runs have committed to datasets, as their announcements say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from streamsched.domain.jobs.run_commit import RunCommit


class RunCommitStore(Protocol):
    """Stores them with the runs."""

    async def add(self, commits: Sequence[RunCommit]) -> None:
        """Idempotent by dataset and commit. Those of unknown runs, and of runs with `MOST_COMMITS`, are left out.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...
