"""What became of the runs that descend from a job (`domain.events.ancestors`), for API, CLI and UI."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from streamsched.domain.jobs.descendant import Descendant
from streamsched.domain.names import ProgramRef


class DescendantReader(Protocol):
    """Reads the jobs that have not moved to the history."""

    async def latest(
        self, ancestor: ProgramRef, wanted: Collection[tuple[str, ProgramRef]]
    ) -> Mapping[tuple[str, ProgramRef], Descendant]:
        """For each job of `ancestor`, as a digest, and each program: its newest job that descends from that one.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...

    async def names(self, ancestor: ProgramRef, digests: Collection[str]) -> Mapping[str, str]:
        """Digest → the job of the program, or its run without a job, among the newest of its runs.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...
