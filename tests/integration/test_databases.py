"""The databases of tests: one that was used has nothing of the test that used it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from streamsched.testing.databases import SEQUENCES, TABLES, Databases

pytestmark = pytest.mark.postgres

USED = """
INSERT INTO outbox (topic, key, value) SELECT 'topic', 'key', repeat('x', 1000)::bytea FROM generate_series(1, 2000);
INSERT INTO streamsched_log.topic (name, partitions, cleanup) VALUES ('kept', 1, 'compact');
INSERT INTO preferences (namespace, arguments, changed_at) VALUES ('sales', '{}', now());
UPDATE task_layout SET partitions = partitions + 1;
DELETE FROM task_partitions;
"""


@pytest.fixture
def ours(postgres_server: str, template_database: str) -> Iterator[Databases]:
    with closing(Databases(postgres_server, template_database)) as ours:
        yield ours


def held(server: str, name: str) -> dict[str, object]:
    """All rows of all tables, and the sequences."""
    with psycopg.connect(server.replace("/postgres?", f"/{name}?")) as connection:
        tables = [table for table, _ in connection.execute(TABLES)]
        rows = {each: sorted(map(repr, connection.execute(f"SELECT * FROM {each}"))) for each in tables}  # type: ignore[arg-type]
        return {**rows, "sequences": sorted(connection.execute(SEQUENCES))}


def test_a_used_database_is_given_out_as_it_was(postgres_server: str, ours: Databases) -> None:
    first = ours.take()
    fresh = held(postgres_server, first)
    with psycopg.connect(postgres_server.replace("/postgres?", f"/{first}?"), autocommit=True) as left_open:
        left_open.execute(USED)
        assert held(postgres_server, first) != fresh
        ours.give_back(first)
        with pytest.raises(psycopg.OperationalError):
            left_open.execute("SELECT 1")

    second = ours.take()
    assert held(postgres_server, second) == fresh
    assert second != first
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(postgres_server.replace("/postgres?", f"/{first}?"))


@pytest.mark.parametrize(
    "changed",
    [
        "ALTER TABLE outbox RENAME TO gone",
        "CREATE INDEX another ON outbox (key)",
        "ALTER TABLE audit DISABLE TRIGGER ALL",
        "ALTER TABLE outbox ALTER COLUMN key DROP NOT NULL",
        "INSERT INTO outbox (topic, key, value) VALUES ('t', 'k', 'v'); ANALYZE outbox",
    ],
)
def test_a_database_of_another_schema_or_with_statistics_is_dropped(
    postgres_server: str, ours: Databases, changed: str
) -> None:
    name = ours.take()
    with psycopg.connect(postgres_server.replace("/postgres?", f"/{name}?"), autocommit=True) as connection:
        connection.execute(changed)  # type: ignore[arg-type]
        before = connection.execute("SELECT oid FROM pg_database WHERE datname = %s", (name,)).fetchone()
    ours.give_back(name)

    with psycopg.connect(postgres_server) as admin:
        assert admin.execute("SELECT 1 FROM pg_database WHERE oid = %s", before).fetchone() is None
