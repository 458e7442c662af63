"""The tables that are partitioned by time (`domain.decisions.retention.part_of`)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.store.connections import Executor
from streamsched.store.sql import Select, queries

_SQL: Final = queries("jobs/archive")

#: Ended jobs and runs, and the decisions about them.
JOBS: Final = "jobs_history"
RUNS: Final = "runs_history"
WORK: Final = "work_decisions"
#: Ended tasks; rows come before their partition is made.
TASKS: Final = "tasks_history"
#: The changes of everything else, when they are kept long by month.
AUDIT: Final = "audit_decisions"
_TABLES: Final = (JOBS, RUNS, WORK, TASKS, AUDIT, "verdicts")


class ArchiveTable(NamedTuple):
    """A partitioned table: the number of its partitions, their size in bytes, the start of the oldest (UTC)."""

    table: str
    parts: int
    bytes: int
    oldest: datetime | None


_STATES: Final = Select(_SQL["standing"], ArchiveTable)


async def partition_states(executor: Executor) -> Sequence[ArchiveTable]:
    """The state of the partitioned tables."""
    return await _STATES.fetch(executor, list(_TABLES))
