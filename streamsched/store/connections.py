"""Connections to PostgreSQL, their types, and the translation of asyncpg's errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, ParamSpec, TypeVar

import asyncpg
import orjson
from asyncpg.pool import PoolConnectionProxy

from streamsched.domain.errors import ConfigurationError, ConflictError, DecodeError, UnavailableError
from streamsched.domain.limits import LONGEST, add_duration, clamp_instant
from streamsched.process.array_types import declare_arrays
from streamsched.process.first_host import FirstHost
from streamsched.process.tcp_keepalive import TcpKeepalive

_P = ParamSpec("_P")
_R = TypeVar("_R")

_UNAVAILABLE = (
    OSError,
    TimeoutError,
    asyncpg.InternalClientError,  # some calls raise it when their connection is lost
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ReadOnlySQLTransactionError,  # a standby, until the address points to the new primary
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.IdleInTransactionSessionTimeoutError,
)
_OLD_SCHEMA = (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError)
_UNWRITABLE = (
    asyncpg.DataError,  # all of class 22, and a value that asyncpg cannot encode
    asyncpg.ProgramLimitExceededError,  # a key larger than an index accepts, for example
)
#: Errors of a connection whose session is another one than before.
_LOST_SESSION: Final = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)
SESSIONLESS: Final = (
    "the address of the database is a pooler that gives each transaction another session, so locks and notifications "
    "would be lost: use its session mode (PgBouncer: pool_mode = session) or PostgreSQL's own address"
)
_MISCONFIGURED = (
    asyncpg.InvalidCatalogNameError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.ClientConfigurationError,
)


#: Of both ends of a connection.
_KEEPALIVE: Final = TcpKeepalive(idle_s=5, interval_s=2, probes=3, unacknowledged_s=10)
# The server ends the transaction of a process that is paused or disconnected, which would hold its locks.
_SETTINGS: Final = {
    "timezone": "UTC",
    "idle_in_transaction_session_timeout": "10s",
    "application_name": "streamsched",
    "tcp_keepalives_idle": str(_KEEPALIVE.idle_s),
    "tcp_keepalives_interval": str(_KEEPALIVE.interval_s),
    "tcp_keepalives_count": str(_KEEPALIVE.probes),
    "tcp_user_timeout": str(_KEEPALIVE.unacknowledged_s * 1000),
}
_CONNECT_SECONDS: Final = 10.0
_STATEMENT_SECONDS: Final = 60.0
#: A connection that was not used for so long is closed: its server process takes 4 MB and more.
_IDLE_SECONDS: Final = 30.0
#: Seconds between statements of a transaction that computes.
_BREATH_S: Final = 2.0

#: The cursor (time, id) before the first row of a list that starts with the newest.
NEWEST: Final = (datetime.max.replace(tzinfo=UTC), "")

#: The zero of PostgreSQL's timestamps.
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

#: For rooms that pass them on but may not import asyncpg. An `Executor` runs a statement in a transaction of its own (a
#: pool) or in that of the connection.
Pool = asyncpg.Pool
Connection = asyncpg.Connection | PoolConnectionProxy
Executor = Pool | Connection


async def open_pool(dsn: str, *, min_size: int = 1, max_size: int = 8, spans: bool = False) -> Pool:
    """A pool whose connections read and write `jsonb` as Python values and `timestamptz` as aware UTC datetimes.
    `UnavailableError` is raised by a statement after 60 s, and after 10 s without traffic inside a transaction or on a
    broken network. `spans`: jobs and runs that are inserted through it have spans (migration 0088).

    Raises:
        UnavailableError: the server cannot be reached.
        ConfigurationError: it refuses this database or user.
    """
    with translate_errors():
        return await asyncpg.create_pool(
            dsn,
            min_size=min_size,
            max_size=max_size,
            connect=connector(dsn, **({"streamsched.spans": "on"} if spans else {})),
            init=prepare,
            reset=_no_reset,
            timeout=_CONNECT_SECONDS,
            command_timeout=_STATEMENT_SECONDS,
            max_inactive_connection_lifetime=_IDLE_SECONDS,
        )


@asynccontextmanager
async def temporary_pool(dsn: str, *, max_size: int = 1) -> AsyncIterator[Pool]:
    """A pool until the end of the block. Raises as `open_pool`."""
    pool = await open_pool(dsn, max_size=max_size)
    try:
        yield pool
    finally:
        pool.terminate()


async def require_sessions(pool: Pool) -> None:
    """Checks that a connection keeps its session while another one has a transaction. Takes two connections.

    Raises:
        ConfigurationError: the address is that of a pooler whose connections change their session with each
            transaction.
        UnavailableError: the server cannot be reached.
    """
    with translate_errors():
        async with pool.acquire() as one, pool.acquire() as other:
            before = await one.fetchval("SELECT pg_backend_pid()")
            async with other.transaction():
                await other.execute("SELECT")
                if await one.fetchval("SELECT pg_backend_pid()") == before:
                    return
    raise ConfigurationError(SESSIONLESS)


async def check_sessions(url: str) -> None:
    """`require_sessions` of the server at this address."""
    async with temporary_pool(url, max_size=2) as pool:
        await require_sessions(pool)


def connector(dsn: str, **settings: str) -> FirstHost:
    """What connects to the servers that a URL names. `settings`: of each session, beside the usual ones."""
    return FirstHost(dsn, asyncpg.connect, _UNAVAILABLE, {**_SETTINGS, **settings})


async def _no_reset(_connection: Connection) -> None:
    """Saves the round trip of asyncpg's reset: no setting, lock or LISTEN of a pooled connection outlives a
    transaction, and an open transaction is rolled back before this.
    """


async def prepare(connection: Connection) -> None:
    """Sets types, their codecs and network timeouts of a connection."""
    watch(connection)
    of = partial(connection.set_type_codec, schema="pg_catalog")
    await of("jsonb", encoder=_dump, decoder=_load, format="binary")
    await of("timestamptz", encoder=_microseconds, decoder=_instant, format="tuple")
    await of("interval", encoder=_parts, decoder=_duration, format="tuple")
    declare_arrays(connection)


async def compute_meanwhile(
    connection: Connection, compute: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs
) -> _R:
    """What `compute` returns, in a thread, while the transaction of the connection waits. The server ends transactions
    without a statement for 10 s; it gets an empty one every two seconds, as long as this process runs.
    """
    computing = asyncio.ensure_future(asyncio.to_thread(compute, *args, **kwargs))
    try:
        while not (await asyncio.wait((computing,), timeout=_BREATH_S))[0]:
            await connection.execute("SELECT")
    except BaseException:
        computing.cancel()
        raise
    return computing.result()


def watch(connection: Connection) -> None:
    """Sets TCP keepalive and user timeout, so that a connection ends soon after its network breaks."""
    _KEEPALIVE.watch(connection._transport.get_extra_info("socket"))


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translates asyncpg's errors, `from` their cause. Any other error is a bug and passes unchanged.

    Raises:
        UnavailableError: the server is unreachable, out of resources or read-only, or ended this transaction because
            of a deadlock, a serialization failure or a timeout; a retry may help.
        ConfigurationError: database, user or schema are not what this release needs, or the address is that of a pooler
            whose connections change their session.
        ConflictError: a unique constraint refused a row.
        DecodeError: a value cannot be stored: a text with a NUL, a number or a key that is too large.
    """
    try:
        yield
    except _UNAVAILABLE as exc:
        raise UnavailableError(f"PostgreSQL: {exc or type(exc).__name__}") from exc
    except _MISCONFIGURED as exc:
        raise ConfigurationError(f"PostgreSQL: {exc}") from exc
    except _LOST_SESSION as exc:
        raise ConfigurationError(SESSIONLESS) from exc
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
    """The value. For JSON that cannot be parsed (too deep, a number beyond all floats) a text that every codec refuses:
    an error here would fail all rows of the result.
    """
    try:
        return orjson.loads(data[1:])
    except orjson.JSONDecodeError as exc:
        return f"unreadable: {exc}"


def _microseconds(instant: datetime) -> tuple[int]:
    return ((instant - _EPOCH) // _MICROSECOND,)


def _instant(stored: tuple[int]) -> datetime:
    """The instant, clamped to Python's range (infinity too): an error here would fail all rows of the result."""
    try:
        return clamp_instant(_EPOCH + timedelta(microseconds=stored[0]))
    except OverflowError:
        return add_duration(_EPOCH, LONGEST * 10 if stored[0] > 0 else -LONGEST * 10)


def _parts(duration: timedelta) -> tuple[int, int, int]:
    return 0, 0, duration // _MICROSECOND


def _duration(stored: tuple[int, int, int]) -> timedelta:
    """The duration, with months of 30 days as in PostgreSQL's `justify_days`, clamped to Python's range."""
    months, days, microseconds = stored
    try:
        return timedelta(days=30 * months + days, microseconds=microseconds)
    except OverflowError:
        return LONGEST if months + days + microseconds > 0 else -LONGEST
