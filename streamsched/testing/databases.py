"""Databases for tests: copies of one migrated database, which are emptied and used again, of a server of their own.

To copy a database of this size costs a test half a second beside another worker, to empty one a tenth of that. A
database is emptied only while it has the schema and the statistics of the original; otherwise it is dropped.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, LiteralString

import psycopg
from psycopg import sql

#: Pages of a table above which its file is given back; the planner takes a smaller table that was never analyzed for
#: one of 10 pages anyway.
_PAGES: Final = 10
_PAGE: Final = 8192
#: Seconds until the connections of a test have ended.
_ENDING: Final = 10

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
        with self._connect(template) as connection:
            self._image = _image(connection)

    @contextmanager
    def lend(self) -> Iterator[str]:
        """URL of a database that nobody else has, until the end of the block."""
        name = self.take()
        try:
            yield self._url(name)
        finally:
            self.give_back(name)

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
        with self._connect(renamed) as connection:
            same = _empty(connection, self._image)
        if same:
            self._idle.append(renamed)
        else:
            self._run("DROP DATABASE {} WITH (FORCE)", renamed)

    def close(self) -> None:
        """Drops the databases that nobody has."""
        for name in self._idle:
            self._run("DROP DATABASE {} WITH (FORCE)", name)
        self._admin.close()

    def _connect(self, name: str) -> psycopg.Connection:
        return psycopg.connect(self._url(name))

    def _url(self, name: str) -> str:
        return self._server.replace("/postgres?", f"/{name}?")

    def _run(self, statement: LiteralString, *names: str) -> None:
        self._admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


@contextmanager
def open_databases() -> Iterator[Databases]:
    """Databases with the schema, of `open_server`, until the end of the block. To begin takes seconds: once for all
    tests.
    """
    from streamsched.store.server.migrate import migrate  # noqa: PLC0415 - only for who needs a database

    with (
        open_server() as server,
        open_template(server, migrate) as template,
        closing(Databases(server, template)) as databases,
    ):
        yield databases


@contextmanager
def open_server() -> Iterator[str]:
    """URL of the maintenance database of a PostgreSQL server: of the one that the variable STREAMSCHED_TEST_POSTGRES
    names, else of an embedded one, which is stopped and removed afterwards.

    The embedded one waits for no disk, which takes most of the time of a commit, and analyzes no table by itself, which
    would change plans in the middle of a test. So it is not for tests that kill it.
    """
    if given := os.environ.get("STREAMSCHED_TEST_POSTGRES"):
        yield given
        return
    from streamsched.store.server.embedded_server import start_server, stop_server  # noqa: PLC0415 - as above

    with tempfile.TemporaryDirectory(prefix="ss-pg-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary) / "pg"
        url = start_server(folder).url
        try:
            with psycopg.connect(url, autocommit=True) as admin:
                off = [f"{each} = off" for each in ("fsync", "full_page_writes", "autovacuum")]
                for setting in (*off, "max_wal_size = '2GB'", "checkpoint_timeout = '1h'"):
                    admin.execute(f"ALTER SYSTEM SET {setting}".encode())
                admin.execute("SELECT pg_reload_conf()")
            yield url
        finally:
            stop_server(folder)


@contextmanager
def open_template(server: str, prepare: Callable[[str], object]) -> Iterator[str]:
    """Name of a database without connections, for `Databases`; dropped afterwards. `prepare` is given its URL."""
    name = f"template_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"'.encode())
        try:
            prepare(server.replace("/postgres?", f"/{name}?"))
            yield name
        finally:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


def _new_name() -> str:
    return f"t_{uuid.uuid4().hex[:12]}"


@cache
def _schema_query() -> bytes:
    return files("streamsched.testing").joinpath("schema_of_database.sql").read_bytes()


def _image(connection: psycopg.Connection) -> _Image:
    sizes = dict(connection.execute(TABLES).fetchall())
    rows: dict[str, bytes] = {}
    for table, size in sizes.items():
        if size:
            rows[table] = _rows(connection, table)
    return _Image(_schema(connection), rows, _sequences(connection))


def _rows(connection: psycopg.Connection, table: str) -> bytes:
    with connection.cursor().copy(f"COPY {table} TO STDOUT".encode()) as copy:
        return b"".join(bytes(each) for each in copy)


def _schema(connection: psycopg.Connection) -> tuple[Any, ...]:
    return tuple(connection.execute(_schema_query()).fetchall())


def _sequences(connection: psycopg.Connection) -> dict[str, tuple[int, int | None]]:
    return {name: (start, last) for name, start, last in connection.execute(SEQUENCES)}


def _empty(connection: psycopg.Connection, image: _Image) -> bool:
    """Makes the database equal the image, when its schema does. Returns whether it does."""
    if _schema(connection) != image.schema:
        return False
    connection.execute("SET LOCAL session_replication_role = replica")  # no trigger, no foreign key
    sizes = {table: size for table, size in connection.execute(TABLES) if size}
    large = [table for table, size in sizes.items() if size > _PAGES * _PAGE and table not in image.rows]
    if large:
        connection.execute(f"TRUNCATE {', '.join(large)} CASCADE".encode())
    for table in (sizes.keys() | image.rows.keys()) - set(large):
        rows = image.rows.get(table, b"")
        if not rows or rows != _rows(connection, table):
            connection.execute(f"DELETE FROM {table}".encode())
            with connection.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
                copy.write(rows)
    for name, found in _sequences(connection).items():
        start, last = image.sequences[name]
        if found != (start, last):
            connection.execute("SELECT setval(%s, %s, %s)", (name, start if last is None else last, last is not None))
    return True
