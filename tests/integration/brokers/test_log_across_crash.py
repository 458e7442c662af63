"""The log when its PostgreSQL dies in the middle of the work and comes back."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest
from streamsched_brokers.postgres.driver import PostgresBroker, open_broker

from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.ports.broker import Outgoing, TopicPartition, TopicSpec
from streamsched.store.server.embedded_server import RunningServer, start_server, stop_server
from streamsched.testing.broker_contract import Tail
from streamsched.testing.broker_contract.harness import numbers

pytestmark = pytest.mark.postgres

AT = TopicPartition("events", 0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    yield start_server(tmp_path / "postgres")
    stop_server(tmp_path / "postgres")


@pytest.fixture
async def broker(server: RunningServer) -> AsyncIterator[PostgresBroker]:
    broker = await open_broker(server.url)
    await broker.create_topics([TopicSpec("events", 1)])
    yield broker
    await broker.close()


def crash(server: RunningServer) -> None:
    """No goodbye: as SIGKILL for the data, but the server's own processes are gone when it returns."""
    postmaster = psutil.Process(int((server.folder / "postmaster.pid").read_text().splitlines()[0]))
    os.kill(postmaster.pid, signal.SIGQUIT)
    psutil.wait_procs([postmaster], timeout=30)


def event(number: int) -> list[Outgoing]:
    return [Outgoing(*AT, None, b"%d" % number)]


async def test_what_was_acknowledged_survives_and_everyone_goes_on(
    server: RunningServer, broker: PostgresBroker
) -> None:
    tail = Tail(await broker.reader({AT: 0}), {AT: 0})
    acknowledged: list[bytes] = []

    async def write() -> None:
        for number in range(1_000_000):
            await broker.append(event(number))
            acknowledged.append(b"%d" % number)

    writing = asyncio.create_task(write())
    await tail.read_until(lambda: len(tail.seen[AT]) >= 50)
    await asyncio.to_thread(crash, server)
    with pytest.raises(UnavailableError):
        await writing
    with pytest.raises(UnavailableError):
        await tail.read_until(lambda: False)
    with pytest.raises(UnavailableError):
        await broker.writer("shard-0")
    with pytest.raises(UnavailableError):
        await broker.ends([AT])
    await asyncio.to_thread(start_server, server.folder)
    await (await broker.writer("shard-0")).commit(event(-1))
    await tail.read_until(lambda: bool(tail.seen[AT]) and tail.seen[AT][-1].value == b"-1")
    values = [record.value for record in tail.seen[AT]]

    # The one append in flight may have been written or not.
    assert values[:-1] in (acknowledged, numbers(0, len(acknowledged) + 1))


async def test_readers_are_woken_again_after_the_server_came_back(
    server: RunningServer, broker: PostgresBroker
) -> None:
    other = await open_broker(server.url)
    tail = Tail(await other.reader({AT: 0}), {AT: 0})
    await tail.read(timeout=0.01)
    await asyncio.to_thread(crash, server)
    await asyncio.to_thread(start_server, server.folder)
    loop, best = asyncio.get_running_loop(), 10.0
    async with asyncio.timeout(20):
        while best > 0.1:
            waiting = asyncio.create_task(tail.read())
            await asyncio.sleep(0.05)
            try:
                await broker.append(event(0))
                acknowledged = loop.time()
                await waiting
                best = min(best, loop.time() - acknowledged)
            except UnavailableError:
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
    await other.close()


async def test_a_server_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError):
        await open_broker(f"postgresql://postgres@/postgres?host={tmp_path}")
    with pytest.raises(UnavailableError):
        await open_broker("postgres://postgres@127.0.0.1:1/postgres")


async def test_a_database_that_is_not_there_is_a_wrong_setting(postgres_server: str) -> None:
    with pytest.raises(ConfigurationError, match="nowhere"):
        await open_broker(postgres_server.replace("/postgres?", "/nowhere?"))
