"""One event of 100,000 correlation keys, over HTTP, on two real workers: it is refused, and no neighbour waits long.

The longest wait of a canary, from the acknowledgement of its event to its job in the log, is printed (`-s`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import orjson
import pytest

from streamsched.domain.names import DatasetRef
from streamsched.domain.triggers.correlation import OnFull, Per
from streamsched.domain.triggers.trigger import AllOf, Partitions
from streamsched.log.drivers import open_broker
from tests.faults.processes.command import environ, role
from tests.faults.processes.placed import PlacedProcesses
from tests.support.shard_cluster import ShardCluster, schedule, schedule_name

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(280)]

SHARDS = 4
CANARIES = 8
KEYS = 100_000
#: Generous, for machines on which everything else runs as well. The event used to stop every shard forever.
LONGEST_S = 10.0


@asynccontextmanager
async def installation(database: str, folder: Path) -> AsyncIterator[tuple[ShardCluster, httpx.AsyncClient]]:
    """Two workers and an API; the test plays the relay."""
    broker = await open_broker(database)
    cluster = await ShardCluster.create(broker, SHARDS)
    env = environ(database_url=database, shards=SHARDS, api_port=0, log_format="json")
    with PlacedProcesses(folder, env) as processes:
        for place in ("worker-1", "worker-2", "api"):
            processes.start(place, role(place.partition("-")[0]))
        async with httpx.AsyncClient(base_url=await address(folder / "api.log"), timeout=60) as client:
            yield cluster, client
        assert [process.poll() for process in processes.running.values()] == [None] * 3
    await broker.close()


def lines(log: Path) -> Sequence[bytes]:
    return log.read_bytes().splitlines()


async def address(log: Path) -> str:
    """Where the API answers, as it logs it."""
    async with asyncio.timeout(60):
        while True:
            for line in await asyncio.to_thread(lines, log):
                said = orjson.loads(line) if line.startswith(b"{") else {}
                if said.get("action") == "api.bound":
                    return said["url"]
            await asyncio.sleep(0.1)


def event(name: str, dataset: str, dates: Sequence[str]) -> bytes:
    partitions = [{"key": f"date={date}", "values": {"date": date}} for date in dates]
    data = {"dataset": dataset, "partitions": partitions, "count": len(partitions)}
    return orjson.dumps({"id": name, "source": "test", "type": "partitions.added", "data": data})


async def post(client: httpx.AsyncClient, body: bytes) -> None:
    answer = await client.post("/v1/events", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 202, answer.text


async def canaries(cluster: ShardCluster, client: httpx.AsyncClient, number: int) -> float:
    """Seconds until all canaries have launched for one more event."""
    await post(client, event(f"canary-{number}", "default.canary", ["x"]))
    since = time.monotonic()
    async with asyncio.timeout(60):
        while await launched(cluster) < CANARIES * (number + 1):  # noqa: ASYNC110 - other processes are at it
            await asyncio.sleep(0.02)
    return time.monotonic() - since


async def launched(cluster: ShardCluster) -> int:
    """Jobs of canaries."""
    return sum(schedule_name(job).startswith("canary") for job in await cluster.jobs())


@pytest.mark.parametrize("full", [OnFull.REFUSE, pytest.param(OnFull.DROP_OLDEST, marks=pytest.mark.nightly)])
async def test_neighbours_of_an_event_of_many_keys_do_not_wait(database: str, tmp_path: Path, full: OnFull) -> None:
    a, b = DatasetRef("default", "a"), DatasetRef("default", "b")
    async with installation(database, tmp_path) as (cluster, client):
        for n in range(CANARIES):  # in every shard
            await cluster.put(schedule(f"canary{n}"), Partitions(DatasetRef("default", "canary"), 1))
        await cluster.put(schedule("wide"), Per(AllOf((Partitions(a, 1), Partitions(b, 1))), ("date",), full=full))
        before = [await canaries(cluster, client, n) for n in range(3)]

        large = asyncio.create_task(post(client, event("large", "default.a", [f"d{n}" for n in range(KEYS)])))
        waits = [await canaries(cluster, client, 3 + n) for n in range(10)]
        await large
        await post(client, event("small-a", "default.a", ["2026-01-01"]))
        await post(client, event("small-b", "default.b", ["2026-01-01"]))
        async with asyncio.timeout(30):
            while not [job for job in await cluster.jobs() if job.schedule == schedule("wide")]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

        (letter,) = await cluster.dead_letters()
    print(f"neighbours waited {max(waits):.2f} s at the longest, {max(before):.2f} s before")  # noqa: T201
    assert max(waits) < LONGEST_S
    assert "more than 10000 correlation keys" in letter["reason"]
