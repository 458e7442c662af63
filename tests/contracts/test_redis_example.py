"""The example of a driver from outside keeps the broker contract too, on a real Redis."""

from __future__ import annotations

import ast
import asyncio
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from compose.ports import free_port
from streamsched.domain.errors import UnavailableError
from streamsched.log.records import records
from streamsched.ports.broker import Outgoing, TopicPartition, TopicSpec
from streamsched.testing.broker_contract import BrokerContract, OpenBroker
from streamsched.testing.broker_contract.harness import fresh_name
from tests.support.services import need_module, need_program

EXAMPLE = Path(__file__).parents[2] / "examples" / "redis_log"


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a Redis server started for this module."""
    need_module("redis", "dev")
    program = need_program("redis-server", "redis-server")
    port = free_port()
    options = ("--bind", "127.0.0.1", "--port", str(port), "--appendonly", "yes", "--appendfsync", "always")
    server = subprocess.Popen(
        (program, *options), cwd=tmp_path_factory.mktemp("redis"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.kill()
        server.wait()


@pytest.mark.long
class TestRedisExample(BrokerContract):
    @pytest.fixture
    def broker(self, redis: str, monkeypatch: pytest.MonkeyPatch) -> OpenBroker:
        monkeypatch.syspath_prepend(str(EXAMPLE))
        from streamsched_redis.driver import open_broker

        return lambda: open_broker(redis)


@pytest.mark.parametrize("options", ["", "?retry_on_timeout=yes"])
async def test_what_redis_took_and_could_not_say_is_not_stored_twice(
    redis: str, monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    """The client library would send it again by itself: a commit that is stored twice, unnoticed."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from streamsched_redis.driver import open_broker

    near = await open_broker(redis)
    at = TopicPartition(fresh_name("topic"), 0)
    await near.create_topics([TopicSpec(at.topic, 1)])
    async with silent_after(redis, b"only once") as url:
        far = await open_broker(url + options)
        with pytest.raises(UnavailableError):
            await far.append([Outgoing(*at, None, b"only once")])
        await far.close()

    assert [record.value async for record in records(near, at)] == [b"only once"]
    await near.close()


@asynccontextmanager
async def silent_after(redis: str, words: bytes) -> AsyncIterator[str]:
    """The same server behind a wire that is cut each time after it has carried these words, before the answer."""
    port = int(redis.rpartition(":")[2].partition("/")[0])

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind = await asyncio.open_connection("127.0.0.1", port)
        try:
            while said := await reader.read(1 << 16):
                behind.write(said)
                answer = await behind_reader.read(1 << 16)
                if words in said:
                    break
                writer.write(answer)
        finally:
            writer.close()
            behind.close()

    server = await asyncio.start_server(carry, "127.0.0.1", 0)
    async with server:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"


def test_it_knows_the_port_and_nothing_else_of_ours() -> None:
    sources = [ast.parse(path.read_text()) for path in EXAMPLE.rglob("*.py")]
    imported = {
        node.module for tree in sources for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
    }

    assert {name for name in imported if name.startswith("streamsched.")} == {
        "streamsched.domain.errors",
        "streamsched.ports.broker",
        "streamsched.ports.clock",
    }
