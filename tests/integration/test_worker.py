"""Workers that share shards by leases in a real PostgreSQL, over a log in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import asyncpg
import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog
from structlog.testing import capture_logs

from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.domain.names import DatasetRef
from streamsched.domain.triggers.trigger import Partitions
from streamsched.log.topics import TRIGGERS_CHANGELOG
from streamsched.membership.broker_health import BrokerHealth
from streamsched.ports import leases
from streamsched.ports.broker import Outgoing
from streamsched.store.connections import open_pool
from streamsched.store.server.leases import PostgresLeases
from streamsched.stream.agents.accumulated import TriggerStates
from streamsched.stream.shards.shard import Shard, ShardSettings
from streamsched.stream.shards.worker import Worker
from tests.support.shard_cluster import ShardCluster, event_ids, landed, schedule
from tests.support.world import StoredWorld

pytestmark = pytest.mark.postgres

SHARDS = 4
FLIGHTS = DatasetRef("default", "flights")
QUICK = ShardSettings(idle_s=0.1)


@pytest.fixture
async def cluster() -> ShardCluster:
    return await ShardCluster.create(MemoryBroker(MemoryLog()), SHARDS)


class Agency:
    """Hires workers, each with a connection pool of its own."""

    def __init__(self, cluster: ShardCluster, database: str) -> None:
        self._cluster = cluster
        self._database = database
        self._pools: dict[Worker, asyncpg.Pool] = {}
        self._running: dict[Worker, asyncio.Task[None]] = {}

    async def hire(self, name: str, health: BrokerHealth | None = None) -> Worker:
        pool = await open_pool(self._database)
        identity = leases.LeaseHolder(name, "localhost", 1)
        worker = Worker(
            self._cluster.broker,
            PostgresLeases(pool),
            identity,
            ttl=timedelta(seconds=1),
            settings=QUICK,
            broker_health=health,
        )
        self._pools[worker] = pool
        self._running[worker] = asyncio.create_task(worker.run())
        return worker

    async def cut(self, worker: Worker) -> None:
        """From now on the worker cannot reach the database."""
        await self._pools[worker].close()

    async def kill(self, worker: Worker) -> None:
        """The worker dies without a word to the database."""
        await self.cut(worker)
        self._running[worker].cancel()

    async def end_of(self, worker: Worker) -> None:
        await self._running[worker]

    async def close(self) -> None:
        for worker in self._running:
            await worker.stop()
        await asyncio.wait(self._running.values(), timeout=20)
        for pool in self._pools.values():
            await pool.close()


@pytest.fixture
async def agency(cluster: ShardCluster, database: str) -> AsyncIterator[Agency]:
    made = Agency(cluster, database)
    yield made
    await made.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - what is watched has no callback
            await asyncio.sleep(0.01)


async def launched(cluster: ShardCluster, count: int) -> list[str]:
    """The ids of the first events of all launches, once there are `count`."""
    async with asyncio.timeout(20):
        while len(jobs := await cluster.jobs()) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return sorted(event_ids(job)[0] for job in jobs)


async def test_one_worker_runs_all_shards(cluster: ShardCluster, agency: Agency) -> None:
    worker = await agency.hire("a")
    await cluster.put(schedule(), Partitions(FLIGHTS, 2))
    await cluster.emit(landed(0), landed(1))

    assert await launched(cluster, 1) == ["flights-0"]
    assert worker.shards == [0, 1, 2, 3]


async def test_a_worker_ends_with_the_sentence_when_a_shard_cannot_start(cluster: ShardCluster, agency: Agency) -> None:
    older = Outgoing(TRIGGERS_CHANGELOG, 2, b"schedule:default.old.two", b'{"v":2,"schedule":"default.old.two"}')
    await cluster.broker.append([older])

    worker = await agency.hire("a")

    with pytest.raises(ConfigurationError, match=r"the log is older than release 0\.1\.0 and is left as it is"):
        await asyncio.wait_for(agency.end_of(worker), 20)


async def test_a_second_worker_takes_half_under_load_and_nothing_is_lost_or_doubled(
    cluster: ShardCluster, agency: Agency
) -> None:
    for number in range(20):
        await cluster.put(schedule(f"s{number}"), Partitions(DatasetRef("default", f"d{number}"), 1))
    first = await agency.hire("a")
    emitted = 0

    async def emit(rounds: int) -> None:
        nonlocal emitted
        for _ in range(rounds):
            await cluster.emit(*(landed(emitted, f"d{number}") for number in range(20)))
            emitted += 1
            await asyncio.sleep(0.01)

    await emit(10)
    second = await agency.hire("b")
    await emit(100)
    await until(lambda: len(first.shards) == len(second.shards) == 2)
    await second.stop()
    await emit(50)
    await until(lambda: len(first.shards) == 4)

    ids = await launched(cluster, 20 * emitted)

    assert len(ids) == 20 * emitted == len(set(ids))


async def test_a_worker_that_dies_is_replaced(cluster: ShardCluster, agency: Agency) -> None:
    dead = await agency.hire("a")
    await cluster.put(schedule(), Partitions(FLIGHTS, 1))
    await cluster.emit(landed(0))
    await launched(cluster, 1)
    await agency.kill(dead)

    survivor = await agency.hire("b")
    await cluster.emit(landed(1))

    assert await launched(cluster, 2) == ["flights-0", "flights-1"]
    assert survivor.shards == [0, 1, 2, 3]


async def test_of_two_that_believe_they_own_a_shard_only_the_newest_is_heard(
    cluster: ShardCluster, agency: Agency
) -> None:
    worker = await agency.hire("a")
    await cluster.put(schedule(), Partitions(FLIGHTS, 1))
    await cluster.emit(landed(0))
    await launched(cluster, 1)

    usurpers = [Shard(cluster.broker, number, QUICK) for number in range(SHARDS)]
    await asyncio.gather(*(shard.start() for shard in usurpers))
    await cluster.emit(*(landed(n) for n in range(1, 30)))
    ids = await launched(cluster, 30)

    assert len(ids) == 30 == len(set(ids))
    await asyncio.gather(*(shard.stop() for shard in usurpers))
    await cluster.emit(landed(30))
    assert len(await launched(cluster, 31)) == 31
    assert worker.shards == [0, 1, 2, 3]


async def test_a_shard_that_fails_is_taken_anew_from_the_log(
    cluster: ShardCluster, agency: Agency, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter([True, True])
    store = TriggerStates.store

    def fails_twice(accumulated: TriggerStates) -> None:
        if next(failures, False):
            raise ZeroDivisionError
        store(accumulated)

    monkeypatch.setattr(TriggerStates, "store", fails_twice)
    await agency.hire("a")
    await cluster.put(schedule(), Partitions(FLIGHTS, 2))
    await cluster.emit(landed(0), landed(1), landed(2), landed(3))

    assert await launched(cluster, 2) == ["flights-0", "flights-2"]


async def test_a_shard_whose_tenure_was_cancelled_by_a_stray_is_run_again(
    cluster: ShardCluster, agency: Agency
) -> None:
    await agency.hire("a")
    await cluster.put(schedule(), Partitions(FLIGHTS, 1))
    await cluster.emit(landed(0))
    await launched(cluster, 1)

    for task in asyncio.all_tasks():
        if getattr(task.get_coro(), "__name__", "") == "_hold":
            task.cancel()
    await cluster.emit(landed(1))

    assert await launched(cluster, 2) == ["flights-0", "flights-1"]


async def test_what_was_lost_and_is_taken_again_in_the_same_beat_is_kept(
    cluster: ShardCluster, agency: Agency, pool: asyncpg.Pool
) -> None:
    await agency.hire("a")
    await cluster.put(schedule(), Partitions(FLIGHTS, 1))
    await cluster.emit(landed(0))
    await launched(cluster, 1)

    with capture_logs() as logged:
        await pool.execute("UPDATE leases SET owner = 'b', epoch = epoch + 1, expires_at = now()")
        await until(lambda: sum(line["event"] == "shard.taken" for line in logged) >= SHARDS)
        await cluster.emit(landed(1))
        assert await launched(cluster, 2) == ["flights-0", "flights-1"]

    assert [line for line in logged if line["event"] == "shard.released"] == []


async def test_a_cut_to_the_database_stops_no_shard(cluster: ShardCluster, agency: Agency) -> None:
    worker = await agency.hire("a")
    await cluster.put(schedule(), Partitions(FLIGHTS, 1))
    await cluster.emit(landed(0))
    await launched(cluster, 1)

    await agency.cut(worker)
    assert await worker.run_once() > timedelta(0)
    await cluster.emit(landed(1))

    assert await launched(cluster, 2) == ["flights-0", "flights-1"]
    assert worker.shards == [0, 1, 2, 3]


@pytest.fixture
async def read_only(pool: asyncpg.Pool) -> AsyncIterator[Callable[[str], Awaitable[None]]]:
    """Turns it on or off for everybody but this fixture's own connection, as a failover to a standby does."""
    async with pool.acquire() as own:
        await own.execute("SET default_transaction_read_only = off")
        name = await own.fetchval("SELECT current_database()")

        async def turn(on_or_off: str) -> None:
            await own.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = {on_or_off}')
            await own.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> $2",
                *(name, own.get_server_pid()),
            )

        yield turn
        await turn("off")


