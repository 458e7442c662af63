"""Query plans of bundles and profiles: deployments, starts of runs and the removal read what they need only."""

from __future__ import annotations

from datetime import UTC, datetime

import asyncpg
import pytest

from streamsched.store.sql import queries

from .conftest import explained

pytestmark = pytest.mark.postgres

FILL = """
INSERT INTO programs SELECT format('default.plain.p%s', n), 'default.plain', '{}', now(), now()
FROM generate_series(1, 5000) n;
INSERT INTO programs SELECT format('default.bundled.p%s', n), 'default.bundled',
    jsonb_build_object('bundle', lpad(to_hex(n % 500), 64, '0'), 'profile', format('x%s', n % 500)), now(), now()
FROM generate_series(1, 5000) n;
INSERT INTO bundles SELECT format('n%s', n % 50), lpad(to_hex(n), 64, '0'), 1, 1, now(), now()
FROM generate_series(1, 5000) n;
INSERT INTO bundles VALUES ('default', repeat('f', 64), 1, 1, '2026-01-01Z', '2026-01-01Z');
INSERT INTO bundle_chunks SELECT namespace, digest, 0, '' FROM bundles;
INSERT INTO spark_profiles SELECT format('n%s', n % 50), format('x%s', n), '{}', '', now()
FROM generate_series(1, 5000) n;
INSERT INTO runs (id, attempt, program, executable, arguments, state, created_at, runner, heartbeat_at)
SELECT format('r%s', n), 1, 'default.plain.p1', '{"type": "bash"}', '{}', 'RUNNING', now(), 'h:1:1', now()
FROM generate_series(1, 5000) n;
INSERT INTO runs (id, attempt, program, executable, arguments, state, created_at, runner, ended_at)
SELECT format('e%s', n), 1, 'default.bundled.p1', jsonb_build_object('bundle', repeat('f', 64)), '{}', 'COMPLETED',
    now(), 'h:1:1', now()
FROM generate_series(1, 20000) n;
"""
OLD = datetime(2026, 2, 1, tzinfo=UTC)
DIGEST = "f" * 64
QUERIES = [
    ("bundles", "use", ("default", DIGEST, datetime(2026, 1, 2, tzinfo=UTC))),
    ("bundles", "chunk", ("default", DIGEST, 0)),
    ("bundles", "list", ("default",)),
    ("bundles", "remove_unused", (OLD,)),
    ("profiles", "effective", ("default", "x7")),
    ("profiles", "get", ("n7", "x7")),
    ("profiles", "list", ("n7",)),
    ("profiles", "users", ("default", "x7")),
    ("profiles", "users", ("*", "x7")),
]


async def test_no_query_of_bundles_or_profiles_reads_what_it_does_not_need(database: str) -> None:
    connection = await asyncpg.connect(database)
    try:
        await connection.execute("SET session_replication_role = replica")
        await connection.execute(FILL)
        await connection.execute("SET session_replication_role = DEFAULT; ANALYZE")
        faults: dict[str, list[str]] = {}
        for file, name, values in QUERIES:
            nodes = await explained(connection, queries(f"programs/{file}")[name], *values)
            found = [
                f"{each['Node Type']} of {each['Relation Name']} reads {read} rows"
                for each in nodes
                if "Relation Name" in each
                and (read := each["Actual Loops"] * (each["Actual Rows"] + each.get("Rows Removed by Filter", 0))) > 200
            ]
            if found:
                faults[f"{file}.{name}{values}"] = found
        assert faults == {}
        assert await connection.fetchval("SELECT count(*) FROM bundles") == 5000  # the removal has removed the old one
    finally:
        await connection.close()
