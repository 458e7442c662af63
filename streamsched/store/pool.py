"""Connections to PostgreSQL, and the border where its errors become ours."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import asyncpg
import orjson

from streamsched.domain.errors import ConfigurationError, ConflictError, DecodeError, UnavailableError

_AWAY = (
    OSError,
    TimeoutError,
    asyncpg.InternalClientError,  # what a call meets whose connection dies under it, in one case of three
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ReadOnlySQLTransactionError,  # a standby, until the addresses point to the new primary
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.IdleInTransactionSessionTimeoutError,
)
_OLD_SCHEMA = (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError)
_UNWRITABLE = (asyncpg.CharacterNotInRepertoireError, asyncpg.UntranslatableCharacterError)
_MISCONFIGURED = (
    asyncpg.InvalidCatalogNameError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.ClientConfigurationError,
)


# A process that is stopped or cut off inside a transaction must not hold its locks for long: the server ends it.
_SETTINGS: Final = {
    "timezone": "UTC",
    "idle_in_transaction_session_timeout": "10s",
    "application_name": "streamsched",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
# The same from our end: without it, what was sent into a cut network is waited for until long after it is healed.
_WATCHED: Final = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 10_000))
_CONNECT_SECONDS: Final = 10.0
_STATEMENT_SECONDS: Final = 60.0

#: What every repository is made of: for whoever only hands it on.
Pool = asyncpg.Pool


async def open_pool(dsn: str, *, min_size: int = 1, max_size: int = 8) -> Pool:
    """A pool whose connections read and write `jsonb` as Python values and `timestamptz` as aware UTC datetimes. A
    statement may take a minute, a pause inside a transaction and a network that is cut ten seconds; then it is
    `UnavailableError`.

    Raises:
        UnavailableError: the server cannot be reached.
        ConfigurationError: it refuses this database or user.
    """
    with translated():
        return await asyncpg.create_pool(
            dsn,
            min_size=min_size,
            max_size=max_size,
            init=prepare,
            reset=_nothing_left,
            server_settings=dict(_SETTINGS),
            timeout=_CONNECT_SECONDS,
            command_timeout=_STATEMENT_SECONDS,
        )


async def _nothing_left(_connection: Any) -> None:
    """Nobody sets, locks or listens for longer than a transaction on a pooled connection, so the round trip that would
    undo it at every return is saved; an open transaction is rolled back before this.
    """


async def prepare(connection: Any) -> None:
    """Teaches a connection our types, and to notice a dead network."""
    watch(connection)
    await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=_dump, decoder=_load, format="binary")


def watch(connection: Any) -> None:
    """The connection ends when the network to the server does. A Unix socket has no network."""
    wire: socket.socket = connection._transport.get_extra_info("socket")
    if wire.family == socket.AF_UNIX:
        return
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _WATCHED:
        if hasattr(socket, name):  # Linux has all of them
            wire.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


@contextmanager
def translated() -> Iterator[None]:
    """Turns asyncpg's errors into ours, `from` their cause. What is left through is a bug and should look like one.

    Raises:
        UnavailableError: the server is away, has no room, takes no writes just now, or gave up on this transaction in
            favour of another; a retry may help.
        ConfigurationError: database, user or schema are not what this release needs.
        ConflictError: a constraint refused a row that is there already.
        DecodeError: a text holds a NUL.
    """
    try:
        yield
    except _AWAY as exc:
        raise UnavailableError(f"PostgreSQL: {exc or type(exc).__name__}") from exc
    except _MISCONFIGURED as exc:
        raise ConfigurationError(f"PostgreSQL: {exc}") from exc
    except _OLD_SCHEMA as exc:
        raise ConfigurationError(f"PostgreSQL: {exc}; `streamsched migrate` brings the schema up to date") from exc
    except _UNWRITABLE as exc:
        raise DecodeError("$", f"PostgreSQL cannot hold it: {exc}") from exc
    except asyncpg.UniqueViolationError as exc:
        raise ConflictError(str(exc.detail or exc)) from exc  # type: ignore[attr-defined]
    except asyncpg.InterfaceError as exc:
        if "clos" in str(exc) or "released" in str(exc):  # closed or closing, connection or pool alike
            raise UnavailableError(f"PostgreSQL: {exc}") from exc
        raise


def _dump(value: object) -> bytes:
    return b"\x01" + orjson.dumps(value)  # jsonb's wire format opens with its version


def _load(data: bytes) -> object:
    return orjson.loads(data[1:])
