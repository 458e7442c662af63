"""Worker processes, each pinned to a core, and the servers they need."""

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

from bench.installation import server
from compose.kafka.cluster import Cluster, free_addresses
from compose.kafka.properties import Shape

WORKER = "from streamsched.cli.main import main; main()"


@dataclass(frozen=True, slots=True)
class Servers:
    """A PostgreSQL server and a Kafka.

    Attributes:
        postgres: URL of the server's maintenance database.
        kafka: the cluster of the log; None if the log is in PostgreSQL.
        stock: the cluster for a stock Faust app, if any.
        processes: the servers' main processes.
    """

    postgres: str
    kafka: Cluster | None
    stock: Cluster | None
    scratch: Path
    processes: tuple[psutil.Process, ...]

    def log(self, database: str) -> str:
        """URL of an empty log for an installation in that database."""
        return f"{self.kafka.url}?prefix=b{uuid4().hex[:8]}." if self.kafka else database

    def cpu_s(self) -> float:
        """CPU seconds of the servers and of this process since their start."""
        return sum(each.user + each.system for each in (process.cpu_times() for process in self._all()))

    def pin(self, cores: Sequence[int]) -> None:
        """Pins all threads of the servers and of this process to these cores."""
        for process in self._all():
            for thread in process.threads():
                with suppress(ProcessLookupError):  # the thread has just ended
                    os.sched_setaffinity(thread.id, cores)

    def _all(self) -> list[psutil.Process]:
        children = [child for server in self.processes for child in server.children()]
        return [psutil.Process(), *self.processes, *children]


@contextmanager
def fresh_servers(broker: str, *, stock: bool) -> Iterator[Servers]:
    """Temporary servers; Kafka only if it is needed."""
    with tempfile.TemporaryDirectory(prefix="ss-cluster-", ignore_cleanup_errors=True) as folder, server() as postgres:
        cluster = Cluster(Path(folder) / "kafka", Shape(free_addresses(1)))
        if broker == "kafka" or stock:
            cluster.start()
        processes = [psutil.Process(asyncio.run(postmaster(postgres)))]
        if (kafka := cluster.pid(1)) is not None:
            processes.append(psutil.Process(kafka))
        try:
            yield Servers(
                postgres,
                cluster if broker == "kafka" else None,
                cluster if stock else None,
                Path(folder),
                tuple(processes),
            )
        finally:
            cluster.kill()


async def postmaster(url: str) -> int:
    """Process id of the PostgreSQL server at this URL."""
    connection = await asyncpg.connect(url)
    try:
        backend = psutil.Process(await connection.fetchval("SELECT pg_backend_pid()"))
        parent = backend.parent()
        assert parent is not None
        return parent.pid
    finally:
        await connection.close()


@dataclass(slots=True)
class WorkerProcesses:
    """Worker processes of one installation, by core."""

    database: str
    log: str
    shards: int
    lease_s: float
    scratch: Path
    running: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    logs: dict[int, Path] = field(default_factory=dict)

    def start(self, core: int) -> None:
        """Starts a `streamsched worker`, pinned to the core."""
        self.logs[core] = self.scratch / f"worker-{uuid4().hex[:8]}.log"
        with self.logs[core].open("wb") as out:
            self.running[core] = subprocess.Popen(
                (sys.executable, "-c", WORKER, "worker"), env=self._environ(), stdout=out, stderr=out
            )
        psutil.Process(self.running[core].pid).cpu_affinity([core])

    def kill(self, core: int) -> None:
        process = self.running.pop(core)
        process.kill()
        process.wait()

    def stop(self) -> None:
        """Terminates all workers and waits for them."""
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait(30)
        self.running.clear()

    def cpu_s(self) -> dict[int, float]:
        """CPU seconds of each worker since its start."""
        times = {core: psutil.Process(process.pid).cpu_times() for core, process in self.running.items()}
        return {core: each.user + each.system for core, each in times.items()}

    def resident_kb(self) -> int:
        """Resident memory of all workers in KiB."""
        return sum(psutil.Process(process.pid).memory_info().rss for process in self.running.values()) // 1024

    def lines(self, core: int, action: str, since: float) -> list[tuple[float, dict[str, object]]]:
        """Log lines of a worker with this action since then, with their times as seconds since the epoch."""
        logged = [orjson.loads(line) for line in self.logs[core].read_bytes().splitlines() if line.startswith(b"{")]
        found = [
            (datetime.fromisoformat(each["time"]).timestamp(), each) for each in logged if each["action"] == action
        ]
        return [(at, line) for at, line in found if at >= since]

    def shards_of(self, core: int) -> set[int]:
        """The shards a worker runs now."""
        running: set[int] = set()
        for line in self.logs[core].read_bytes().splitlines():
            logged = orjson.loads(line) if line.startswith(b"{") else {}
            if logged.get("action") == "shard.started":
                running.add(logged["shard"])
            elif logged.get("action") in {"shard.released", "shard.fenced", "shard.failed"}:
                running.discard(logged["shard"])
        return running

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
