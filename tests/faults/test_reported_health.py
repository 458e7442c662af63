"""What `streamsched top` and the probes of workers say while real workers are stopped, killed and stuck."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import orjson
import pytest

from compose.ports import free_ports
from streamsched.admin.overview import ShardView, survey
from streamsched.domain.names import DatasetRef
from streamsched.domain.triggers.trigger import Partitions
from streamsched.log.drivers import open_broker
from streamsched.ports.broker import Broker
from streamsched.store.connections import open_pool
from streamsched.store.server.reports import PostgresReportStore
from streamsched.stream.shards.watchdog import STUCK
from tests.faults.processes.command import environ, module, role
from tests.faults.processes.placed import PlacedProcesses
from tests.support.shard_cluster import ShardCluster, landed, schedule

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(400)]

SHARDS = 2


@dataclass(slots=True)
class Workers:
    """Processes, and what is given them. Leases are of a second; what is older than two and a half is old."""

    processes: PlacedProcesses
    broker: Broker
    pool: asyncpg.Pool

    def start(self, port: int, *command: str, stuck_after: str = "60s") -> subprocess.Popen[bytes]:
        settings = {"stuck_after": stuck_after, "health_port": port}
        return self.processes.start(f"worker-{port}", command or role("worker"), **settings)

    async def top(self, holds: Callable[[Sequence[ShardView]], bool]) -> Sequence[ShardView]:
        """How the shards are, once it holds."""
        async with asyncio.timeout(120):
            while True:
                found = (await survey(self.broker, PostgresReportStore(self.pool), stale_s=2.5)).shards
                if holds(found):
                    return found
                await asyncio.sleep(0.05)

    async def probe(self, port: int, path: str) -> tuple[int, Any]:
        """The code, and each check; 0 without an answer."""
        async with httpx.AsyncClient(timeout=1.0) as client:
            try:
                answer = await client.get(f"http://127.0.0.1:{port}{path}")
            except httpx.HTTPError:
                return 0, {}
        return answer.status_code, answer.json()["checks"] if "health" in path else answer.text

    async def probed(self, port: int, path: str, code: int) -> Any:
        """What that probe says once its code is this one."""
        async with asyncio.timeout(120):
            while (found := await self.probe(port, path))[0] != code:  # noqa: ASYNC110 - a process is asked
                await asyncio.sleep(0.05)
        return found[1]


@pytest.fixture
async def workers(database: str, tmp_path: Path) -> AsyncIterator[Workers]:
    broker, pool = await open_broker(database), await open_pool(database)
    env = environ(database_url=database, shards=SHARDS, lease="1s", log_format="json")
    with PlacedProcesses(tmp_path, env) as processes:
        yield Workers(processes, broker, pool)
    await broker.close()
    await pool.close()


@pytest.fixture
def ports() -> tuple[int, int]:
    first, second = free_ports(2)
    return first, second


def all_are(*states: str) -> Callable[[Sequence[ShardView]], bool]:
    return lambda found: bool(found) and all(shard.state in states for shard in found)


async def test_a_stopped_worker_a_killed_one_and_its_successor(workers: Workers, ports: tuple[int, int]) -> None:
    cluster = await ShardCluster.create(workers.broker, SHARDS)
    first = workers.start(ports[0])
    checks = await workers.probed(ports[0], "/health/ready", 200)
    assert checks.keys() >= {"database", "log", "membership"}
    before = await workers.top(all_are("ok"))
    (owner,) = {shard.worker for shard in before}
    assert (await workers.probe(ports[0], "/health/ready"))[1]["shard 1"] == "ok"

    first.send_signal(signal.SIGSTOP)
    assert await workers.probe(ports[0], "/health/live") == (0, {})
    await cluster.put(schedule(), Partitions(DatasetRef("default", "flights"), 1))
    found = await workers.top(all_are("unowned"))
    assert all(shard.worker is None and shard.since_s is not None for shard in found)
    assert sum(shard.total_lag for shard in found) == 2, "what no worker takes is counted from the log"

    first.send_signal(signal.SIGCONT)
    found = await workers.top(lambda now: all_are("ok")(now) and not any(shard.total_lag for shard in now))
    assert {shard.worker for shard in found} == {owner}

    first.kill()
    await workers.top(all_are("unowned"))
    workers.start(ports[1])
    after = await workers.top(all_are("ok"))
    assert owner not in {shard.worker for shard in after}
    assert all(new.epoch > old.epoch for new, old in zip(after, before, strict=True) if new.epoch and old.epoch)
    await workers.probed(ports[1], "/health/ready", 200)
    text = (await workers.probe(ports[1], "/metrics"))[1]
    assert 'streamsched_shard_consuming{shard="0"} 1.0' in text
    assert "outbox" not in "".join(line for line in text.splitlines() if not line.startswith("#"))


async def test_a_shard_that_hangs_is_silent_and_its_worker_not_ready_before_it_ends(
    workers: Workers, ports: tuple[int, int]
) -> None:
    cluster = await ShardCluster.create(workers.broker, SHARDS)
    process = workers.start(ports[0], *module("tests.faults.processes.stuck_process", "fetch"), stuck_after="8s")
    await workers.probed(ports[0], "/health/ready", 200)
    await cluster.emit(landed(13))

    checks = await workers.probed(ports[0], "/health/ready", 503)
    (hung,) = [said for name, said in checks.items() if name.startswith("shard") and said != "ok"]
    assert hung.startswith("no progress for")
    assert (await workers.probe(ports[0], "/health/live"))[0] == 200
    found = await workers.top(lambda now: any(shard.state == "silent" for shard in now))
    assert [shard.report.doing for shard in found if shard.state == "silent" and shard.report] == ["reading"]

    assert await asyncio.to_thread(process.wait, 60) == STUCK
    last = orjson.loads((workers.processes.folder / f"worker-{ports[0]}.log").read_bytes().strip().splitlines()[-1])
    assert (last["action"], last["stuck"][:6]) == ("worker.stuck", "shard ")
    await workers.top(all_are("unowned"))
