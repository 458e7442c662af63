"""Leases of partitions of lanes: as those of shards, but the holders are owners of tasks, not workers."""

from __future__ import annotations

from streamsched.store.connections import Pool
from streamsched.store.server.leases import PostgresLeases
from streamsched.store.sql import queries


class PostgresTaskLeases(PostgresLeases):
    """See `ports.leases.Leases`. Heartbeats are in a table of their own."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self._sql = {**self._sql, **queries("server/task_leases")}
