"""An installation without a catalog: the log is told of schedules as the relay would tell it, workers are processes,
and probes say when all of it is done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import NamedTuple
from uuid import uuid4

import asyncpg

from bench.crew import Crew, Ground
from streamsched.codec import event as event_codec
from streamsched.codec import launch as launch_codec
from streamsched.codec import signal as signal_codec
from streamsched.domain.event import Event, Partition, PartitionsAdded, schedule_key
from streamsched.domain.home import home
from streamsched.domain.names import DatasetRef, ScheduleRef
from streamsched.domain.signal import Put, Subscribe
from streamsched.domain.trigger import Partitions, Trigger, event_keys
from streamsched.ports.broker import Broker, Outgoing, Reader, TopicPartition
from streamsched.ports.drivers import open_broker
from streamsched.ports.topics import LAUNCH, PARTITIONS, SIGNALS, topic_specs
from streamsched.store.migrate import migrate

SHARDS = 4
APPEND = 2000


@dataclass(slots=True)
class Town:
    """An empty installation and its workers."""

    broker: Broker
    crew: Crew
    launched: dict[str, tuple[float, list[str]]]
    counted: int = 0
    reader: Reader | None = None

    async def put(self, names: Iterable[tuple[str, Trigger]]) -> None:
        """Tells the log of enabled schedules, as the relay would."""
        records: list[Outgoing] = []
        for name, trigger in names:
            ref = ScheduleRef("default", "bench", name)
            for each in (*(Subscribe(key, ref, 1) for key in event_keys(trigger)), Put(ref, 1, True, trigger)):
                key, value = signal_codec.encode(each)
                records.append(Outgoing(SIGNALS, home(key, SHARDS), key, value))
        await self.append(records)

    async def append(self, records: Sequence[Outgoing], size: int = APPEND) -> None:
        for start in range(0, len(records), size):
            await self.broker.append(records[start : start + size])

    async def look(self, timeout: float = 0.2, *, decoded: bool = True) -> None:
        """Reads on what was launched: schedule → when we saw it, and the events of its newest job; or counts alone."""
        if self.reader is None:
            self.reader = await self.broker.reader({TopicPartition(LAUNCH, n): 0 for n in range(SHARDS)})
        for chunk in await self.reader.read(max_records=50_000, timeout=timeout):
            at = time.time()
            self.counted += len(chunk.records)
            for record in chunk.records if decoded else ():
                job = launch_codec.decode(record.value or b"")
                ids = dict.fromkeys(event.id for each in job.contributions for event in each.events)
                self.launched[job.schedule.name] = at, list(ids)

    async def worked_off(self) -> None:
        """Until everything that was told before is done: a probe has gone every way that an event can take, from the
        shard that takes it in, which is the home of its key, to the home of who listens.
        """
        mark = uuid4().hex[:6]
        ways = product(range(SHARDS), range(SHARDS))
        probes = [Probe.at(f"mark-{mark}-{a}-{b}", b, wanted=1, heard_in=a) for a, b in ways]
        await self.put((probe.schedule, probe.trigger) for probe in probes)
        await self.append([probe.event(1) for probe in probes])
        async with asyncio.timeout(600):
            while not all(probe.schedule in self.launched for probe in probes):
                await self.look()


class Probe(NamedTuple):
    """A schedule in one shard that listens to a dataset of which another (or the same) is the home."""

    schedule: str
    trigger: Trigger
    about: DatasetRef
    heard_in: int

    @classmethod
    def at(cls, name: str, shard: int, wanted: int, *, heard_in: int | None = None) -> Probe:
        place = shard if heard_in is None else heard_in
        names = (f"{name}-{n}" for n in range(10_000))
        schedule = next(n for n in names if home(schedule_key(ScheduleRef("default", "bench", n)), SHARDS) == shard)
        datasets = (DatasetRef("default", f"{name}-{n}") for n in range(10_000))
        heard = next(d for d in datasets if home(next(iter(event_keys(Partitions(d, 1)))), SHARDS) == place)
        return cls(schedule, Partitions(heard, wanted), heard, place)

    def event(self, number: int) -> Outgoing:
        """It goes to the partition where all of its kind are taken in, behind them."""
        return Outgoing(PARTITIONS, self.heard_in, None, event_codec.encode(_event(self.name(number), self.about)))

    def name(self, number: int) -> str:
        return f"{self.schedule}.{number}"


def landed(number: int, dataset: int) -> Outgoing:
    """A partition of a dataset."""
    event = _event(f"e{number}", DatasetRef("default", f"d{dataset}"))
    return Outgoing(PARTITIONS, home(event.key, SHARDS), None, event_codec.encode(event))


def _event(name: str, dataset: DatasetRef) -> Event:
    fact = PartitionsAdded(dataset, (Partition(f"day={name}", {}, 1_000_000, 10_000),), 1)
    return Event(name, "bench", datetime.now(UTC), fact)


@asynccontextmanager
async def town(place: Ground, lease_s: float) -> AsyncIterator[Town]:
    name = f"cluster_{uuid4().hex[:10]}"
    admin = await asyncpg.connect(place.postgres)
    await admin.execute(f'CREATE DATABASE "{name}"')
    database = place.postgres.replace("/postgres?", f"/{name}?")
    await asyncio.to_thread(migrate, database)
    log = place.log(database)
    broker = await open_broker(log)
    await broker.create_topics(topic_specs(SHARDS, timedelta(days=1)))
    crew = Crew(database, log, SHARDS, lease_s, place.scratch)
    try:
        yield Town(broker, crew, {})
    finally:
        crew.stop()
        await broker.close()
        await admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
        await admin.close()
