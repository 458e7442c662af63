"""Tables that are partitioned by time, in partitions of minutes instead of hours, days and months: for trials that see
them dropped.
"""

from __future__ import annotations

from typing import Final

import psycopg

#: The definition of the function that makes a partition, which names it by the hour in which it begins.
_MAKES: Final = "SELECT replace(pg_get_functiondef('make_one_part_v1'::regproc), 'DDHH24', 'DDHH24MI')"
#: Those that the migration made ahead, by days and months. What is written meanwhile goes to the default partitions.
_AHEAD: Final = """
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE pg_get_expr(c.relpartbound, c.oid) LIKE 'FOR VALUES FROM%'
"""


def make_partitions_short(database: str) -> None:
    """Of a migrated database in which nothing has happened; several processes may do so at a time."""
    with psycopg.connect(database) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(1)")
        found = connection.execute(_MAKES).fetchone()
        assert found is not None
        definition: str = found[0]
        if "MIMI" in definition:  # another has done so
            return
        connection.execute(definition.encode())
        for (name,) in connection.execute(_AHEAD).fetchall():
            connection.execute(f"DROP TABLE {name}".encode())
