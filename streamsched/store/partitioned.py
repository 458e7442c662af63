"""The tables that are partitioned by day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streamsched.ports.archive import AUDIT, JOBS, RUNS, TASKS, WORK, ArchiveTable
from streamsched.store.connections import Connection
from streamsched.store.sql import queries

_SQL: Final = queries("jobs/archive")
_TABLES: Final = (JOBS, RUNS, WORK, TASKS, AUDIT, "verdicts")


async def kept(connection: Connection) -> Sequence[ArchiveTable]:
    """The state of the partitioned tables."""
    rows = await connection.fetch(_SQL["standing"], list(_TABLES))
    return [ArchiveTable(row["parent"], row["partitions"], row["oldest"], row["bytes"]) for row in rows]
