"""Which schemas a role begins on."""

from __future__ import annotations

import asyncpg
import pytest

from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.store.server import schema
from streamsched.store.server.revisions import Revisions
from streamsched.store.server.schema import require_schema

pytestmark = pytest.mark.postgres


async def test_the_schema_of_this_release_will_do(pool: asyncpg.Pool) -> None:
    await require_schema(pool)


async def test_an_older_schema_is_waited_for_with_what_to_run(
    pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = Revisions(frozenset({"0001_initial", "0002_pre"}), ("0002_pre",))
    monkeypatch.setattr(schema, "revisions", lambda: newer)

    with pytest.raises(UnavailableError, match=r"older schema \(0001_initial\); run `streamsched migrate`"):
        await require_schema(pool)


@pytest.mark.parametrize("revision", ["0001_initial", "0002_pre", "0099_pre", "0134_pre"])
async def test_a_schema_before_the_first_release_is_refused(pool: asyncpg.Pool, revision: str) -> None:
    await pool.execute("ALTER TABLE jobs RENAME COLUMN command TO told")
    await pool.execute("UPDATE alembic_version SET version_num = $1", revision)

    with pytest.raises(ConfigurationError, match=rf"older than release 0\.1\.0 \(schema {revision}\)"):
        await require_schema(pool)


async def test_a_schema_whose_schedules_have_no_affinity_is_refused(pool: asyncpg.Pool) -> None:
    """Made by code before the first release, of the revision that the release begins with."""
    await pool.execute("ALTER TABLE schedules RENAME COLUMN affinity TO place")

    with pytest.raises(ConfigurationError, match=r"older than release 0\.1\.0 \(schema 0001_initial\)"):
        await require_schema(pool)


async def test_a_first_migration_that_is_under_way_is_waited_for(pool: asyncpg.Pool) -> None:
    await pool.execute("DELETE FROM alembic_version")

    with pytest.raises(UnavailableError, match="no schema yet"):
        await require_schema(pool)


async def test_a_newer_schema_is_that_of_an_upgrade_under_way(pool: asyncpg.Pool) -> None:
    await pool.execute("UPDATE alembic_version SET version_num = '9999_pre'")

    await require_schema(pool)
