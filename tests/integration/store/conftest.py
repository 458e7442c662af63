"""A house for the catalog: real PostgreSQL, the memory log, and a relay that runs or is run by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import asyncpg
import orjson
import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.catalog.catalog import Catalog
from streamsched.catalog.relay import Relay
from streamsched.codec import signal as signal_codec
from streamsched.domain.app import AppDefinition
from streamsched.domain.home import home
from streamsched.domain.names import AppRef, DatasetRef, ProgramRef, ScheduleRef
from streamsched.domain.schedule import BashJob, Program, Schedule
from streamsched.domain.signal import Signal
from streamsched.domain.trigger import Partitions, Trigger
from streamsched.ports.bell import OUTBOX, RELAYED
from streamsched.ports.broker import Broker, TopicPartition
from streamsched.ports.records import records
from streamsched.ports.topics import SIGNALS, topic_specs
from streamsched.store.bell import PostgresBell
from streamsched.store.catalog import PostgresCatalogStore
from streamsched.store.listing import PostgresCatalogReader
from streamsched.store.outbox import PostgresOutbox
from streamsched.testing.clock import SettableClock

SHARDS = 4
APP = AppRef("default", "flights")
JOIN = Program(ProgramRef("default", "flights", "join"), BashJob("true"))
FLIGHTS = Partitions(DatasetRef("default", "flights"), 7)
WEATHER = Partitions(DatasetRef("default", "weather"), 7)


def schedule(name: str = "weekly", trigger: Trigger = FLIGHTS, **more: object) -> Schedule:
    return Schedule(ScheduleRef("default", "flights", name), JOIN.ref, trigger, **more)  # type: ignore[arg-type]


def app(*schedules: Schedule, enabled: bool = True, programs: tuple[Program, ...] = (JOIN,)) -> AppDefinition:
    names = frozenset(each.ref.name for each in schedules) if enabled else frozenset()
    return AppDefinition(APP, programs, schedules, names)


@dataclass
class House:
    """One process: a pool, a bell, a catalog; `relaying` runs its relay."""

    pool: asyncpg.Pool
    bell: PostgresBell
    broker: Broker
    clock: SettableClock = field(default_factory=SettableClock)

    def __post_init__(self) -> None:
        self.outbox = PostgresOutbox(self.pool)
        self.reader = PostgresCatalogReader(self.pool)
        self.store = PostgresCatalogStore(self.pool)
        self.catalog = self.catalog_with(patience=15)

    def catalog_with(self, *, patience: float = 15, largest_record: int | None = None) -> Catalog:
        return Catalog(
            store=self.store,
            reader=self.reader,
            receipts=self.outbox,
            bell=self.bell,
            clock=self.clock,
            patience=patience,
            largest_record=largest_record,
        )

    def relay(self) -> Relay:
        return Relay(broker=self.broker, outbox=self.outbox, bell=self.bell)

    @asynccontextmanager
    async def relaying(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.relay().run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def written(self) -> None:
        """Until something is in the outbox."""
        async with asyncio.timeout(20), self.bell.listen(OUTBOX) as ring:
            while not await self.outbox.pending(limit=1):
                await ring.wait(0.5)

    async def relayed(self) -> None:
        """Until the outbox is empty."""
        async with asyncio.timeout(20), self.bell.listen(RELAYED) as ring:
            while await self.outbox.pending(limit=1):
                await ring.wait(0.5)

    async def signals(self) -> list[Signal]:
        """What the log has on `signals`, partition by partition, each at its home."""
        found: list[Signal] = []
        for partition in range(SHARDS):
            async for record in records(self.broker, TopicPartition(SIGNALS, partition)):
                assert record.key is not None
                assert record.value is not None
                assert home(record.key, SHARDS) == partition
                found.append(signal_codec.decode(record.key, record.value))
        return found


@pytest.fixture
async def broker() -> Broker:
    return await furnished(MemoryBroker(MemoryLog()))


async def furnished(broker: Broker) -> Broker:
    """The broker, with every topic."""
    await broker.create_topics(topic_specs(SHARDS, timedelta(days=7)))
    return broker


@pytest.fixture
async def bell(database: str) -> AsyncIterator[PostgresBell]:
    bell = PostgresBell(database)
    yield bell
    await bell.close()


@pytest.fixture
def house(pool: asyncpg.Pool, bell: PostgresBell, broker: Broker) -> House:
    return House(pool, bell, broker)


@pytest.fixture
async def open_house(house: House) -> AsyncIterator[House]:
    """A house whose relay runs."""
    async with house.relaying():
        yield house


async def explained(connection: Any, query: str, *values: object) -> list[dict[str, Any]]:
    """The nodes of the plan that ran."""
    row = await connection.fetchval("EXPLAIN (ANALYZE, FORMAT JSON) " + query, *values)

    def walk(node: dict[str, Any]) -> list[dict[str, Any]]:
        return [node, *(deeper for child in node.get("Plans", []) for deeper in walk(child))]

    return walk(orjson.loads(row)[0]["Plan"])


@pytest.fixture
async def house_of_one_clock(pool: asyncpg.Pool, bell: PostgresBell) -> House:
    """A house whose log and whose timers go by one clock, with one schedule."""
    clock = SettableClock()
    house = House(pool, bell, await furnished(MemoryBroker(MemoryLog(clock))), clock)
    async with house.relaying():
        await house.catalog.deploy(app(schedule()))
    return house
