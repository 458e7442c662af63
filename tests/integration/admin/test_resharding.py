"""`streamsched reshard` on a real log and database: refused while anybody works, and then as if nothing had been."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from streamsched.admin.state import show
from streamsched.catalog.progress import ProgressCopy
from streamsched.domain.errors import ConfigurationError
from streamsched.domain.names import DatasetRef
from streamsched.domain.signals.home import home
from streamsched.domain.triggers.trigger import Partitions
from streamsched.log.generation import open_log, read_layout
from streamsched.log.topics import TRIGGERS_CHANGELOG, topic_specs
from streamsched.ports.broker import Broker
from streamsched.ports.leases import LeaseHolder
from streamsched.store.catalog.progress import PostgresProgress
from streamsched.store.connections import open_pool
from streamsched.store.server.leases import PostgresLeases
from streamsched.stream.shards.shard import ShardSettings
from streamsched.stream.shards.worker import Worker
from tests.support.shard_cluster import ShardCluster, event_ids, landed, schedule, schedule_name

BEFORE, AFTER, SCHEDULES = 3, 5, 20


def command(database: str, log: str, shards: int) -> subprocess.CompletedProcess[str]:
    environ = {
        **os.environ,
        "STREAMSCHED_DATABASE_URL": database,
        "STREAMSCHED_BROKER_URL": log,
        "STREAMSCHED_SHARDS": str(BEFORE),
        "STREAMSCHED_LEASE": "1s",
    }
    main = (sys.executable, "-c", "from streamsched.cli.main import main; main()", "reshard", str(shards))
    return subprocess.run(main, env=environ, capture_output=True, text=True, timeout=120, check=False)


class Work:
    """A worker, and the copy of the read model, on the log as it lies now."""

    def __init__(self, database: str, broker: Broker) -> None:
        self._database = database
        self._broker = broker

    async def __aenter__(self) -> None:
        self._pool = await open_pool(self._database)
        settings = ShardSettings(idle_s=0.1)
        ttl = timedelta(seconds=1)
        self._worker = Worker(
            self._broker, PostgresLeases(self._pool), LeaseHolder("w", "localhost", 1), ttl=ttl, settings=settings
        )
        copy = ProgressCopy(broker=self._broker, store=PostgresProgress(self._pool))
        self._tasks = asyncio.create_task(self._worker.run()), asyncio.create_task(copy.run())

    async def __aexit__(self, *_: object) -> None:
        await self._worker.stop()
        await self._tasks[0]
        self._tasks[1].cancel()
        with suppress(asyncio.CancelledError):
            await self._tasks[1]
        await self._pool.close()


async def launched(cluster: ShardCluster, jobs: int) -> list[tuple[str, int, list[str]]]:
    async with asyncio.timeout(60):
        while len(found := await cluster.jobs()) < jobs:  # noqa: ASYNC110 - another task launches them
            await asyncio.sleep(0.05)
    return [(schedule_name(job), job.sequence, event_ids(job)) for job in found]


async def progress(database: str, wanted: int) -> dict[str, Any]:
    """The read model, once it has so many schedules that fired so often."""
    pool = await open_pool(database)
    try:
        async with asyncio.timeout(60):
            while True:
                rows = await pool.fetch("SELECT schedule, sequence FROM trigger_progress")
                if len(rows) == SCHEDULES and sum(row["sequence"] for row in rows) == wanted:
                    return {row["schedule"]: row["sequence"] for row in rows}
                await asyncio.sleep(0.05)
    finally:
        await pool.close()


async def resharded(database: str, log: str) -> None:
    broker, layout = await open_log(log, shards=BEFORE)
    await broker.create_topics(topic_specs(BEFORE, timedelta(days=7)))
    cluster = ShardCluster(broker, BEFORE)
    for number in range(SCHEDULES):
        await cluster.put(schedule(f"s{number}"), Partitions(DatasetRef("default", f"d{number}"), 2))
    async with Work(database, broker):
        for number in range(SCHEDULES):
            await cluster.emit(*(landed(each, f"d{number}") for each in range(3)))
        assert len(await launched(cluster, SCHEDULES)) == SCHEDULES
        refused = await asyncio.to_thread(command, database, log, AFTER)
    shown = [await show(broker, schedule(f"s{number}")) for number in range(SCHEDULES)]
    await cluster.emit(*(landed(2, f"d{number}") for number in range(SCHEDULES)))  # again, while no worker runs
    await cluster.emit(*(landed(3, f"d{number}") for number in range(SCHEDULES)))

    done = await asyncio.to_thread(command, database, log, AFTER)

    assert (refused.returncode != 0, "workers run" in refused.stderr) == (True, True), refused.stderr
    assert done.returncode == 0, done.stderr
    assert f"{SCHEDULES} schedules" in done.stdout
    found = await read_layout(broker)
    assert found is not None
    assert (layout.generation, found.generation, found.shards, found.unkeyed_partitions) == (1, 2, AFTER, BEFORE)
    with pytest.raises(ConfigurationError, match=f"has {AFTER} shards"):
        await open_log(log, shards=BEFORE)
    renewed, _ = await open_log(log, shards=AFTER)
    await renewed.create_topics(topic_specs(AFTER, timedelta(days=7), unkeyed_partitions=BEFORE))
    for before in shown:
        after = await show(renewed, schedule(before["schedule"].rpartition(".")[2]))
        assert {**after, "shard": before["shard"]} == before
        assert after["shard"] == home(f"schedule:{before['schedule']}", AFTER)
    cluster = ShardCluster(renewed, AFTER)
    async with Work(database, renewed):
        jobs = await launched(cluster, 2 * SCHEDULES)
        await progress(database, 2 * SCHEDULES)
    assert jobs == sorted(
        (f"s{number}", sequence + 1, [f"d{number}-{2 * sequence}", f"d{number}-{2 * sequence + 1}"])
        for number in range(SCHEDULES)
        for sequence in range(2)
    )
    assert await renewed.partitions(TRIGGERS_CHANGELOG) == AFTER
    await renewed.close()
    await broker.close()


@pytest.mark.postgres
async def test_another_number_of_shards_on_postgresql(database: str) -> None:
    await resharded(database, database)


@pytest.mark.long
@pytest.mark.postgres
@pytest.mark.kafka
async def test_another_number_of_shards_on_kafka(database: str, kafka_log: str) -> None:
    await resharded(database, kafka_log)
