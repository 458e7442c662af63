"""Connections to the log: a small pool, the schema, and asyncpg's errors in our words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched_brokers.postgres.sql import queries, schema

#: What `schema.sql` makes; kept as the schema's comment. Raise it in both places with every change there.
VERSION = 1

#: A statement that takes longer has lost its server.
STATEMENT_SECONDS = 30.0

#: Plans must not depend on when the statistics were last gathered: a log grows from nothing to millions within a
#: minute, and a plan is kept as long as its connection. And a process that is stopped while it makes topics must not
#: keep the others from it.
SESSION = {
    "application_name": "streamsched log",
    "default_transaction_isolation": "read committed",
    "idle_in_transaction_session_timeout": "10s",
    "enable_bitmapscan": "off",
    "enable_seqscan": "off",
    "jit": "off",
    "work_mem": "32MB",
}

_AWAY = (
    OSError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
    asyncpg.PostgresConnectionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.DeadlockDetectedError,
    asyncpg.ReadOnlySQLTransactionError,
)
_MISCONFIGURED = (
    asyncpg.ClientConfigurationError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
)


@contextmanager
def translated() -> Iterator[None]:
    """What goes wrong between us and PostgreSQL, as the port's errors.

    Raises:
        UnavailableError: it cannot be reached, went away, or has no room now.
        ConfigurationError: it refuses this user, this database or this URL.
    """
    try:
        yield
    except _MISCONFIGURED as exc:
        raise ConfigurationError(f"the log's PostgreSQL refuses us: {exc}") from exc
    except _AWAY as exc:
        raise UnavailableError(f"the log's PostgreSQL does not answer: {exc or type(exc).__name__}") from exc


async def open_pool(url: str, *, size: int) -> asyncpg.Pool:
    """At most `size` connections, opened as they are needed and again after the server was away.

    Nothing the driver does changes a session, so none is reset when it comes back: that would be a round trip more.
    """
    return await asyncpg.create_pool(
        url,
        min_size=1,
        max_size=size,
        max_cached_statement_lifetime=0,
        command_timeout=STATEMENT_SECONDS,
        server_settings=SESSION,
        reset=_leave_as_is,
    )


async def _leave_as_is(_: PoolConnectionProxy) -> None: ...


async def prepare(pool: asyncpg.Pool) -> None:
    """Makes the schema, or brings it up to `VERSION`; one process at a time, and nothing to do as a rule. A newer
    schema is left alone: a process of the last release works on it.
    """
    if await _version(pool) >= VERSION:
        return
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute(queries()["lock_schema"])
        if await _version(connection) < VERSION:
            await connection.execute(schema())


async def _version(connection: asyncpg.Pool | PoolConnectionProxy) -> int:
    return int(await connection.fetchval(queries()["version"]) or 0)
