"""`migrations/schema.sql` is the schema that the migrations make, in one file to read."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import psycopg

from streamsched.store.server.migrate import migrate
from streamsched.store.server.revisions import migrations_folder
from tests.support.made_files import assert_written

_READ: Final = (Path(__file__).parents[2] / "support" / "schema_text.sql").read_bytes()
_HEADER: Final = "-- Made from a migrated database by tests/integration/store/test_schema_file.py with UPDATE_DOCS=1.\n"


def test_the_schema_to_read_is_that_of_the_migrations(empty_database: str) -> None:
    migrate(empty_database)
    with psycopg.connect(empty_database) as connection:
        found = connection.execute(_READ).fetchone()
    assert found is not None

    assert_written(migrations_folder() / "schema.sql", f"{_HEADER}{found[0]}\n", "this test with UPDATE_DOCS=1")
