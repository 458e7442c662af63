"""Migrations: repeatable, safe together, and never backwards."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest
import sqlalchemy
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from sqlalchemy.pool import NullPool

from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.store.connections import open_pool
from streamsched.store.server import migrate as migration
from streamsched.store.server.migrate import index_parts, migrate
from streamsched.store.server.revisions import migrations_folder, revisions, revisions_in
from streamsched.store.server.schema import require_schema


def test_migrating_twice_changes_nothing(empty_database: str) -> None:
    migrate(empty_database)
    migrate(empty_database)

    assert "schedules" in tables(empty_database)


def test_several_processes_may_migrate_together(empty_database: str) -> None:
    failures: list[BaseException] = []

    def start() -> None:
        try:
            migrate(empty_database)
        except BaseException as exc:  # noqa: BLE001 - the thread's failure is the test's
            failures.append(exc)

    threads = [threading.Thread(target=start) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert "outbox" in tables(empty_database)


def test_an_index_of_a_partitioned_table_is_built_part_by_part(empty_database: str) -> None:
    migrate(empty_database)
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute("DROP INDEX runs_history_unsuccessful")
        connection.execute("SELECT make_part_v1('runs_history', '2026-01-01Z', '2026-01-02Z')")
        connection.execute("CREATE INDEX runs_history_unsuccessful ON ONLY runs_history (id) WHERE state = 'LOST'")
        # What an interrupted call has left.
        connection.execute("CREATE INDEX runs_history_20260101_unsuccessful ON runs_history_20260101 (state)")
        valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'runs_history_unsuccessful'::regclass"
        assert connection.execute(valid).fetchone() == (False,)

        for _ in range(2):
            engine = sqlalchemy.create_engine(
                "postgresql+psycopg://", creator=lambda: psycopg.connect(empty_database), poolclass=NullPool
            )
            with engine.connect() as bound:
                context = MigrationContext.configure(bound)
                with Operations.context(context), context.begin_transaction(_per_migration=True):
                    index_parts("runs_history_unsuccessful")

        assert connection.execute(valid).fetchone() == (True,)
        connection.execute("SELECT make_part_v1('runs_history', '2026-01-02Z', '2026-01-03Z')")
        parts = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'runs_history_unsuccessful'::regclass"
        assert (
            connection.execute(parts).fetchone()
            == connection.execute(
                "SELECT count(*) FROM pg_inherits WHERE inhparent = 'runs_history'::regclass"
            ).fetchone()
        )


def test_a_database_newer_than_the_code_is_refused(empty_database: str) -> None:
    migrate(empty_database)
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999_pre'")

    with pytest.raises(ConfigurationError, match="9999_pre"):
        migrate(empty_database)


def test_a_database_before_the_first_release_is_refused_and_left_as_it_is(empty_database: str) -> None:
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num text)")
        connection.execute("INSERT INTO alembic_version VALUES ('0134_pre')")
        connection.execute("CREATE TABLE jobs (told text)")

    with pytest.raises(ConfigurationError, match=r"older than release 0\.1\.0 \(schema 0134_pre\) and is left"):
        migrate(empty_database)

    assert tables(empty_database) == {"alembic_version", "jobs"}


def test_the_release_before_works_on_the_schema_of_the_next(
    empty_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a made-up 0002 of the kind that may run before any process is replaced."""
    migrate(empty_database)
    following = tmp_path / "migrations"
    shutil.copytree(migrations_folder(), following)
    (following / "versions" / "0002_pre_colours.sql").write_text(
        "ALTER TABLE schedules ADD COLUMN colour text;\n"
        "CREATE INDEX runs_history_by_colour ON ONLY runs_history ((record ->> 'colour'));\n"
    )
    (following / "versions" / "0002_pre_colours.py").write_text(
        "from streamsched.store.server.migrate import index_parts, run_beside\n"
        'revision = "0002_pre"\n'
        'down_revision = "0001_initial"\n'
        "def upgrade() -> None:\n"
        "    run_beside(__file__, in_transaction=False)\n"
        '    index_parts("runs_history_by_colour")\n'
    )
    with monkeypatch.context() as next_release:
        next_release.setattr(migration, "migrations_folder", lambda: following)
        migrate(empty_database)
        assert "0002_pre" in revisions_in(following).newest

    asyncio.run(accepted(empty_database))
    with pytest.raises(ConfigurationError, match="0002_pre, which this release does not know"):
        migrate(empty_database)


async def accepted(dsn: str) -> None:
    """The schema will do for a process of this release."""
    pool = await open_pool(dsn)
    try:
        await require_schema(pool)
    finally:
        await pool.close()


def test_a_server_that_is_away_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError):
        migrate(f"postgresql://postgres:@/nowhere?host={tmp_path}")


def test_a_migration_that_takes_too_long_elsewhere_is_reported(empty_database: str) -> None:
    with psycopg.connect(empty_database, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(7217493001)")

        with pytest.raises(UnavailableError, match="another process"):
            migrate(empty_database, timeout=0.2)


def test_each_migration_is_a_python_file_beside_its_sql() -> None:
    versions = migrations_folder() / "versions"
    scripts = {path.stem for path in versions.glob("*.py")}
    statements = {path.stem for path in versions.glob("*.sql")}

    assert scripts == statements
    later = sorted(scripts - {"0001_initial"})
    assert [name for name in later if name.split("_")[1] not in {"pre", "post"}] == []


def tables(dsn: str) -> set[str]:
    with psycopg.connect(dsn) as connection:
        return {row[0] for row in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")}


def test_revisions_are_read_as_alembic_reads_them() -> None:
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(migrations_folder()))
    assert revisions().newest == tuple(scripts.get_heads())
    assert revisions().known == {script.revision for script in scripts.walk_revisions()}


def test_a_server_imports_no_alembic() -> None:
    said = "import sys, streamsched.roles.role, streamsched.roles.embedded; sys.exit('alembic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", said], check=False, timeout=60).returncode == 0
