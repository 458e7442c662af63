"""Workers as processes, as an installation runs them, each on a core of its own; and what they have to stand on."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import asyncpg
import orjson
import psutil

from bench.town import server
from compose.kafka.cluster import Cluster, free_addresses
from compose.kafka.properties import Shape

WORKER = "from streamsched.cli.main import main; main()"


@dataclass(frozen=True, slots=True)
class Ground:
    """A PostgreSQL server and a Kafka.

    Attributes:
        postgres: URL of the server's maintenance database.
        kafka: where the log is, unless it is in PostgreSQL.
        stock: where a stock Faust app may work.
        beneath: the servers' processes.
    """

    postgres: str
    kafka: Cluster | None
    stock: Cluster | None
    scratch: Path
    beneath: tuple[psutil.Process, ...]

    def log(self, database: str) -> str:
        """URL of an empty log for an installation in that database."""
        return f"{self.kafka.url}?prefix=b{uuid4().hex[:8]}." if self.kafka else database

    def cpu_s(self) -> float:
        """CPU seconds of the servers, and of this process, since they began."""
        return sum(each.user + each.system for each in (process.cpu_times() for process in self._all()))

    def pin(self, cores: Sequence[int]) -> None:
        """The servers and this process, with every thread they have, may use these cores alone."""
        for process in self._all():
            for thread in process.threads():
                with suppress(ProcessLookupError):  # it has just ended
                    os.sched_setaffinity(thread.id, cores)

    def _all(self) -> list[psutil.Process]:
        children = [child for server in self.beneath for child in server.children()]
        return [psutil.Process(), *self.beneath, *children]


@contextmanager
def ground(broker: str, *, stock: bool) -> Iterator[Ground]:
    """Both fresh, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="ss-cluster-", ignore_cleanup_errors=True) as folder, server() as postgres:
        cluster = Cluster(Path(folder) / "kafka", Shape(free_addresses(1)))
        if broker == "kafka" or stock:
            cluster.start()
        beneath = [psutil.Process(asyncio.run(postmaster(postgres)))]
        if (kafka := cluster.pid(1)) is not None:
            beneath.append(psutil.Process(kafka))
        try:
            yield Ground(
                postgres,
                cluster if broker == "kafka" else None,
                cluster if stock else None,
                Path(folder),
                tuple(beneath),
            )
        finally:
            cluster.kill()


async def postmaster(url: str) -> int:
    """Its process id."""
    connection = await asyncpg.connect(url)
    try:
        backend = psutil.Process(await connection.fetchval("SELECT pg_backend_pid()"))
        parent = backend.parent()
        assert parent is not None
        return parent.pid
    finally:
        await connection.close()


@dataclass(slots=True)
class Crew:
    """Worker processes of one installation, by their core."""

    database: str
    log: str
    shards: int
    lease_s: float
    scratch: Path
    running: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    said: dict[int, Path] = field(default_factory=dict)

    def start(self, core: int) -> None:
        """A `streamsched worker`, pinned."""
        self.said[core] = self.scratch / f"worker-{uuid4().hex[:8]}.log"
        with self.said[core].open("wb") as out:
            self.running[core] = subprocess.Popen(
                (sys.executable, "-c", WORKER, "worker"), env=self._environ(), stdout=out, stderr=out
            )
        psutil.Process(self.running[core].pid).cpu_affinity([core])

    def kill(self, core: int) -> None:
        process = self.running.pop(core)
        process.kill()
        process.wait()

    def stop(self) -> None:
        """In good order."""
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait(30)
        self.running.clear()

    def cpu_s(self) -> dict[int, float]:
        """CPU seconds of each worker since it began."""
        times = {core: psutil.Process(process.pid).cpu_times() for core, process in self.running.items()}
        return {core: each.user + each.system for core, each in times.items()}

    def resident_kb(self) -> int:
        """Of all of them."""
        return sum(psutil.Process(process.pid).memory_info().rss for process in self.running.values()) // 1024

    def lines(self, core: int, action: str, since: float) -> list[tuple[float, dict[str, object]]]:
        """What a worker logged of one action from then on, and when, as seconds since the epoch."""
        said = [orjson.loads(line) for line in self.said[core].read_bytes().splitlines() if line.startswith(b"{")]
        found = [(datetime.fromisoformat(line["time"]).timestamp(), line) for line in said if line["action"] == action]
        return [(at, line) for at, line in found if at >= since]

    def shards_of(self, core: int) -> set[int]:
        """The shards a worker runs now."""
        begun: set[int] = set()
        for line in self.said[core].read_bytes().splitlines():
            said = orjson.loads(line) if line.startswith(b"{") else {}
            if said.get("action") == "shard.started":
                begun.add(said["shard"])
            elif said.get("action") in {"shard.let_go", "shard.fenced", "shard.failed"}:
                begun.discard(said["shard"])
        return begun

    def _environ(self) -> dict[str, str]:
        return {
            **os.environ,
            "STREAMSCHED_DATABASE_URL": self.database,
            "STREAMSCHED_BROKER_URL": self.log,
            "STREAMSCHED_SHARDS": str(self.shards),
            "STREAMSCHED_LEASE": f"{self.lease_s}s",
            "STREAMSCHED_LOG_FORMAT": "json",
            "STREAMSCHED_VERDICTS_KEEP": "0",
        }
