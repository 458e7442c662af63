"""The example of a driver from outside keeps the broker contract too, on a real Redis where one is installed."""

from __future__ import annotations

import ast
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamsched.testing.broker_contract import BrokerContract, OpenBroker

EXAMPLE = Path(__file__).parents[2] / "examples" / "redis_log"


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a server of our own. An example is no part of the product: without Redis it is passed over, in CI too."""
    pytest.importorskip("redis", reason="pip install redis")
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is missing on this machine")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
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


class TestRedisExample(BrokerContract):
    @pytest.fixture
    def broker(self, redis: str, monkeypatch: pytest.MonkeyPatch) -> OpenBroker:
        monkeypatch.syspath_prepend(str(EXAMPLE))
        from streamsched_redis.driver import open_broker

        return lambda: open_broker(redis)


def test_it_knows_the_port_and_nothing_else_of_ours() -> None:
    sources = [ast.parse(path.read_text()) for path in EXAMPLE.rglob("*.py")]
    imported = {
        node.module for tree in sources for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
    }

    assert {name for name in imported if name.startswith("streamsched.")} == {
        "streamsched.domain.errors",
        "streamsched.ports.broker",
    }
