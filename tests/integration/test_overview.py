"""`streamsched top` says what is so: with a worker that lives, one that is silent, and none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import cast

import asyncpg
import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.admin.overview import STALE_S, Overview, survey, to_json
from streamsched.domain.names import DatasetRef
from streamsched.domain.triggers.trigger import Partitions
from streamsched.ports import leases
from streamsched.ports.reports import ReportStore, ShardReport
from streamsched.store.server.leases import PostgresLeases
from streamsched.store.server.reports import PostgresReportStore
from streamsched.stream.shards.shard import ShardSettings
from streamsched.stream.shards.status_reporter import StatusReporter
from streamsched.stream.shards.worker import Worker
from streamsched.telemetry.shard_stats import ShardStats
from tests.support.shard_cluster import ShardCluster, landed, schedule
from tests.support.world import StoredWorld

pytestmark = pytest.mark.postgres

FLIGHTS = DatasetRef("default", "flights")
LONG = timedelta(seconds=60)


@pytest.fixture
async def cluster() -> ShardCluster:
    return await ShardCluster.create(MemoryBroker(MemoryLog()), 2)


def states(found: Overview) -> list[str]:
    return [shard.state for shard in found.shards]


async def test_a_worker_tells_again_whatever_went_wrong_once() -> None:
    reported = asyncio.Event()

    class Spoilt:
        """Fails at first with an unexpected error."""

        calls = 0

        async def save(self, worker: str, reports: Sequence[ShardReport]) -> None:
            self.calls += 1
            if self.calls < 3:
                raise ZeroDivisionError(worker, reports)
            reported.set()

    reporter = asyncio.create_task(StatusReporter(Silent(), cast(ReportStore, Spoilt()), "a", every_s=0.01).run())
    await asyncio.wait_for(reported.wait(), 20)
    reporter.cancel()


class Silent:
    """A worker without shards."""

    def shard_stats(self) -> dict[int, ShardStats]:
        return {}

    def epoch(self, shard: int) -> int | None:
        return None


async def test_what_a_worker_tells_is_shown_until_it_is_stale(pool: asyncpg.Pool, cluster: ShardCluster) -> None:
    reports = PostgresReportStore(pool)
    assert states(await survey(cluster.broker, reports)) == ["unowned", "unowned"]

    worker = Worker(
        cluster.broker,
        PostgresLeases(pool),
        leases.LeaseHolder("a", "here", 1),
        ttl=LONG,
        settings=ShardSettings(idle_s=0.05),
    )
    running = asyncio.create_task(worker.run())
    reporter = StatusReporter(worker, reports, "a")
    try:
        await cluster.put(schedule(), Partitions(FLIGHTS, 2))
        await cluster.emit(*(landed(n) for n in range(50)))
        async with asyncio.timeout(60):
            while not (found := await survey(cluster.broker, reports)).shards or any(
                shard.state != "ok" or shard.total_lag for shard in found.shards
            ):
                await reporter.run_once()
                await asyncio.sleep(0.02)
        assert [shard.worker for shard in found.shards] == ["a", "a"]
        assert sum(shard.report.rows for shard in found.shards if shard.report) > 50
        assert all(shard.report and shard.report.recovery_s > 0 for shard in found.shards)

        await pool.execute(
            "UPDATE shard_reports SET reported_at = reported_at - $1::interval", timedelta(seconds=STALE_S + 1)
        )
        await cluster.emit(*(landed(n, "others") for n in range(9)))
        await cluster.emit(landed(99))
        found = await survey(cluster.broker, reports)
        assert states(found) == ["stale", "stale"]
        shown = to_json(found)["shards"][0]
        assert shown["turnsPerSecond"] is None
        assert shown["toldSecondsAgo"] > STALE_S

        await StoredWorld(pool).expire_leases()
        assert states(await survey(cluster.broker, reports)) == ["unowned", "unowned"]
    finally:
        await worker.stop()
        await running


async def test_a_report_of_a_former_owner_takes_no_newer_ones_place(pool: asyncpg.Pool, cluster: ShardCluster) -> None:
    reports = PostgresReportStore(pool)
    await PostgresLeases(pool).claim(["shard-0000"], "new", LONG)

    def report(epoch: int) -> ShardReport:
        return ShardReport(0, epoch, "reading", 1.0, 2.0, 3, 0.5, 4, 0, {})

    (lease,) = (await reports.snapshot()).leases
    await reports.save("new", [report(lease.epoch)])
    await reports.save("old", [report(lease.epoch - 1)])

    (reported,) = (await reports.snapshot()).reports
    assert reported.worker == "new"
    assert states(await survey(cluster.broker, reports)) == ["ok", "unowned"]
    await pool.execute("DELETE FROM leases")
    await PostgresLeases(pool).claim(["shard-0000"], "newest", LONG)
    assert states(await survey(cluster.broker, reports))[0] == "untold"


async def test_what_waits_is_counted_with_the_age_of_the_first(pool: asyncpg.Pool, cluster: ShardCluster) -> None:
    await pool.execute(
        "INSERT INTO outbox (topic, key, value, created_at) VALUES ('signals', 'k', '', now() - interval '90 s')"
    )
    found = await survey(cluster.broker, PostgresReportStore(pool))

    queues = {queue.name: (queue, owner) for queue, owner in found.queues}
    outbox, owner = queues["outbox"]
    assert (outbox.waiting, owner) == (1, None)
    assert 89 < outbox.oldest_s < 600
    assert queues["log to tables: intake"][0].waiting == 0
