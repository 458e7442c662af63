"""Benchmark of the pipeline from the log to the job's row in PostgreSQL, on the postgres broker.

Throughput: events wait in the public topics; measured from the worker's start to the last job row. For comparison, the
raw loop reads the same records with the same reader and decodes them with orjson. `events_per_s`, `raw_per_s` and their
`ratio` are for events appended one by one, as emitters do; `batch_…` for appends of 500. `cpu_us_per_event` is the CPU
time of this process (worker, intake and driver, without PostgreSQL), which other load on the machine affects less.
Compare ratios of equal `--events` only: with single appends the raw loop slows down as the backlog grows (12,000 events
at 250,000/s, 60,000 at 160,000/s).
Latency: from the emitter's append call to the commit of the job row, at a steady rate.

    python -m bench.pipeline [--events N] [--rounds N] [--seconds N]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import orjson
import structlog
import uvloop

from bench.installation import SHARDS, Installation, about, fresh_installation, server
from streamsched.codec import event as event_codec
from streamsched.domain.events.event import Event, Partition, PartitionsAdded
from streamsched.domain.names import DatasetRef
from streamsched.domain.signals.home import home
from streamsched.domain.triggers.trigger import Partitions
from streamsched.log.topics import PARTITIONS
from streamsched.ports.broker import Outgoing, TopicPartition
from streamsched.ports.clock import SystemClock
from streamsched.ports.intake import IntakeBatch, IntakeResult, IntakeStore, ReadyJobRow
from streamsched.process.memory import configure_memory
from streamsched.store.jobs.intake import JobIntake, PostgresIntake

DATASETS = 100
PER_JOB = 10


@dataclass(slots=True)
class Timed:
    """An intake store that counts committed jobs and stores in `seen` the commit time of each event's job."""

    store: IntakeStore[ReadyJobRow]
    seen: dict[str, float] | None = None
    jobs: int = 0

    async def positions(self, topic: str, partitions: int) -> Mapping[int, int]:
        return await self.store.positions(topic, partitions)

    async def take(self, topic: str, batches: Sequence[IntakeBatch[ReadyJobRow]], *, now: datetime) -> IntakeResult:
        taken = await self.store.take(topic, batches, now=now)
        at = time.perf_counter()
        self.jobs += taken.stored
        if self.seen is None:
            return taken
        for batch in batches:
            for satisfaction in batch.rows:
                self.seen[orjson.loads(satisfaction.ready)["events"][0]["id"]] = at
        return taken


def record(number: int) -> Outgoing:
    """Event `number`: one new partition of one of the datasets."""
    dataset = DatasetRef("default", f"d{number % DATASETS}")
    day = Partition(f"day={number}", {"day": str(number)}, 1_000_000, 10_000)
    event = Event(f"e{number}", "bench", datetime.now(UTC), PartitionsAdded(dataset, (day,), 1))
    return Outgoing(PARTITIONS, home(event.key, SHARDS), event.key.encode(), event_codec.encode(event))


async def preload(site: Installation, events: int, batch: int) -> None:
    """Appends the events, `batch` per append, with 8 concurrent appends."""
    limit = asyncio.Semaphore(8)

    async def append(start: int) -> None:
        async with limit:
            await site.broker.append([record(n) for n in range(start, min(start + batch, events))])

    await asyncio.gather(*(append(start) for start in range(0, events, batch)))


async def raw(site: Installation, events: int) -> float:
    """Seconds to read and decode all events."""
    reader = await site.broker.reader({TopicPartition(PARTITIONS, n): 0 for n in range(SHARDS)})
    began, read = time.perf_counter(), 0
    while read < events:
        for chunk in await reader.read(max_records=8000, timeout=5):
            for item in chunk.records:
                orjson.loads(item.value or b"")
            read += len(chunk.records)
    took = time.perf_counter() - began
    await reader.close()
    return took


class Throughput(NamedTuple):
    """Events per second of the pipeline and of the raw loop; the pipeline's CPU microseconds per event."""

    ours: float
    raw: float
    cpu_us: float


