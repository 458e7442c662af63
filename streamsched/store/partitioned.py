"""The tables that are partitioned by day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.ports.archive import AUDIT, JOBS, RUNS, TASKS, WORK, ArchiveTable
from streamsched.store.connections import Executor
from streamsched.store.sql import Select, queries

_SQL: Final = queries("jobs/archive")
_TABLES: Final = (JOBS, RUNS, WORK, TASKS, AUDIT, "verdicts")


class _PartitionedTable(NamedTuple):
    """A table, the number of its partitions, their size, and the start of the oldest."""

    parent: str
    partitions: int
    bytes: int
    oldest: datetime | None


_STATES: Final = Select(_SQL["standing"], _PartitionedTable)


async def partition_states(executor: Executor) -> Sequence[ArchiveTable]:
    """The state of the partitioned tables."""
    rows = await _STATES.fetch(executor, list(_TABLES))
    return [ArchiveTable(row.parent, row.partitions, row.oldest, row.bytes) for row in rows]
