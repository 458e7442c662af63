"""Which schemas a role begins on."""

from __future__ import annotations

import asyncpg
import pytest

from streamsched.domain.errors import UnavailableError
from streamsched.store.server.schema import require_schema

pytestmark = pytest.mark.postgres


async def test_the_schema_of_this_release_will_do(pool: asyncpg.Pool) -> None:
    await require_schema(pool)


async def test_an_older_schema_is_waited_for_with_what_to_run(pool: asyncpg.Pool) -> None:
    await pool.execute("UPDATE alembic_version SET version_num = '0002_pre'")

    with pytest.raises(UnavailableError, match=r"older schema \(0002_pre\); run `streamsched migrate`"):
        await require_schema(pool)


async def test_a_first_migration_that_is_under_way_is_waited_for(pool: asyncpg.Pool) -> None:
    await pool.execute("DELETE FROM alembic_version")

    with pytest.raises(UnavailableError, match="no schema yet"):
        await require_schema(pool)


async def test_a_newer_schema_is_that_of_an_upgrade_under_way(pool: asyncpg.Pool) -> None:
    await pool.execute("UPDATE alembic_version SET version_num = '9999_pre'")

    await require_schema(pool)