async def throughput(url: str, events: int, batch: int) -> Throughput:
    async with fresh_installation(url) as site:
        await site.deploy({f"s{n}": Partitions(DatasetRef("default", f"d{n}"), PER_JOB) for n in range(DATASETS)})
        store = Timed(PostgresIntake(site.pool))
        intake = JobIntake(site.broker, store, SystemClock())
        async with site.worker():
            await preload(site, 1000, 1000)  # warms up
            while store.jobs < 1000 // PER_JOB:
                await intake.run_once(timeout=1)
        await preload_more(site, events, batch)
        jobs = 1000 // PER_JOB + events // PER_JOB
        async with site.worker() as worker:
            taking = asyncio.create_task(intake.run())
            began, cpu = time.perf_counter(), time.process_time()
            while store.jobs < jobs:
                await asyncio.sleep(0.005)
            took, cpu = time.perf_counter() - began, time.process_time() - cpu
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
            assert len(worker.shards) == SHARDS
        return Throughput(events / took, (events + 1000) / await raw(site, events + 1000), 1e6 * cpu / events)


async def preload_more(site: Installation, events: int, batch: int) -> None:
    limit = asyncio.Semaphore(8)

    async def append(start: int) -> None:
        async with limit:
            await site.broker.append([record(1000 + n) for n in range(start, min(start + batch, events))])

    await asyncio.gather(*(append(start) for start in range(0, events, batch)))


async def latency(url: str, rate: int, seconds: float) -> list[float]:
    """Milliseconds from emit to job row of each event, sorted."""
    async with fresh_installation(url) as site:
        await site.deploy({f"s{n}": Partitions(DatasetRef("default", f"d{n}"), 1) for n in range(DATASETS)})
        seen: dict[str, float] = {}
        store = Timed(PostgresIntake(site.pool), seen)
        taking = asyncio.create_task(JobIntake(site.broker, store, SystemClock()).run())
        sent: dict[str, float] = {}
        async with site.worker():
            await site.broker.append([record(10_000_000 + n) for n in range(DATASETS)])
            while store.jobs < DATASETS:
                await asyncio.sleep(0.01)
            pending: set[asyncio.Task[None]] = set()
            began = time.perf_counter()
            for number in range(int(rate * seconds)):
                await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
                sent[f"e{number}"] = time.perf_counter()
                task = asyncio.create_task(site.broker.append([record(number)]))
                pending.add(task)
                task.add_done_callback(pending.discard)
            async with asyncio.timeout(30):
                while store.jobs < DATASETS + len(sent):
                    await asyncio.sleep(0.01)
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        return sorted((seen[event] - at) * 1000 for event, at in sent.items())


def spread(values: Sequence[float]) -> str:
    return f"median {statistics.median(values):,.0f}, {min(values):,.0f} to {max(values):,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000, help="events of a throughput round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of a latency round")
    args = parser.parse_args()
    if args.events % (DATASETS * PER_JOB):
        parser.error(f"--events must be a multiple of {DATASETS * PER_JOB}: {PER_JOB} for each job of {DATASETS}")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    configure_memory()
    print(about(["asyncpg", "faust-streaming", "orjson", "uvloop"]))
    print("command: python -m bench.pipeline", *sys.argv[1:])
    result: dict[str, float] = {}
    with server() as url:
        for name, batch in (("", 1), ("batch_", 500)):
            rounds = [uvloop.run(throughput(url, args.events, batch)) for _ in range(args.rounds)]
            ours, raws, cpu = zip(*rounds, strict=True)
            what = "one append each" if batch == 1 else f"appends of {batch}"
            print(f"{args.events:,} events, {what}: {spread(ours)} events/s; raw read and decode {spread(raws)}")
            result[f"{name}events_per_s"] = round(statistics.median(ours))
            result[f"{name}raw_per_s"] = round(statistics.median(raws))
            result[f"{name}ratio"] = round(statistics.median(ours) / statistics.median(raws), 3)
            result[f"{name}cpu_us_per_event"] = round(statistics.median(cpu), 1)
        for rate in (50, 500):
            values = uvloop.run(latency(url, rate, args.seconds))
            p50, p99 = values[len(values) // 2], values[int(len(values) * 0.99)]
            print(
                f"{rate} events/s for {args.seconds:g} s: p50 {p50:.1f} ms, p99 {p99:.1f} ms, most {values[-1]:.1f} ms"
            )
            result[f"p50_ms_at_{rate}"], result[f"p99_ms_at_{rate}"] = round(p50, 1), round(p99, 1)
    print("RESULT", orjson.dumps(result).decode())


if __name__ == "__main__":
    main()