async def test_a_database_that_takes_no_writes_stops_no_shard(
    cluster: ShardCluster, agency: Agency, pool: asyncpg.Pool, read_only: Callable[[str], Awaitable[None]]
) -> None:
    worker = await agency.hire("a")
    await cluster.put(schedule(), Partitions(FLIGHTS, 1))
    await cluster.emit(landed(0))
    await launched(cluster, 1)

    with capture_logs() as logged:
        await read_only("on")
        await until(lambda: any("read-only" in line.get("error", "") for line in logged))
    await cluster.emit(landed(1))
    assert await launched(cluster, 2) == ["flights-0", "flights-1"]
    assert worker.shards == [0, 1, 2, 3]

    await read_only("off")
    await StoredWorld(pool).expire_leases()
    async with asyncio.timeout(20):
        while await pool.fetchval("SELECT count(*) FROM leases WHERE expires_at < now()"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_beat_that_fails_unexpectedly_stops_no_shard(
    cluster: ShardCluster, agency: Agency, pool: asyncpg.Pool
) -> None:
    worker = await agency.hire("a")
    await cluster.put(schedule(), Partitions(FLIGHTS, 1))
    await cluster.emit(landed(0))
    await launched(cluster, 1)

    with capture_logs() as logged:
        await pool.execute(
            "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'an index is corrupt' USING ERRCODE = 'XX002'; END $$;"
            "CREATE TRIGGER spoilt BEFORE UPDATE ON workers EXECUTE FUNCTION spoil()"
        )
        await until(lambda: any(line["event"] == "membership.failed" for line in logged))
    await cluster.emit(landed(1))

    assert await launched(cluster, 2) == ["flights-0", "flights-1"]
    assert worker.shards == [0, 1, 2, 3]


async def test_a_worker_cut_off_from_the_log_steps_aside_for_one_that_is_not(
    cluster: ShardCluster, agency: Agency
) -> None:
    answers = asyncio.Event()

    async def asked() -> None:
        if not answers.is_set():
            raise UnavailableError("cut")

    answers.set()
    health = BrokerHealth(asked, every=timedelta(milliseconds=20), patience=timedelta(milliseconds=300))
    asking = asyncio.create_task(health.run())
    cut = await agency.hire("a", health)
    await cluster.put(schedule(), Partitions(FLIGHTS, 1))
    await until(lambda: len(cut.shards) == 4)

    answers.clear()
    await until(lambda: health.is_lost)
    assert len(cut.shards) == 4, "alone it stays"

    whole = await agency.hire("b")
    await until(lambda: len(whole.shards) == 4 and not cut.shards)
    await cluster.emit(landed(0))
    assert await launched(cluster, 1) == ["flights-0"]

    answers.set()
    await until(lambda: len(cut.shards) == len(whole.shards) == 2)
    asking.cancel()
