"""A URL of several PostgreSQL servers: one that is cut off keeps no other from being reached."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import pytest

from streamsched.domain.errors import UnavailableError
from streamsched.log.drivers import open_broker
from streamsched.process.first_host import hosts_of
from streamsched.store.connections import open_pool
from streamsched.store.server.migrate import migrate
from streamsched.store.server.notifier import PostgresNotifier


@asynccontextmanager
async def silent() -> AsyncIterator[tuple[int, list[int]]]:
    """A server that takes connections and answers nothing: its port, and an entry for each connection."""
    came: list[int] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(1)
        await reader.read(1)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], came
    finally:
        server.close()


def beside(database: str, port: int) -> str:
    """The URL of both, the silent one first."""
    parts = urlsplit(database)
    folder = parse_qs(parts.query)["host"][0]
    query = f"host=127.0.0.1,{folder}&port={port},5432&target_session_attrs=read-write"
    return f"postgresql://postgres@{parts.path}?{query}"


def test_hosts_are_those_of_the_url() -> None:
    assert hosts_of("postgresql://one/db") == []
    assert hosts_of("postgresql:///db?host=/run/one") == []
    assert hosts_of("postgresql://user:p%40ss@one,[::1]:6/db") == [("one", 5432), ("::1", 6)]


@pytest.mark.postgres
async def test_a_silent_server_costs_its_share_of_the_time_once(database: str) -> None:
    async with silent() as (port, came):
        url = beside(database, port)
        pool = await open_pool(url, max_size=3)
        try:
            connections = [await pool.acquire() for _ in range(3)]
            assert len(came) == 1, "the one that was reached is asked first"
            for each in connections:
                await pool.release(each)
        finally:
            await pool.close()


@pytest.mark.postgres
async def test_the_notifier_the_log_and_migrations_reach_the_other_too(database: str) -> None:
    async with silent() as (port, came):
        url = beside(database, port)
        notifier = PostgresNotifier(url)
        async with notifier.listen("anything"):
            pass
        await notifier.close()
        broker = await open_broker(url)
        await broker.close()
        await asyncio.to_thread(migrate, url)
        assert len(came) >= 3


@pytest.mark.postgres
async def test_without_any_server_it_is_unavailable() -> None:
    with pytest.raises(UnavailableError):
        await open_pool("postgresql://postgres@127.0.0.1:1,127.0.0.1:2/none?target_session_attrs=read-write")
