"""The processes of `bench.tasks`: owners of lanes, and the server that they deliver to.

python -m bench.task_processes owner URL http|worker LEASE_SECONDS
python -m bench.task_processes server          prints its port
"""

from __future__ import annotations

import asyncio
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Final

import asyncpg
import uvloop

from streamsched.config import Settings
from streamsched.domain.addresses import LOOPBACK
from streamsched.ports.clock import SystemClock
from streamsched.ports.leases import LeaseHolder
from streamsched.process.memory import configure_memory
from streamsched.roles.launcher import make_task_delivery
from streamsched.store.connections import open_pool
from streamsched.store.server.notifier import PostgresNotifier
from streamsched.tasks.worker_streams import WorkerStreams

#: Tasks that the worker of an owner takes at a time.
CREDIT: Final = 2000
QUEUE: Final = "bench"
_OK: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


async def own(url: str, kind: str, lease_s: float) -> None:
    """Owns lanes until killed; `worker`: with a worker in the same process, which acknowledges at once."""
    configure_memory()
    pool, notifier, clock = await open_pool(url, min_size=2, max_size=12), PostgresNotifier(url), SystemClock()
    me = LeaseHolder(f"bench-{os.getpid()}", platform.node(), os.getpid())
    delivery = make_task_delivery(
        pool,
        notifier,
        me,
        clock,
        Settings.from_env({}, database_url=url, lease=timedelta(seconds=lease_s), outgoing_networks=LOOPBACK),
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(delivery.loop.run())
        if kind == "worker":
            group.create_task(work(delivery.workers))


async def work(workers: WorkerStreams) -> None:
    """A connected worker that acknowledges each task at once."""
    with workers.connect([QUEUE], credit=CREDIT) as stream:
        while True:
            stream.acknowledge((await stream.next_task()).token)


class _Answering(asyncio.Protocol):
    """Answers each request with 200 when all of it has arrived."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._unread = b""

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while True:
            head, end, rest = self._unread.partition(b"\r\n\r\n")
            at = head.lower().find(b"content-length: ")
            length = 0 if at < 0 else int(head[at + 16 :].split(b"\r\n", 1)[0])
            if not end or len(rest) < length:
                return
            self._unread = rest[length:]
            self._transport.write(_OK)


async def serve() -> None:
    """Serves until killed."""
    server = await asyncio.get_running_loop().create_server(_Answering, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def run_process(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process of this module, killed at the end of the block."""
    command = (sys.executable, "-m", "bench.task_processes", *(str(each) for each in arguments))
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()


@contextmanager
def product_process(url: str, *command: str, **settings: object) -> Iterator[None]:
    """`streamsched COMMAND` with these settings, each by its name in lower case, and a folder for its data."""
    with tempfile.TemporaryDirectory(prefix="ss-bench-") as folder:
        given = {"database_url": url, "data_dir": folder, "log_level": "error", **settings}
        env = {name: value for name, value in os.environ.items() if not name.startswith("STREAMSCHED_")}
        env |= {f"STREAMSCHED_{name.upper()}": str(value) for name, value in given.items()}
        cli = (sys.executable, "-c", "from streamsched.cli.main import main; main()", *command)
        process = subprocess.Popen(cli, env=env, stdout=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.terminate()
            process.wait()


@contextmanager
def far_server() -> Iterator[str]:
    """URL of a server in a process of its own."""
    with run_process("server") as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/"


async def owners_ready(pool: asyncpg.Pool, many: int) -> None:
    """Returns when so many processes share all partitions."""
    question = (
        "SELECT count(*) = 16 AND count(DISTINCT owner) = $1 FROM leases "
        "WHERE name LIKE 'tasks-%' AND expires_at > now() AND owner LIKE 'bench-%'"
    )
    async with asyncio.timeout(60):
        while not await pool.fetchval(question, many):
            await asyncio.sleep(0.05)


def main() -> None:
    kind, *arguments = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if kind == "server":
            runner.run(serve())
        else:
            url, target, lease_s = arguments
            runner.run(own(url, target, float(lease_s)))


if __name__ == "__main__":
    main()
