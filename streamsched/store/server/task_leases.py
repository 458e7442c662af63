"""Leases of partitions of lanes: as those of shards, but the holders are owners of tasks, not workers. A row in
`workers` is a process that runs shards, so the heartbeats of owners are in a table of their own.
"""

from __future__ import annotations

from streamsched.store.connections import Pool
from streamsched.store.expected_time import ExpectedTime
from streamsched.store.server.leases import PostgresLeases


class PostgresTaskLeases(PostgresLeases):
    """See `ports.leases.Leases`."""

    def __init__(self, pool: Pool, *, theirs: ExpectedTime | None = None) -> None:
        super().__init__(pool, theirs=theirs, members="task_owners", names="tasks-%")
