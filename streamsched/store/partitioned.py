"""The tables that are partitioned by day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streamsched.ports.archive import ArchiveTable
from streamsched.store.connections import Connection
from streamsched.store.sql import queries

_SQL: Final = queries("jobs/archive")

#: Tables partitioned by day: ended jobs and runs, and the decisions about them.
JOBS: Final = "jobs_history"
RUNS: Final = "runs_history"
WORK: Final = "work_decisions"
#: Ended tasks, by day; rows come before their partition is made.
TASKS: Final = "tasks_history"
#: Partitioned by month: the changes of everything else.
AUDIT: Final = "audit_decisions"
_TABLES: Final = (JOBS, RUNS, WORK, TASKS, AUDIT, "verdicts")


async def kept(connection: Connection) -> Sequence[ArchiveTable]:
    """The state of the partitioned tables."""
    rows = await connection.fetch(_SQL["standing"], list(_TABLES))
    return [ArchiveTable(row["parent"], row["partitions"], row["oldest"], row["bytes"]) for row in rows]
