"""A real PgBouncer between the scheduler and PostgreSQL: its session mode serves, its transaction mode is refused."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest
from streamsched_brokers.postgres.connection import translate_errors as translate_broker_errors

from compose.ports import free_port
from streamsched.config import Settings
from streamsched.domain.errors import ConfigurationError
from streamsched.log.drivers import open_broker
from streamsched.log.topics import SIGNALS
from streamsched.ports.broker import TopicPartition, TopicSpec
from streamsched.roles.access import create_token_directly
from streamsched.roles.services import open_services
from streamsched.store.connections import open_pool, require_sessions, temporary_pool, translate_errors
from streamsched.store.server.notifier import PostgresNotifier
from tests.support.services import need_program

pytestmark = pytest.mark.postgres


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that another user may enter."""
    with tempfile.TemporaryDirectory(prefix="ss-pgbouncer-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def settings(database: str, mode: str, port: int, folder: Path) -> Path:
    file, host = folder / "pgbouncer.ini", parse_qs(urlsplit(database).query)["host"][0]
    file.write_text(
        f"[databases]\n* = host={host} user=postgres\n[pgbouncer]\nauth_type = any\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\npool_mode = {mode}\n"
    )
    return file


@asynccontextmanager
async def pooler(database: str, mode: str, folder: Path) -> AsyncIterator[str]:
    """The URL of the database through a PgBouncer of its own."""
    program, port = need_program("pgbouncer", "pgbouncer"), free_port()
    identity: dict[str, Any] = {}
    if os.geteuid() == 0:  # it refuses to be root; the server's socket is for the user of the server
        identity = {"user": "pgserver", "group": "pgserver", "extra_groups": ()}
    process = await asyncio.create_subprocess_exec(
        program, "-q", str(settings(database, mode, port, folder)), **identity
    )
    try:
        async with asyncio.timeout(20):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    assert process.returncode is None
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    break
        yield f"postgresql://postgres@127.0.0.1:{port}{urlsplit(database).path}"
    finally:
        process.terminate()
        await process.wait()


async def test_transaction_mode_is_refused_in_one_sentence(database: str, folder: Path) -> None:
    async with pooler(database, "transaction", folder) as url:
        with pytest.raises(ConfigurationError, match="pool_mode = session") as refused:
            async with temporary_pool(url, max_size=2) as pool:
                await require_sessions(pool)

    assert "\n" not in str(refused.value)


async def test_each_way_in_says_it_in_one_sentence(database: str, folder: Path) -> None:
    """Commands that ask the database directly, and the log at an address of its own."""
    async with pooler(database, "transaction", folder) as url:
        said: list[str] = []
        for reach in (
            partial(create_token_directly, url, {"name": "x", "grants": [{"role": "admin"}]}, by="test"),
            partial(_open_services, Settings.from_env({}, database_url=database, broker_url=url)),
        ):
            with pytest.raises(ConfigurationError, match="pool_mode = session") as refused:
                await reach()
            said.append(str(refused.value))

    assert not any("\n" in each for each in said)


async def _open_services(settings: Settings) -> None:
    async with open_services(settings):
        pass


@pytest.mark.parametrize("translating", [translate_errors, translate_broker_errors])
def test_a_session_that_is_another_one_is_named(translating: Callable[[], AbstractContextManager[None]]) -> None:
    """A process that was not checked finds out by its prepared statements."""
    for lost in asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError:
        with pytest.raises(ConfigurationError, match="pool_mode = session"), translating():
            raise lost("prepared statement")


async def test_session_mode_keeps_settings_locks_and_notifications(database: str, folder: Path) -> None:
    async with pooler(database, "session", folder) as url:
        pool, notifier = await open_pool(url, max_size=3), PostgresNotifier(url)
        try:
            await require_sessions(pool)
            assert await pool.fetchval("SHOW idle_in_transaction_session_timeout") == "10s"
            async with notifier.listen("c") as heard:
                await pool.execute("NOTIFY c")
                assert await heard.wait(20)
            async with pool.acquire() as one, pool.acquire() as other:
                await one.execute("SELECT pg_advisory_lock(1)")
                assert not await other.fetchval("SELECT pg_try_advisory_lock(1)")
        finally:
            await notifier.close()
            await pool.close()


async def test_the_log_is_written_and_read_through_session_mode(database: str, folder: Path) -> None:
    async with pooler(database, "session", folder) as url:
        broker = await open_broker(url)
        try:
            await broker.create_topics([TopicSpec(SIGNALS, 1)])
            assert await broker.ends([TopicPartition(SIGNALS, 0)]) == {TopicPartition(SIGNALS, 0): 0}
        finally:
            await broker.close()
