"""Shards on a log in a real PostgreSQL and a real Kafka: what the memory log shows holds there too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from streamsched.domain.events.event import Event, Partition, PartitionsAdded
from streamsched.domain.names import DatasetRef, ScheduleRef
from streamsched.domain.triggers.trigger import Partitions
from streamsched.log.drivers import open_broker
from streamsched.log.topics import LAUNCH
from streamsched.ports.broker import Broker
from streamsched.stream.shards.shard import ShardSettings
from tests.support.shard_cluster import NOON, ShardCluster, event_ids, landed, schedule, schedule_name

FLIGHTS, WEATHER = DatasetRef("default", "flights"), DatasetRef("default", "weather")


class ShardOnALog:
    """The contract; a subclass says on which log."""

    @pytest.fixture
    async def cluster(self, broker: Broker) -> AsyncIterator[ShardCluster]:
        made = await ShardCluster.create(broker)
        yield made
        await made.stop()

    async def test_events_become_launches(self, cluster: ShardCluster) -> None:
        await cluster.start()
        await cluster.put(schedule("both"), Partitions(FLIGHTS, 2) & Partitions(WEATHER, 1))
        await cluster.emit(landed(0), landed(1), landed(0, "weather"))
        await cluster.settle()

        (job,) = await cluster.jobs()
        assert sorted(event_ids(job)) == ["flights-0", "flights-1", "weather-0"]

    async def test_state_is_read_back_from_the_changelogs(self, cluster: ShardCluster) -> None:
        await cluster.start()
        for number in range(30):
            await cluster.put(schedule(f"s{number}"), Partitions(FLIGHTS, 5))
        await cluster.emit(*(landed(n) for n in range(4)))
        await cluster.settle()
        await cluster.stop()
        await cluster.broker.maintain()

        await cluster.start()
        await cluster.emit(landed(2), landed(4))
        await cluster.settle()

        jobs = await cluster.jobs()
        assert len(jobs) == 30
        assert all(event_ids(job) == [f"flights-{n}" for n in range(5)] for job in jobs)

    async def test_new_owners_again_and_again_under_load_lose_and_double_nothing(self, cluster: ShardCluster) -> None:
        for number in range(10):
            await cluster.put(schedule(f"s{number}"), Partitions(DatasetRef("default", f"d{number}"), 3))
        old = []

        async def emit() -> None:
            for number in range(90):
                await cluster.emit(*(landed(number, f"d{dataset}") for dataset in range(10)))

        emitting = asyncio.create_task(emit())
        while not emitting.done():
            await cluster.start()  # the former owners are still there, and are fenced
            old += cluster.shards
            await asyncio.wait((emitting,), timeout=0.2)
        await emitting
        await cluster.settle()

        jobs = await cluster.jobs()
        assert len({job.id for job in jobs}) == len(jobs) == 300
        for job in jobs:
            first = (job.sequence - 1) * 3
            dataset = schedule_name(job).replace("s", "d")
            assert event_ids(job) == [f"{dataset}-{n}" for n in range(first, first + 3)]
        await asyncio.gather(*(shard.stop() for shard in old))

    async def test_a_flood_of_one_namespace_holds_up_no_other_through_new_owners(self, cluster: ShardCluster) -> None:
        """All of it in one partition, the quiet one's last."""
        quiet = DatasetRef("quiet", "d")
        await cluster.put(schedule(), Partitions(FLIGHTS, 3))
        await cluster.put(ScheduleRef("quiet", "town", "q"), Partitions(quiet, 1))
        for first in range(0, 3_000, 50):
            await cluster.emit(*(landed(number) for number in range(first, first + 50)), partition=0)
        last = Event("last", "test", NOON, PartitionsAdded(quiet, (Partition("n=1", {"n": "1"}),), 1))
        await cluster.emit(last, partition=0)

        small = ShardSettings(max_records=100, few_records=10)
        old = []
        for _ in range(4):
            await cluster.start(small)  # the former owners are still there, and are fenced
            old += cluster.shards
            await asyncio.sleep(0.1)
        await cluster.settle(60.0)

        jobs = await cluster.jobs()
        floods = [job for job in jobs if job.schedule == schedule()]
        assert [event_ids(job) for job in floods] == [
            [f"flights-{number}" for number in range(first, first + 3)] for first in range(0, 3_000, 3)
        ]
        assert [event_ids(job) for job in jobs if job.schedule != schedule()] == [["last"]]
        launched = {record.key or b"": record.time_ms for record in await cluster.records(LAUNCH)}
        quiet_ms = next(at for key, at in launched.items() if key.startswith(b"quiet."))
        assert sum(at > quiet_ms for at in launched.values()) > 300, "it did not wait for the flood"
        await asyncio.gather(*(shard.stop() for shard in old))


@pytest.mark.postgres
class TestOnPostgres(ShardOnALog):
    @pytest.fixture
    async def broker(self, database: str) -> AsyncIterator[Broker]:
        made = await open_broker(database)
        yield made
        await made.close()


@pytest.mark.kafka
class TestOnKafka(ShardOnALog):
    @pytest.fixture
    async def broker(self, kafka_log: str) -> AsyncIterator[Broker]:
        made = await open_broker(kafka_log)
        yield made
        await made.close()
