"""The history of ended jobs and runs: tables partitioned by day or month, whose old partitions are dropped."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol

from streamsched.domain.decisions.retention import TimePartition
from streamsched.domain.jobs.imported_run import ImportedRun

#: Tables partitioned by day: ended jobs and runs, and the decisions about them.
JOBS: Final = "jobs_history"
RUNS: Final = "runs_history"
WORK: Final = "work_decisions"
#: Ended tasks, by day; rows come before their partition is made.
TASKS: Final = "tasks_history"
#: Partitioned by month: the changes of everything else.
AUDIT: Final = "audit_decisions"


class ArchiveCursor(NamedTuple):
    """A cursor in a walk through ended rows: the row before the next."""

    created_at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class EndedRows:
    """Ended jobs, or ended manual runs, with the time of the last end in each: of the job and its runs (UTC)."""

    done_at: Mapping[str, datetime]
    last: ArchiveCursor | None = None


@dataclass(frozen=True, slots=True)
class ArchiveTable:
    """A partitioned table: the number of its partitions, the start of the oldest (UTC), its size in bytes."""

    table: str
    parts: int
    oldest: datetime | None
    bytes: int


class Archive(Protocol):
    """Several processes may call it at a time. Each call is one or more short transactions. All raise
    `UnavailableError` when PostgreSQL is unavailable.
    """

    async def lookback(self) -> timedelta:
        """How long ended runs matter to the constraints of schedules; the longest.

        Raises:
            InvalidError: this release cannot read a constraint.
        """
        ...

    async def dedupe(self) -> timedelta:
        """How long ended tasks are needed to recognise repeats; the longest of all queues."""
        ...

    async def ended_jobs(self, before: datetime, *, behind: ArchiveCursor | None, limit: int) -> EndedRows:
        """The next jobs that ended before then with all their runs, in order of creation, after the cursor."""
        ...

    async def ended_runs(self, before: datetime, *, behind: ArchiveCursor | None, limit: int) -> EndedRows:
        """The same of manual runs."""
        ...

    async def move_jobs(self, ended: EndedRows, *, keep_from: datetime) -> int:
        """Moves them to the history with their runs and the jobs coalesced into them; those done before `keep_from` are
        deleted. Their partitions must exist. From then on a repeat of their satisfaction from the log makes no new job
        (promise G3). Returns how many were moved or deleted.
        """
        ...

    async def move_runs(self, ended: EndedRows, *, keep_from: datetime) -> int:
        """The same of manual runs."""
        ...

    async def known_runs(self, runs: Sequence[str]) -> Collection[str]:
        """Those of the runs that exist, live or in the history."""
        ...

    async def active_runs(self, runs: Sequence[str]) -> Collection[str]:
        """Those of the runs that have not ended."""
        ...

    async def early(self) -> Sequence[tuple[str, datetime]]:
        """Rows written before their partition existed: the table, and an instant of each missing partition."""
        ...

    async def make(self, table: str, part: TimePartition) -> None:
        """Creates a partition and moves `early` rows into it. Idempotent."""
        ...

    async def drop(self, table: str, *, before: datetime) -> int:
        """Drops the partitions that ended by then, the oldest first; one that stays locked is left to the next call.
        Returns how many were dropped.
        """
        ...


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


class ImportedRunStore(Protocol):
    """Several processes may call it at a time."""

    async def add(self, runs: Sequence[ImportedRun]) -> AddedRuns:
        """Adds runs, at least one and each once, in one transaction. Idempotent by their ids. They start nothing, and
        no message, webhook or expectation is about them; constraints that look back on the last completed run of a
        program see them.

        Raises:
            UnavailableError: PostgreSQL is unavailable, or the history stays locked; call again.
        """
        ...
