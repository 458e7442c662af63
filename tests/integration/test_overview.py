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
from streamsched.domain.trigger import Partitions
from streamsched.ports import leases
from streamsched.ports.reports import Report, Reports
from streamsched.store.leases import PostgresLeases
from streamsched.store.reports import PostgresReports
from streamsched.stream.shard import ShardSettings
from streamsched.stream.signs import Signs
from streamsched.stream.telling import Telling
from streamsched.stream.worker import Worker
from streamsched.testing.town import Town, landed, schedule

pytestmark = pytest.mark.postgres

FLIGHTS = DatasetRef("default", "flights")
LONG = timedelta(seconds=60)


@pytest.fixture
async def town() -> Town:
    return await Town.found(MemoryBroker(MemoryLog()), 2)


def states(found: Overview) -> list[str]:
    return [shard.state for shard in found.shards]


async def test_a_worker_tells_again_whatever_went_wrong_once() -> None:
    told = asyncio.Event()

    class Spoilt:
        """Fails at first as nobody foresaw."""

        calls = 0

        async def tell(self, worker: str, reports: Sequence[Report]) -> None:
            self.calls += 1
            if self.calls < 3:
                raise ZeroDivisionError(worker, reports)
            told.set()

    telling = asyncio.create_task(Telling(Silent(), cast(Reports, Spoilt()), "a", every_s=0.01).run())
    await asyncio.wait_for(told.wait(), 20)
    telling.cancel()


class Silent:
    """A worker without shards."""

    def signs(self) -> dict[int, Signs]:
        return {}

    def epoch(self, shard: int) -> int | None:
        return None


async def test_what_a_worker_tells_is_shown_until_it_is_stale(pool: asyncpg.Pool, town: Town) -> None:
    reports = PostgresReports(pool)
    assert states(await survey(town.broker, reports)) == ["unowned", "unowned"]

    worker = Worker(
        town.broker, PostgresLeases(pool), leases.Holder("a", "here", 1), ttl=LONG, settings=ShardSettings(idle_s=0.05)
    )
    running = asyncio.create_task(worker.run())
    telling = Telling(worker, reports, "a")
    try:
        await town.put(schedule(), Partitions(FLIGHTS, 2))
        await town.emit(*(landed(n) for n in range(50)))
        async with asyncio.timeout(60):
            while not (found := await survey(town.broker, reports)).shards or any(
                shard.state != "ok" or shard.behind for shard in found.shards
            ):
                await telling.run_once()
                await asyncio.sleep(0.02)
        assert [shard.worker for shard in found.shards] == ["a", "a"]
        assert sum(shard.report.rows for shard in found.shards if shard.report) > 50
        assert all(shard.report and shard.report.recovery_s > 0 for shard in found.shards)

        await pool.execute("UPDATE shard_reports SET told_at = told_at - $1::interval", timedelta(seconds=STALE_S + 1))
        await town.emit(*(landed(n, "others") for n in range(9)))
        await town.emit(landed(99))
        found = await survey(town.broker, reports)
        assert states(found) == ["stale", "stale"]
        shown = to_json(found)["shards"][0]
        assert shown["turnsPerSecond"] is None
        assert shown["toldSecondsAgo"] > STALE_S

        await pool.execute("UPDATE leases SET expires_at = now() - interval '1 s'")
        assert states(await survey(town.broker, reports)) == ["unowned", "unowned"]
    finally:
        await worker.stop()
        await running


async def test_a_report_of_a_former_owner_takes_no_newer_ones_place(pool: asyncpg.Pool, town: Town) -> None:
    reports = PostgresReports(pool)
    await PostgresLeases(pool).claim(["shard-0000"], "new", LONG)

    def report(epoch: int) -> Report:
        return Report(0, epoch, "reading", 1.0, 2.0, 3, 0.5, 4, 0, {})

    (lease,) = (await reports.standing()).leases
    await reports.tell("new", [report(lease.epoch)])
    await reports.tell("old", [report(lease.epoch - 1)])

    (told,) = (await reports.standing()).told
    assert told.worker == "new"
    assert states(await survey(town.broker, reports)) == ["ok", "unowned"]
    await pool.execute("DELETE FROM leases")
    await PostgresLeases(pool).claim(["shard-0000"], "newest", LONG)
    assert states(await survey(town.broker, reports))[0] == "untold"


async def test_what_waits_is_counted_with_the_age_of_the_first(pool: asyncpg.Pool, town: Town) -> None:
    await pool.execute(
        "INSERT INTO outbox (topic, key, value, created_at) VALUES ('signals', 'k', '', now() - interval '90 s')"
    )
    found = await survey(town.broker, PostgresReports(pool))

    queues = {queue.name: (queue, owner) for queue, owner in found.queues}
    outbox, owner = queues["outbox"]
    assert (outbox.waiting, owner) == (1, None)
    assert 89 < outbox.oldest_s < 600
    assert queues["log to tables: intake"][0].waiting == 0
