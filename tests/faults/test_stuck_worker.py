"""A worker that is alive but gets nothing done ends itself, says so last, and another one goes on where it was."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import orjson
import pytest

from streamsched.domain.fold.halt import Halt
from streamsched.domain.names import DatasetRef
from streamsched.domain.triggers.trigger import Partitions
from streamsched.log.drivers import open_broker
from streamsched.log.topics import TRIGGERS_CHANGELOG
from streamsched.stream.agents.halts import read_halts
from streamsched.stream.shards.watchdog import STUCK
from tests.faults.processes.command import environ, module
from tests.faults.processes.placed import PlacedProcesses
from tests.support.shard_cluster import ShardCluster, event_ids, landed, schedule

pytestmark = pytest.mark.postgres

SHARDS = 2


@pytest.fixture
def workers(database: str, tmp_path: Path) -> Iterator[PlacedProcesses]:
    env = environ(database_url=database, shards=SHARDS, lease="1s", stuck_after="2s", log_format="json")
    with PlacedProcesses(tmp_path, env) as made:
        yield made


@pytest.fixture
async def cluster(database: str) -> AsyncIterator[ShardCluster]:
    broker = await open_broker(database)
    yield await ShardCluster.create(broker, SHARDS)
    await broker.close()


def stuck(hangs: str) -> Sequence[str]:
    return module("tests.faults.processes.stuck_process", hangs)


@pytest.mark.nightly
async def test_a_worker_whose_loop_is_blocked_ends_itself_and_another_goes_on(
    workers: PlacedProcesses, cluster: ShardCluster
) -> None:
    """A worker whose shard hangs: `test_reported_health.py`."""
    process = workers.start("stuck", stuck("loop"))
    await cluster.put(schedule(), Partitions(DatasetRef("default", "flights"), 2))
    await cluster.emit(*(landed(n) for n in range(13)))
    async with asyncio.timeout(90):
        while len(await cluster.jobs()) < 6:  # noqa: ASYNC110 - another process is at it
            await asyncio.sleep(0.1)
    await cluster.emit(landed(13), landed(14))

    assert await asyncio.to_thread(process.wait, 90) == STUCK
    last = orjson.loads((workers.folder / "stuck.log").read_bytes().strip().splitlines()[-1])
    assert last["action"] == "worker.stuck"
    assert last["stuck"] == "loop"
    assert "blocking" in last["loop_at"]

    workers.start("sane", stuck("never"))
    async with asyncio.timeout(90):
        while len(await cluster.jobs()) < 7:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    assert event_ids((await cluster.jobs())[-1]) == ["flights-12", "flights-13"]


async def test_a_record_that_ends_every_worker_ends_four_and_is_set_apart(
    workers: PlacedProcesses, cluster: ShardCluster
) -> None:
    """Two workers, each started again whenever it ends. Nothing in the process can interrupt that fold."""
    for place in ("one", "two"):
        workers.start(place, stuck("spin"))
    deaths: list[int] = []
    ill = schedule("ill")
    await cluster.put(ill, Partitions(DatasetRef("default", "flights"), 2))
    for number in range(8):  # in every shard
        await cluster.put(schedule(f"canary{number}"), Partitions(DatasetRef("default", "canary"), 1))
    await cluster.emit(*(landed(n) for n in range(20)))

    async with asyncio.timeout(200):
        while not (halted := await in_error(cluster)):
            for place, process in list(workers.running.items()):
                if (code := process.poll()) is not None:
                    deaths.append(code)
                    workers.replace(place)
            await asyncio.sleep(0.2)
    await cluster.emit(landed(100, dataset="canary"))
    async with asyncio.timeout(30):
        while sum(job.schedule != ill for job in await cluster.jobs()) < 8:  # noqa: ASYNC110 - other processes are at it
            await asyncio.sleep(0.1)

    assert len(deaths) <= 4
    assert set(deaths) <= {STUCK, -signal.SIGPROF}
    assert list(halted) == ["ill"]
    assert halted["ill"].kind == "WorkerEndedError"
    assert halted["ill"].signal == "event flights-13 of test"
    assert [event_ids(job) for job in await cluster.jobs() if job.schedule == ill] == [
        [f"flights-{n}", f"flights-{n + 1}"] for n in range(0, 12, 2)
    ]
    assert all(process.poll() is None for process in workers.running.values())


async def in_error(cluster: ShardCluster) -> dict[str, Halt]:
    """The schedules in error, by name, as the changelog has them."""
    rows = {record.key: record.value for record in await cluster.records(TRIGGERS_CHANGELOG) if record.key is not None}
    return {key.rpartition(b".")[2].decode(): halt for key, halt in read_halts(rows).items()}
