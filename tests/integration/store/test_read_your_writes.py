"""Promise G4 through the whole log: what is emitted after a change has returned is judged by the new definition, and
never by an older one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.domain.names import DatasetRef
from streamsched.domain.triggers.trigger import Partitions
from streamsched.log.drivers import open_broker
from streamsched.ports.broker import Broker
from tests.support.shard_cluster import ShardCluster, event_ids, landed

from .conftest import SHARDS, CatalogProcess, app, furnished, schedule

WEEKLY = schedule().ref
FIRST, SECOND = (Partitions(DatasetRef("default", name), 1) for name in ("first", "second"))
CHANGES = 200


@pytest.fixture(params=["memory", "postgres"])
async def broker(request: pytest.FixtureRequest, database: str) -> AsyncIterator[Broker]:
    broker = MemoryBroker(MemoryLog()) if request.param == "memory" else await open_broker(database)
    yield await furnished(broker)
    await broker.close()


@pytest.fixture
async def cluster(relaying_scheduler: CatalogProcess) -> AsyncIterator[ShardCluster]:
    cluster = await ShardCluster.create(relaying_scheduler.broker, SHARDS)
    await cluster.start()
    yield cluster
    await cluster.stop()


async def test_each_event_is_judged_by_the_definition_that_stood_when_it_was_emitted(
    relaying_scheduler: CatalogProcess, cluster: ShardCluster
) -> None:
    catalog = relaying_scheduler.catalog
    await catalog.deploy(app(schedule(trigger=FIRST))).apply()
    expected: set[tuple[int, str]] = set()
    stood: dict[str, int] = {}

    for number in range(CHANGES):
        record = (await catalog.reader.schedule(WEEKLY)).record
        if not record.enabled:
            change = catalog.enable(WEEKLY)
        elif number % 5 == 4:
            change = catalog.disable(WEEKLY)
        else:
            other = SECOND if record.definition.trigger == FIRST else FIRST
            change = catalog.update(schedule(trigger=other))
        record = (await relaying_scheduler.status_after(change)).record
        events = landed(number, "first"), landed(number, "second")
        await cluster.emit(*events, partition=number % SHARDS)  # any producer's partitioner
        heard = events[0] if record.definition.trigger == FIRST else events[1]
        for event in events:
            stood[event.id] = record.generation
        if number % 3 == 0:  # else the next change overtakes the events, and may judge them
            await cluster.settle()
            if record.enabled:
                expected.add((record.generation, heard.id))
    await cluster.settle()

    reported = {(job.generation, event) for job in await cluster.jobs() for event in event_ids(job)}
    assert expected <= reported
    assert [(generation, event) for generation, event in reported if generation < stood[event]] == []
