"""G4: when a change has been acknowledged, every event emitted afterwards is judged by it, on every partition."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random

import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.domain.events.event import partition_key
from streamsched.domain.names import DatasetRef
from streamsched.domain.signals.signal import Put, Subscribe, Unsubscribe
from streamsched.domain.triggers.trigger import Partitions
from streamsched.log.drivers import open_broker
from streamsched.ports.broker import Broker
from tests.support.shard_cluster import ShardCluster, event_ids, landed, schedule

CHANGES = 60


class ReadYourWrites:
    """The contract; a subclass says on which broker."""

    @pytest.fixture
    async def cluster(self, broker: Broker) -> AsyncIterator[ShardCluster]:
        made = await ShardCluster.create(broker)
        yield made
        await made.stop()

    async def test_no_event_is_judged_by_a_definition_older_than_the_last_acknowledged(
        self, cluster: ShardCluster
    ) -> None:
        random = Random(4)
        await cluster.start()
        for generation in range(1, CHANGES + 1):
            await cluster.put(schedule(), Partitions(DatasetRef("default", "flights"), 1 + generation % 2), generation)
            await cluster.emit(
                *(landed(generation * 10 + n) for n in range(2)), partition=random.randrange(cluster.count)
            )
        await cluster.settle()

        judged = {event_id: job.generation for job in await cluster.jobs() for event_id in event_ids(job)}

        for generation in range(1, CHANGES + 1):
            for number in range(2):
                assert judged.get(f"flights-{generation * 10 + number}", CHANGES) >= generation

    async def test_when_what_it_listens_to_changes_no_event_of_the_new_key_is_missed(
        self, cluster: ShardCluster
    ) -> None:
        random = Random(5)
        await cluster.start()
        for generation in range(1, CHANGES + 1):
            now, before = f"d{generation % 3}", f"d{(generation - 1) % 3}"
            await cluster.signal(
                Subscribe(partition_key(DatasetRef("default", now)), schedule(), generation),
                Put(schedule(), generation, True, Partitions(DatasetRef("default", now), 1)),
                Unsubscribe(partition_key(DatasetRef("default", before)), schedule(), generation),
            )
            await cluster.emit(
                landed(generation, now), landed(generation, before), partition=random.randrange(cluster.count)
            )
            await cluster.settle()

        jobs = [(job.generation, event_ids(job)) for job in await cluster.jobs()]

        assert jobs == [(n, [f"d{n % 3}-{n}"]) for n in range(1, CHANGES + 1)]

    async def test_after_a_deletion_no_event_fires(self, cluster: ShardCluster) -> None:
        await cluster.start()
        flights = Partitions(DatasetRef("default", "flights"), 1)
        await cluster.put(schedule(), flights, 1)
        await cluster.emit(landed(1), partition=1)
        await cluster.settle()

        await cluster.drop(schedule(), flights, 2)
        await cluster.emit(*(landed(n) for n in range(2, 30)), partition=2)
        await cluster.settle()
        await cluster.put(schedule(), flights, 3)
        await cluster.emit(landed(30), partition=0)
        await cluster.settle()

        assert [(job.generation, event_ids(job)) for job in await cluster.jobs()] == [
            (1, ["flights-1"]),
            (3, ["flights-30"]),
        ]


class TestOnMemory(ReadYourWrites):
    @pytest.fixture
    def broker(self) -> Broker:
        return MemoryBroker(MemoryLog())


@pytest.mark.kafka
class TestOnKafka(ReadYourWrites):
    @pytest.fixture
    async def broker(self, kafka_log: str) -> AsyncIterator[Broker]:
        made = await open_broker(kafka_log)
        yield made
        await made.close()


@pytest.mark.postgres
class TestOnPostgres(ReadYourWrites):
    @pytest.fixture
    async def broker(self, database: str) -> AsyncIterator[Broker]:
        made = await open_broker(database)
        yield made
        await made.close()
