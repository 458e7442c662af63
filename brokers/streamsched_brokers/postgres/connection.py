"""Connections to the log: the pool, the schema, and the translation of asyncpg's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.ports.broker import OLDER_LOG
from streamsched.process.array_types import declare_arrays
from streamsched.process.first_host import FirstHost
from streamsched_brokers.postgres.sql import queries, schema

#: The version of `schema.sql`, stored as the schema's comment. Increase it in both places with every change there.
VERSION = 4
#: That of release 0.1.0; earlier ones have records that no release reads.
_OLDEST = 3

#: The time limit of a connection.
CONNECT_SECONDS = 10.0

#: The timeout of a statement; afterwards the server counts as unavailable.
STATEMENT_SECONDS = 30.0
#: A connection that was not used for so long is closed: its server process takes 4 MB and more.
IDLE_SECONDS = 30.0

#: Plans must not depend on the age of the statistics: a log grows from nothing to millions of records within a minute,
#: and a plan is cached as long as its connection. The idle timeout releases the lock of a process that was stopped
#: while creating topics.
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
#: Errors of a connection whose session is another one than before.
_LOST_SESSION = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translates asyncpg's errors to those of the port.

    Raises:
        UnavailableError: PostgreSQL cannot be reached, closed the connection, or has no free resources.
        ConfigurationError: PostgreSQL refuses this user, this database or this URL, or it is that of a pooler whose
            connections change their session.
    """
    try:
        yield
    except _LOST_SESSION as exc:
        raise ConfigurationError(
            "the address of the log is a pooler that gives each transaction another session: use its session mode "
            "(PgBouncer: pool_mode = session) or PostgreSQL's own address"
        ) from exc
    except _MISCONFIGURED as exc:
        raise ConfigurationError(f"the log's PostgreSQL refuses this client: {exc}") from exc
    except _AWAY as exc:
        raise UnavailableError(f"the log's PostgreSQL does not answer: {exc or type(exc).__name__}") from exc


async def open_pool(url: str, *, size: int) -> asyncpg.Pool:
    """A pool of at most `size` connections, opened on demand and reopened after the server was unavailable.

    The driver never changes session state, so a released connection is not reset: that would be another round trip.
    """
    return await asyncpg.create_pool(
        url,
        min_size=1,
        max_size=size,
        connect=connector(url),
        init=_prepare_types,
        timeout=CONNECT_SECONDS,
        max_cached_statement_lifetime=0,
        max_inactive_connection_lifetime=IDLE_SECONDS,
        command_timeout=STATEMENT_SECONDS,
        reset=_leave_as_is,
    )


def connector(url: str) -> FirstHost:
    """What connects to the servers that a URL names."""
    return FirstHost(url, asyncpg.connect, _AWAY, SESSION)


async def _prepare_types(connection: PoolConnectionProxy) -> None:
    declare_arrays(connection)


async def _leave_as_is(_: PoolConnectionProxy) -> None: ...


async def prepare(pool: asyncpg.Pool) -> None:
    """Creates the schema, or upgrades it to `VERSION`; one process at a time. A newer schema is not changed: the
    previous release works on it too.

    Raises:
        ConfigurationError: the log is older than release 0.1.0; it is left as it is.
    """
    found = await _version(pool)
    if 0 < found < _OLDEST:
        raise ConfigurationError(OLDER_LOG)
    if found >= VERSION:
        return
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute(queries()["lock_schema"])
        if await _version(connection) < VERSION:
            await connection.execute(schema())


async def _version(connection: asyncpg.Pool | PoolConnectionProxy) -> int:
    return int(await connection.fetchval(queries()["version"]) or 0)
