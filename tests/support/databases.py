"""Databases for tests: copies of one migrated database, which are emptied and used again.

To copy a database of this size costs a test half a second beside another worker, to empty one a tenth of that. A
database is emptied only while it has the schema and the statistics of the original; otherwise it is dropped.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

#: Pages of a table above which its file is given back; the planner takes a smaller table that was never analyzed for
#: one of 10 pages anyway.
_PAGES: Final = 10
_PAGE: Final = 8192
#: Seconds until the connections of a test have ended.
_ENDING: Final = 10

SCHEMA: Final = Path(__file__).with_name("schema_of_database.sql").read_text()
TABLES: Final = """
SELECT c.oid::regclass::text, pg_relation_size(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
"""
SEQUENCES: Final = "SELECT format('%I.%I', schemaname, sequencename), start_value, last_value FROM pg_sequences"


@dataclass(frozen=True, slots=True)
class _Image:
    """What a database holds before a test has it: its schema, the rows of the tables that are not empty, and the last
    values of its sequences.
    """

    schema: tuple[Any, ...]
    rows: Mapping[str, bytes]
    sequences: Mapping[str, tuple[int, int | None]]


class Databases:
    """Gives out databases that equal `template`, each by a name that no test had before."""

    def __init__(self, server: str, template: str) -> None:
        """`server`: URL of the maintenance database. `template`: name of a database without connections."""
        self._server = server
        self._template = template
        self._admin = psycopg.connect(server, autocommit=True)
        self._idle: list[str] = []
        with self._connected(template) as connection:
            self._image = _image(connection)

    def take(self) -> str:
        """The name of a database."""
        if self._idle:
            return self._idle.pop()
        name = _new_name()
        self._run("CREATE DATABASE {} TEMPLATE {}", name, self._template)
        return name

    def give_back(self, name: str) -> None:
        """Ends all connections to the database; who connects by its former name later finds none."""
        self._run("ALTER DATABASE {} ALLOW_CONNECTIONS false", name)
        self._admin.execute(
            "SELECT pg_terminate_backend(pid, %s) FROM pg_stat_activity WHERE datname = %s", (_ENDING * 1000, name)
        )
        renamed = _new_name()
        self._run("ALTER DATABASE {} RENAME TO {}", name, renamed)
        self._run("ALTER DATABASE {} ALLOW_CONNECTIONS true", renamed)
        with self._connected(renamed) as connection:
            same = _emptied(connection, self._image)
        if same:
            self._idle.append(renamed)
        else:
            self._run("DROP DATABASE {} WITH (FORCE)", renamed)

    def close(self) -> None:
        for name in self._idle:
            self._run("DROP DATABASE {} WITH (FORCE)", name)
        self._admin.close()

    def _connected(self, name: str) -> psycopg.Connection:
        return psycopg.connect(self._server.replace("/postgres?", f"/{name}?"))

    def _run(self, statement: str, *names: str) -> None:
        self._admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))  # type: ignore[arg-type]


def _new_name() -> str:
    return f"t_{uuid.uuid4().hex[:12]}"


def _image(connection: psycopg.Connection) -> _Image:
    sizes = dict(connection.execute(TABLES).fetchall())
    rows: dict[str, bytes] = {}
    for table, size in sizes.items():
        if size:
            rows[table] = _rows(connection, table)
    return _Image(_schema(connection), rows, _sequences(connection))


def _rows(connection: psycopg.Connection, table: str) -> bytes:
    with connection.cursor().copy(f"COPY {table} TO STDOUT") as copy:  # type: ignore[arg-type]
        return b"".join(bytes(each) for each in copy)


def _schema(connection: psycopg.Connection) -> tuple[Any, ...]:
    return tuple(connection.execute(SCHEMA).fetchall())  # type: ignore[arg-type]


def _sequences(connection: psycopg.Connection) -> dict[str, tuple[int, int | None]]:
    return {name: (start, last) for name, start, last in connection.execute(SEQUENCES)}


def _emptied(connection: psycopg.Connection, image: _Image) -> bool:
    """Makes the database equal the image, when its schema does. Returns whether it does."""
    if _schema(connection) != image.schema:
        return False
    connection.execute("SET LOCAL session_replication_role = replica")  # no trigger, no foreign key
    sizes = {table: size for table, size in connection.execute(TABLES) if size}
    large = [table for table, size in sizes.items() if size > _PAGES * _PAGE and table not in image.rows]
    if large:
        connection.execute(f"TRUNCATE {', '.join(large)} CASCADE")  # type: ignore[arg-type]
    for table in (sizes.keys() | image.rows.keys()) - set(large):
        rows = image.rows.get(table, b"")
        if not rows or rows != _rows(connection, table):
            connection.execute(f"DELETE FROM {table}")  # type: ignore[arg-type]
            with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:  # type: ignore[arg-type]
                copy.write(rows)
    for name, found in _sequences(connection).items():
        start, last = image.sequences[name]
        if found != (start, last):
            connection.execute("SELECT setval(%s, %s, %s)", (name, start if last is None else last, last is not None))
    return True
