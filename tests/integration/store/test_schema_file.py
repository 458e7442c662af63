"""`migrations/schema.sql` is the schema that the migrations make, in one file to read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import psycopg

from streamsched.store.server.migrate import migrate
from streamsched.store.server.revisions import migrations_folder

_READ: Final = (Path(__file__).parents[2] / "support" / "schema_text.sql").read_bytes()
_HEADER: Final = "-- Made from a migrated database by tests/integration/store/test_schema_file.py with UPDATE_DOCS=1.\n"


def test_the_schema_to_read_is_that_of_the_migrations(empty_database: str) -> None:
    migrate(empty_database)
    with psycopg.connect(empty_database) as connection:
        found = connection.execute(_READ).fetchone()
    assert found is not None
    file, made = migrations_folder() / "schema.sql", _HEADER + found[0] + "\n"
    if os.environ.get("UPDATE_DOCS") == "1":
        file.write_text(made)

    assert made == file.read_text()
