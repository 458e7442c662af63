"""G4: when a change has been acknowledged, every event emitted afterwards is judged by it, whoever partitions it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random

import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.domain.event import partition_key
from streamsched.domain.names import DatasetRef
from streamsched.domain.signal import Put, Subscribe, Unsubscribe
from streamsched.domain.trigger import Partitions
from streamsched.ports.broker import Broker
from streamsched.ports.drivers import open_broker
from streamsched.testing.town import Town, event_ids, landed, schedule

CHANGES = 60


class ReadYourWrites:
    """The contract; a subclass says on which broker."""

    @pytest.fixture
    async def town(self, broker: Broker) -> AsyncIterator[Town]:
        made = await Town.found(broker)
        yield made
        await made.stop()

    async def test_no_event_is_judged_by_a_definition_older_than_the_last_acknowledged(self, town: Town) -> None:
        random = Random(4)
        await town.start()
        for generation in range(1, CHANGES + 1):
            await town.put(schedule(), Partitions(DatasetRef("default", "flights"), 1 + generation % 2), generation)
            await town.emit(*(landed(generation * 10 + n) for n in range(2)), partition=random.randrange(town.count))
        await town.settled()

        judged = {event_id: job.generation for job in await town.jobs() for event_id in event_ids(job)}

        for generation in range(1, CHANGES + 1):
            for number in range(2):
                assert judged.get(f"flights-{generation * 10 + number}", CHANGES) >= generation

    async def test_when_what_it_listens_to_changes_no_event_of_the_new_key_is_missed(self, town: Town) -> None:
        random = Random(5)
        await town.start()
        for generation in range(1, CHANGES + 1):
            now, before = f"d{generation % 3}", f"d{(generation - 1) % 3}"
            await town.signal(
                Subscribe(partition_key(DatasetRef("default", now)), schedule(), generation),
                Put(schedule(), generation, True, Partitions(DatasetRef("default", now), 1)),
                Unsubscribe(partition_key(DatasetRef("default", before)), schedule(), generation),
            )
            await town.emit(landed(generation, now), landed(generation, before), partition=random.randrange(town.count))
            await town.settled()

        jobs = [(job.generation, event_ids(job)) for job in await town.jobs()]

        assert jobs == [(n, [f"d{n % 3}-{n}"]) for n in range(1, CHANGES + 1)]

    async def test_after_a_deletion_no_event_fires(self, town: Town) -> None:
        await town.start()
        flights = Partitions(DatasetRef("default", "flights"), 1)
        await town.put(schedule(), flights, 1)
        await town.emit(landed(1), partition=1)
        await town.settled()

        await town.drop(schedule(), flights, 2)
        await town.emit(*(landed(n) for n in range(2, 30)), partition=2)
        await town.settled()
        await town.put(schedule(), flights, 3)
        await town.emit(landed(30), partition=0)
        await town.settled()

        assert [(job.generation, event_ids(job)) for job in await town.jobs()] == [
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
