"""A scheduler for the catalog: real PostgreSQL, the memory log, and a relay that runs or is run by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
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
from streamsched.catalog.requested_change import RequestedChange
from streamsched.codec.records import signal as signal_codec
from streamsched.domain.names import AppRef, DatasetRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.app import AppDefinition
from streamsched.domain.schedules.schedule import BashJob, Program, Schedule
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Signal
from streamsched.domain.triggers.trigger import Partitions, Trigger
from streamsched.log.records import records
from streamsched.log.topics import SIGNALS, topic_specs
from streamsched.ports.broker import Broker, TopicPartition
from streamsched.ports.notifier import OUTBOX, RELAYED
from streamsched.ports.outbox import OutboxRecord
from streamsched.store.catalog import outbox
from streamsched.store.catalog.catalog import CatalogStore
from streamsched.store.catalog.catalog_reader import CatalogReader
from streamsched.store.catalog.outbox import PostgresOutbox
from streamsched.store.catalog.records import ScheduleStatus
from streamsched.store.server.notifier import PostgresNotifier
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
class CatalogProcess:
    """One process: a pool, a notifier, a catalog; `relaying` runs its relay."""

    pool: asyncpg.Pool
    notifier: PostgresNotifier
    broker: Broker
    clock: SettableClock = field(default_factory=SettableClock)

    def __post_init__(self) -> None:
        self.outbox = PostgresOutbox(self.pool)
        self.reader = CatalogReader(self.pool)
        self.store = CatalogStore(self.pool)
        self.catalog = self.catalog_with(patience=15)

    def catalog_with(self, *, patience: float = 15, largest_record: int | None = None) -> Catalog:
        return Catalog(
            store=self.store,
            reader=self.reader,
            acks=self.outbox,
            notifier=self.notifier,
            clock=self.clock,
            patience=patience,
            largest_record=largest_record,
        )

    async def status_after(self, change: RequestedChange) -> ScheduleStatus:
        """The schedule of `schedule()` after the change."""
        await change.apply()
        return await self.reader.schedule(schedule().ref)

    async def write(self, records: Sequence[OutboxRecord]) -> list[int]:
        """To the outbox, in a transaction of their own; their ids."""
        async with self.pool.acquire() as connection, connection.transaction():
            return await outbox.write(connection, records)

    def relay(self) -> Relay:
        return Relay(broker=self.broker, outbox=self.outbox, notifier=self.notifier)

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
        async with asyncio.timeout(20), self.notifier.listen(OUTBOX) as subscription:
            while not await self.outbox.list_pending(limit=1):
                await subscription.wait(0.5)

    async def relayed(self) -> None:
        """Until the outbox is empty."""
        async with asyncio.timeout(20), self.notifier.listen(RELAYED) as subscription:
            while await self.outbox.list_pending(limit=1):
                await subscription.wait(0.5)

    async def signals(self) -> list[Signal]:
        """What the log has on `signals`, partition by partition, each at its home."""
        return [signal_codec.decode(key, value) for key, value in await self.signal_records()]

    async def signal_records(self) -> list[tuple[bytes, bytes]]:
        """The same as keys and values."""
        found: list[tuple[bytes, bytes]] = []
        for partition in range(SHARDS):
            async for record in records(self.broker, TopicPartition(SIGNALS, partition)):
                assert record.key is not None
                assert record.value is not None
                assert home(record.key, SHARDS) == partition
                found.append((record.key, record.value))
        return found


@pytest.fixture
async def broker() -> Broker:
    return await furnished(MemoryBroker(MemoryLog()))


async def furnished(broker: Broker) -> Broker:
    """The broker, with every topic."""
    await broker.create_topics(topic_specs(SHARDS, timedelta(days=7)))
    return broker


@pytest.fixture
async def notifier(database: str) -> AsyncIterator[PostgresNotifier]:
    notifier = PostgresNotifier(database)
    yield notifier
    await notifier.close()


@pytest.fixture
def scheduler(pool: asyncpg.Pool, notifier: PostgresNotifier, broker: Broker) -> CatalogProcess:
    return CatalogProcess(pool, notifier, broker)


@pytest.fixture
async def relaying_scheduler(scheduler: CatalogProcess) -> AsyncIterator[CatalogProcess]:
    """A scheduler whose relay runs."""
    async with scheduler.relaying():
        yield scheduler


async def explained(connection: Any, query: str, *values: object) -> list[dict[str, Any]]:
    """The nodes of the plan that ran."""
    row = await connection.fetchval("EXPLAIN (ANALYZE, FORMAT JSON) " + query, *values)

    def walk(node: dict[str, Any]) -> list[dict[str, Any]]:
        return [node, *(deeper for child in node.get("Plans", []) for deeper in walk(child))]

    return walk(orjson.loads(row)[0]["Plan"])


@pytest.fixture
async def scheduler_on_one_clock(pool: asyncpg.Pool, notifier: PostgresNotifier) -> CatalogProcess:
    """A scheduler whose log and whose timers go by one clock, with one schedule."""
    clock = SettableClock()
    scheduler = CatalogProcess(pool, notifier, await furnished(MemoryBroker(MemoryLog(clock))), clock)
    async with scheduler.relaying():
        await scheduler.catalog.deploy(app(schedule())).apply()
    return scheduler
