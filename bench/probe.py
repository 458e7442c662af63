"""An installation without a catalog: schedules are appended to the log as the relay would append them, workers are
processes, and probes detect when all events have been processed."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import NamedTuple
from uuid import uuid4

import asyncpg

from bench.worker_processes import Servers, WorkerProcesses
from streamsched.codec import event as event_codec
from streamsched.codec.records import launch as launch_codec
from streamsched.codec.records import signal as signal_codec
from streamsched.domain.events.event import Event, Partition, PartitionsAdded, schedule_key
from streamsched.domain.names import DatasetRef, ScheduleRef
from streamsched.domain.signals.home import choose_affinity, home
from streamsched.domain.signals.signal import Put, Subscribe
from streamsched.domain.triggers.trigger import Partitions, Trigger, event_keys
from streamsched.log.drivers import open_broker
from streamsched.log.topics import LAUNCH, PARTITIONS, SIGNALS, topic_specs
from streamsched.ports.broker import Broker, Outgoing, Reader, TopicPartition
from streamsched.store.server.migrate import migrate

SHARDS = 4
APPEND = 2000
_STORED = (
    "INSERT INTO intake_positions VALUES ($1, $2, $3)"
    " ON CONFLICT (topic, partition) DO UPDATE SET position = excluded.position"
)


@dataclass(slots=True)
class BareInstallation:
    """An installation without schedules, and its workers.

    Attributes:
        launched: schedule → when its newest job was read from the log, and the ids of the job's events.
        counted: jobs read so far.
        jobs: when each job was read from the log, and the id of its last event.
        affinities: how many schedules have each affinity.
    """

    broker: Broker
    database: asyncpg.Connection
    workers: WorkerProcesses
    launched: dict[str, tuple[float, list[str]]]
    counted: int = 0
    reader: Reader | None = None
    jobs: list[tuple[float, str]] = field(default_factory=list)
    affinities: Counter[int] = field(default_factory=Counter[int])

    async def put(self, names: Iterable[tuple[str, Trigger]], *, with_affinity: bool = True) -> None:
        """Appends the signals of enabled schedules, as the relay would. Without affinity each lives at the home of its
        own name.
        """
        records: list[Outgoing] = []
        for name, trigger in names:
            ref, affinity = ScheduleRef("default", "bench", name), None
            if with_affinity and (affinity := choose_affinity(event_keys(trigger), self.affinities)) is not None:
                self.affinities[affinity] += 1
            for each in (
                *(Subscribe(key, ref, 1, affinity) for key in event_keys(trigger)),
                Put(ref, 1, True, trigger),
            ):
                key, value = signal_codec.encode(each, affinity)
                records.append(Outgoing(SIGNALS, home(key, SHARDS), key, value))
        await self.append(records)

    async def append(self, records: Sequence[Outgoing], size: int = APPEND) -> None:
        for start in range(0, len(records), size):
            await self.broker.append(records[start : start + size])

    async def poll(self, timeout: float = 0.2, *, decoded: bool = True) -> None:
        """Reads new jobs into `launched` and `counted`; not `decoded`: only counts them. To workers it is the intake:
        they take backlogs as far as jobs are stored.
        """
        if self.reader is None:
            self.reader = await self.broker.reader({TopicPartition(LAUNCH, n): 0 for n in range(SHARDS)})
        for chunk in await self.reader.read(max_records=50_000, timeout=timeout):
            at = time.time()
            await self.database.execute(_STORED, LAUNCH, chunk.partition, chunk.next_position)
            self.counted += len(chunk.records)
            for record in chunk.records if decoded else ():
                job = launch_codec.decode(record.value or b"")
                assert job.schedule is not None
                ids = dict.fromkeys(event.id for each in job.contributions for event in each.events)
                self.launched[job.schedule.name] = at, list(ids)
                self.jobs.append((at, next(reversed(ids))))

    async def drain(self) -> None:
        """Waits until everything appended before has been processed: one probe event has passed from each shard, as the
        home of its event key, to each shard, as the home of a listening schedule.
        """
        mark = uuid4().hex[:6]
        pairs = product(range(SHARDS), range(SHARDS))
        probes = [Probe.at(f"mark-{mark}-{a}-{b}", b, wanted=1, key_shard=a) for a, b in pairs]
        await self.put(((probe.schedule, probe.trigger) for probe in probes), with_affinity=False)
        await self.append([probe.event(1) for probe in probes])
        async with asyncio.timeout(600):
            while not all(probe.schedule in self.launched for probe in probes):
                await self.poll()


class Probe(NamedTuple):
    """A schedule whose home is one shard, listening to a dataset whose home is another (or the same) shard."""

    schedule: str
    trigger: Trigger
    dataset: DatasetRef
    key_shard: int

    @classmethod
    def at(cls, name: str, shard: int, wanted: int, *, key_shard: int | None = None) -> Probe:
        key_home = shard if key_shard is None else key_shard
        names = (f"{name}-{n}" for n in range(10_000))
        schedule = next(n for n in names if home(schedule_key(ScheduleRef("default", "bench", n)), SHARDS) == shard)
        candidates = (DatasetRef("default", f"{name}-{n}") for n in range(10_000))
        dataset = next(d for d in candidates if home(next(iter(event_keys(Partitions(d, 1)))), SHARDS) == key_home)
        return cls(schedule, Partitions(dataset, wanted), dataset, key_home)

    def event(self, number: int) -> Outgoing:
        """Its event number `number`, for the ingest partition of its event key."""
        return Outgoing(PARTITIONS, self.key_shard, None, event_codec.encode(_event(self.name(number), self.dataset)))

    def name(self, number: int) -> str:
        return f"{self.schedule}.{number}"


def partition_record(number: int, dataset: int) -> Outgoing:
    """An event with a new partition of a dataset."""
    event = _event(f"e{number}", DatasetRef("default", f"d{dataset}"))
    return Outgoing(PARTITIONS, home(event.key, SHARDS), None, event_codec.encode(event))


def _event(name: str, dataset: DatasetRef) -> Event:
    fact = PartitionsAdded(dataset, (Partition(f"day={name}", {}, 1_000_000, 10_000),), 1)
    return Event(name, "bench", datetime.now(UTC), fact)


@asynccontextmanager
async def bare_installation(servers: Servers, lease_s: float) -> AsyncIterator[BareInstallation]:
    name = f"cluster_{uuid4().hex[:10]}"
    admin = await asyncpg.connect(servers.postgres)
    await admin.execute(f'CREATE DATABASE "{name}"')
    database = servers.postgres.replace("/postgres?", f"/{name}?")
    await asyncio.to_thread(migrate, database)
    log = servers.log(database)
    broker = await open_broker(log)
    await broker.create_topics(topic_specs(SHARDS, timedelta(days=1)))
    connection = await asyncpg.connect(database)
    workers = WorkerProcesses(database, log, SHARDS, lease_s, servers.scratch)
    try:
        yield BareInstallation(broker, connection, workers, {})
    finally:
        workers.stop()
        await broker.close()
        await connection.close()
        await admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
        await admin.close()
