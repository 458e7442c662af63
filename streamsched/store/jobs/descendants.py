"""What became of the runs that descend from a job (`domain.events.ancestors`): one statement for any number of keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from streamsched.domain.events.ancestors import JOB_DIGITS, program_digest
from streamsched.domain.jobs.descendant import Descendant
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.sql import Select, queries

_SQL: Final = queries("jobs/descendants")


class _Latest(NamedTuple):
    digest: str
    program: str
    job: str
    state: str
    reason: str
    joined: str | None
    run: str | None
    run_state: str | None
    run_reason: str | None


class _Named(NamedTuple):
    id: str
    digest: str


_LATEST: Final = Select(_SQL["latest"], _Latest)
_NAMED: Final = Select(_SQL["named"], _Named)


class DescendantReader:
    """Reads the jobs that have not moved to the history. All methods raise `UnavailableError` when PostgreSQL is
    unavailable.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def read_latest(
        self, ancestor: ProgramRef, wanted: Collection[tuple[str, ProgramRef]]
    ) -> Mapping[tuple[str, ProgramRef], Descendant]:
        """For each job of `ancestor`, as a digest, and each program: its newest job that descends from that one."""
        digests, programs = [digest for digest, _ in wanted], [str(program) for _, program in wanted]
        with translate_errors():
            rows = await _LATEST.fetch(self._pool, program_digest(ancestor), digests, programs)
        return {
            (row.digest, program): Descendant(
                program,
                row.job,
                JobState(row.state),
                (row.reason if row.run is None else row.run_reason) or "",
                row.joined,
                row.run,
                None if row.run is None else RunState(row.run_state),
            )
            for row in rows
            for program in [ProgramRef.parse(row.program)]
        }

    async def names(self, ancestor: ProgramRef, digests: Collection[str]) -> Mapping[str, str]:
        """Digest → the job of the program, or its run without a job, among the newest of its runs."""
        with translate_errors():
            rows = await _NAMED.fetch(self._pool, str(ancestor), list(digests), JOB_DIGITS)
        return {row.digest: row.id for row in rows}
