"""Checks that a database has the schema this release needs."""

from __future__ import annotations

import asyncio

import asyncpg
import structlog
from alembic.script import ScriptDirectory

from streamsched.domain.errors import UnavailableError
from streamsched.store.connections import translated
from streamsched.store.server.migrate import migrations_folder
from streamsched.store.sql import queries

log = structlog.get_logger()

_SQL = queries("server/schema")


async def require_schema(pool: asyncpg.Pool) -> None:
    """Checks that every migration of this release has run. A newer schema is accepted: during an upgrade the previous
    release runs on it (`migrations/README.md`); `migrate` refuses it.

    Raises:
        UnavailableError: a migration has not run yet; `streamsched migrate` runs it.
        ConfigurationError: the migrations of this release are not installed.
    """
    scripts = await asyncio.to_thread(ScriptDirectory, str(migrations_folder()))
    wanted = scripts.get_heads()
    with translated():
        found = None
        if await pool.fetchval(_SQL["present"]):
            found = await pool.fetchval(_SQL["revision"])
    if found in wanted:
        return
    known = {script.revision for script in scripts.walk_revisions()}
    if found is not None and found not in known:
        log.info("schema.newer", found=found, known=wanted)
        return
    state = "has no schema yet" if found is None else f"has an older schema ({found})"
    raise UnavailableError(f"the database {state}; run `streamsched migrate`, which brings it to {', '.join(wanted)}")
