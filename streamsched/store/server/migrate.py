"""Upgrades a database's schema to the newest revision of this release."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import sqlalchemy
import structlog
from alembic import command, op
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.store.server.revisions import BEFORE_FIRST_RELEASE, migrations_folder, refusal_of_before

log = structlog.get_logger()

# One advisory lock per database for all releases: its number is arbitrary and must never change.
_LOCK = 7_217_493_001
# For each server that the URL names.
_CONNECT_S = 5
# The parts of an index's table that have no index of its own yet, with the name of theirs and what it is of.
_PARTS_WITHOUT = """
SELECT p.inhrelid::regclass::text, replace(%(index)s, i.indrelid::regclass::text, p.inhrelid::regclass::text),
    substring(pg_get_indexdef(i.indexrelid) FROM ' (USING .*)$')
FROM pg_index i JOIN pg_inherits p ON p.inhparent = i.indrelid
WHERE i.indexrelid = %(index)s::text::regclass AND NOT EXISTS (
    SELECT FROM pg_inherits a JOIN pg_index of_part ON of_part.indexrelid = a.inhrelid
    WHERE a.inhparent = i.indexrelid AND of_part.indrelid = p.inhrelid
)
ORDER BY 1
"""


def migrate(dsn: str, *, timeout: float = 60.0) -> None:
    """Runs every migration the database at `dsn` (a libpq URL) does not have yet. Blocks: in a loop, use a thread.

    Idempotent. Several processes may call it at a time: one migrates, the others wait up to `timeout` seconds.

    Raises:
        ConfigurationError: the database is newer than this release, or older than release 0.1.0, or the migrations are
            not installed.
        UnavailableError: the database cannot be reached, or another process migrates for longer than `timeout`.
    """
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    scripts = ScriptDirectory.from_config(config)
    try:
        with _migration_lock(dsn, timeout):
            engine = sqlalchemy.create_engine(
                "postgresql+psycopg://",
                creator=lambda: psycopg.connect(dsn, connect_timeout=_CONNECT_S),
                poolclass=NullPool,
            )
            with engine.connect() as connection:
                before = MigrationContext.configure(connection).get_current_heads()
                if connection.exec_driver_sql(BEFORE_FIRST_RELEASE).scalar_one():
                    raise refusal_of_before(", ".join(before))
                _refuse_newer(before, scripts)
                connection.rollback()
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
    except (psycopg.OperationalError, OperationalError) as exc:
        raise UnavailableError(f"the database cannot be migrated now: {exc}") from exc
    after = tuple(scripts.get_heads())
    if before != after:
        log.info("schema.migrated", before=before, after=after)


def run_beside(script: str, *, in_transaction: bool = True) -> None:
    """Runs the SQL file beside a migration's `__file__`, verbatim: `%` and `:name` are not placeholders. Outside a
    transaction each statement is run alone; it ends with a semicolon at the end of a line.
    """
    text = Path(script).with_suffix(".sql").read_text(encoding="utf-8")
    connection = op.get_bind()
    if in_transaction:
        _execute(connection, text)
        return
    with op.get_context().autocommit_block():
        for statement in filter(str.strip, re.split(r";[ \t]*\n", text)):
            _execute(connection, statement)


def index_parts(index: str) -> None:
    """Builds an index that was made `ON ONLY` a partitioned table on each part that has none, beside writers.

    Idempotent. What an interrupted call left unattached is built again.
    """
    connection = op.get_bind()
    with op.get_context().autocommit_block():
        for part, name, definition in connection.exec_driver_sql(_PARTS_WITHOUT, {"index": index}).all():
            _execute(connection, f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
            _execute(connection, f"CREATE INDEX CONCURRENTLY {name} ON {part} {definition}")
            _execute(connection, f"ALTER INDEX {index} ATTACH PARTITION {name}")


def _execute(connection: sqlalchemy.Connection, text: str) -> None:
    connection.exec_driver_sql(text, execution_options={"no_parameters": True})


def _refuse_newer(heads: tuple[str, ...], scripts: ScriptDirectory) -> None:
    known = {script.revision for script in scripts.walk_revisions()}
    unknown = sorted(set(heads) - known)
    if unknown:
        raise ConfigurationError(
            f"the database's schema is at {', '.join(unknown)}, which this release does not know: install a newer one"
        )


@contextmanager
def _migration_lock(dsn: str, timeout: float) -> Iterator[None]:
    """Holds the migration lock. It is polled: a waiting statement would hold a snapshot, for whose end
    `CREATE INDEX CONCURRENTLY` in the process that migrates would wait indefinitely.
    """
    deadline = time.monotonic() + timeout
    with psycopg.connect(dsn, autocommit=True, connect_timeout=_CONNECT_S) as guard:
        while not _try_lock(guard):
            if time.monotonic() >= deadline:
                raise UnavailableError(f"another process has been migrating the database for {timeout:g} s")
            time.sleep(0.1)
        yield  # the lock ends with the connection


def _try_lock(guard: psycopg.Connection) -> bool:
    row = guard.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK,)).fetchone()
    return row is not None and bool(row[0])
