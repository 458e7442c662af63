"""The pool's types, and the border where PostgreSQL's errors become ours."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from streamsched.domain.errors import ConfigurationError, ConflictError, DecodeError, UnavailableError
from streamsched.store import connections
from streamsched.store.connections import compute_meanwhile, open_pool, translate_errors

_PAUSE = "idle_in_transaction_session_timeout"


async def test_jsonb_comes_back_as_python_values(pool: asyncpg.Pool) -> None:
    value = {"a": [1, 2.5, None, "ü"], "b": {"c": True}}

    assert await pool.fetchval("SELECT $1::jsonb", value) == value


async def test_times_are_aware_utc(pool: asyncpg.Pool) -> None:
    then = datetime(2013, 3, 10, 7, 30, tzinfo=UTC)

    got = await pool.fetchval("SELECT $1::timestamptz", then)

    assert got == then
    assert got.utcoffset().total_seconds() == 0


async def test_a_transaction_that_computes_is_not_idle(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 schedules that a busy machine enabled were 503: the decision took more than ten seconds."""
    monkeypatch.setattr(connections, "_BREATH_S", 0.1)
    computed = threading.Event()

    class Counted(asyncpg.Connection):
        """Ends the computation at the fifth empty statement, which is later than the server waits without one."""

        statements = 0

        async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
            status = await super().execute(query, *args, timeout=timeout)
            self.statements += query == "SELECT"
            if self.statements == 5:
                computed.set()
            return status

    connection = await asyncpg.connect(database, connection_class=Counted)
    async with connection.transaction():
        await connection.execute(f"SET LOCAL {_PAUSE} = '300ms'")
        before = await connection.fetchval("SELECT txid_current()")

        assert await compute_meanwhile(connection, computed.wait, 30)

        assert await connection.fetchval("SELECT txid_current()") == before
    await connection.close()


async def test_what_a_computation_raises_is_raised(pool: asyncpg.Pool) -> None:
    async with pool.acquire() as connection, connection.transaction():
        with pytest.raises(ZeroDivisionError):
            await compute_meanwhile(connection, divmod, 1, 0)


async def test_a_closed_pool_is_unavailable(database: str) -> None:
    pool = await open_pool(database)
    await pool.close()

    with pytest.raises(UnavailableError), translate_errors():
        await pool.fetchval("SELECT 1")


async def test_a_killed_connection_is_unavailable(pool: asyncpg.Pool) -> None:
    async with pool.acquire() as victim:
        await pool.execute("SELECT pg_terminate_backend($1)", victim.get_server_pid())

        with pytest.raises(UnavailableError), translate_errors():
            await victim.fetchval("SELECT 1")


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("25006", "a standby, or a server that was made read-only"),
        ("53100", "no room on its disk"),
        ("53200", "no memory"),
        ("53300", "too many connections"),
        ("57014", "cancelled by an operator, or by a time-out"),
        ("57P01", "shut down"),
        ("57P03", "starting up"),
        ("40P01", "a deadlock"),
    ],
)
async def test_a_server_that_cannot_just_now_is_unavailable(pool: asyncpg.Pool, code: str, what: str) -> None:
    with pytest.raises(UnavailableError, match="PostgreSQL"), translate_errors():
        await pool.execute(f"DO $$ BEGIN RAISE EXCEPTION '{what}' USING ERRCODE = '{code}'; END $$")


async def test_a_second_row_of_one_key_is_a_conflict(pool: asyncpg.Pool) -> None:
    await pool.execute("INSERT INTO namespaces VALUES ('default', now())")

    with pytest.raises(ConflictError, match="default"), translate_errors():
        await pool.execute("INSERT INTO namespaces VALUES ('default', now())")


async def test_a_database_without_our_schema_is_a_configuration_error(empty_database: str) -> None:
    pool = await open_pool(empty_database)

    with pytest.raises(ConfigurationError, match="schedules"), translate_errors():
        await pool.fetchval("SELECT count(*) FROM schedules")
    await pool.close()


async def test_a_text_that_postgres_cannot_hold_is_the_callers_mistake(pool: asyncpg.Pool) -> None:
    for sql, value in (("SELECT $1::text", "a\0b"), ("SELECT $1::jsonb", {"a": "b\0"})):
        with pytest.raises(DecodeError, match="cannot hold it"), translate_errors():
            await pool.fetchval(sql, value)


async def test_a_bug_in_a_query_is_not_disguised(pool: asyncpg.Pool) -> None:
    with pytest.raises(asyncpg.InterfaceError), translate_errors():
        await pool.fetchval("SELECT $1::int", 1, 2)


async def test_a_server_that_is_away_is_unavailable_to_the_pool(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError):
        await open_pool(f"postgresql://postgres:@/nowhere?host={tmp_path}")


async def test_a_process_stopped_inside_a_transaction_does_not_keep_its_locks(pool: asyncpg.Pool) -> None:
    seconds = await pool.fetchval("SELECT setting::int / 1000 FROM pg_settings WHERE name = $1", _PAUSE)

    assert seconds == 10
    async with pool.acquire() as stopped:
        await stopped.execute(f"SET {_PAUSE} = '1ms'")
        await stopped.execute("BEGIN; LOCK TABLE outbox")
        await pool.execute("INSERT INTO outbox (topic, key) VALUES ('signals', 'a')")  # waits for the lock's end

        with pytest.raises(UnavailableError), translate_errors():
            await stopped.fetchval("SELECT 1")
