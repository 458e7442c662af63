"""Checks that a database has the schema this release needs."""

from __future__ import annotations

import asyncio

import asyncpg
import structlog

from streamsched.domain.errors import UnavailableError
from streamsched.store.connections import translate_errors
from streamsched.store.server.revisions import BEFORE_FIRST_RELEASE, refusal_of_before, revisions
from streamsched.store.sql import queries

log = structlog.get_logger()

_SQL = queries("server/schema")


async def require_schema(pool: asyncpg.Pool) -> None:
    """Checks that every migration of this release has run. A newer schema is accepted: during an upgrade the previous
    release runs on it (`migrations/README.md`); `migrate` refuses it.

    Raises:
        UnavailableError: a migration has not run yet; `streamsched migrate` runs it.
        ConfigurationError: the migrations of this release are not installed, or the database is older than 0.1.0.
    """
    release = await asyncio.to_thread(revisions)
    found = await stored_revision(pool)
    with translate_errors():
        if found is not None and await pool.fetchval(BEFORE_FIRST_RELEASE):
            raise refusal_of_before(found)
    if found in release.newest:
        return
    if found is not None and found not in release.known:
        log.info("schema.newer", found=found, known=release.newest)
        return
    state = "has no schema yet" if found is None else f"has an older schema ({found})"
    newest = ", ".join(release.newest)
    raise UnavailableError(f"the database {state}; run `streamsched migrate`, which brings it to {newest}")


async def stored_revision(pool: asyncpg.Pool) -> str | None:
    """The revision of a database; None without a schema.

    Raises:
        UnavailableError: PostgreSQL is unavailable.
    """
    with translate_errors():
        return await pool.fetchval(_SQL["revision"]) if await pool.fetchval(_SQL["present"]) else None
