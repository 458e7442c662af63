"""How quickly are a dead worker's shards judged again, what does a second worker add, and what do many schedules cost?

    make bench NAME=cluster         python -m bench.cluster [--broker kafka|postgres] [--keys N] [--rounds N] …

Workers are processes (`streamsched worker`), each pinned to a core of its own; Kafka or PostgreSQL, and this process,
share the cores with them, as they must on a machine with two.

Takeover: two workers share 4 shards with twice so many schedules as are to be taken over, each of which has counted one
of seven events. One worker gets SIGKILL; at once an event comes to each of its shards that completes a schedule which
had counted one of two. `takeover_s_…`: from the kill until the last of those shards has launched its job, told of both
events. That is mostly the lease (`--lease`) running out; the table says how much is left after it: from `shard.taken`
to the job. `stock_recovery_s_100k`: a stock Faust app (`bench.stock`) with as many keys in the partitions of the worker
that was killed, from the moment they are assigned to the other; its session runs out in 6 s, the least a Kafka allows.

`two_over_one`: a backlog of events, each heard by one of 400 schedules; events/s of two workers over those of one,
until the last job is in the log. Beside it the same by CPU seconds of the workers, which is what two would do if the
log had cores of its own.

`cost_100k_over_10_schedules`: CPU of a worker per event at a steady rate when it has 100,000 schedules, over that when
it has 10; every event is heard by one of them, in turn.

`kb_per_1k_schedules`: what workers have grown by with the schedules of the takeover, states decoded, one event counted.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import uuid4

import asyncpg
import orjson
import structlog
import uvloop

from bench import stock
from bench.crew import Crew, Ground, ground
from bench.town import about
from streamsched.codec import event as event_codec
from streamsched.codec import launch as launch_codec
from streamsched.codec import signal as signal_codec
from streamsched.domain.event import CustomHappened, Event, Partition, PartitionsAdded, schedule_key
from streamsched.domain.home import home
from streamsched.domain.names import DatasetRef, EventName, ScheduleRef
from streamsched.domain.signal import Put, Subscribe
from streamsched.domain.trigger import CustomEvent, Partitions, Trigger, event_keys
from streamsched.ports.broker import Broker, Outgoing, Reader, TopicPartition
from streamsched.ports.drivers import open_broker
from streamsched.ports.topics import EVENTS, LAUNCH, PARTITIONS, SIGNALS, topic_specs
from streamsched.store.migrate import migrate

SHARDS = 4
CORES = (0, 1)
APPEND = 2000
WANTED = 7
PER_JOB = 10
#: Events a second of the steady rate.
STEADY = 500
#: A Kafka allows no shorter session.
LEAST_SESSION_S = 6.0


@dataclass(slots=True)
class Town:
    """An empty installation and its workers."""

    broker: Broker
    crew: Crew
    launched: dict[str, tuple[float, list[str]]]
    counted: int = 0
    reader: Reader | None = None

    async def put(self, schedules: dict[str, Trigger]) -> None:
        """Tells the log of enabled schedules, as the relay would."""
        records: list[Outgoing] = []
        for name, trigger in schedules.items():
            ref = ScheduleRef("default", "bench", name)
            for each in (*(Subscribe(key, ref, 1) for key in event_keys(trigger)), Put(ref, 1, True, trigger)):
                key, value = signal_codec.encode(each)
                records.append(Outgoing(SIGNALS, home(key, SHARDS), key, value))
        await self.append(records)

    async def append(self, records: Sequence[Outgoing], size: int = APPEND) -> None:
        for start in range(0, len(records), size):
            await self.broker.append(records[start : start + size])

    async def look(self, timeout: float = 0.2) -> None:
        """Reads on what was launched: schedule → when we saw it, and the events of its newest job."""
        if self.reader is None:
            self.reader = await self.broker.reader({TopicPartition(LAUNCH, n): 0 for n in range(SHARDS)})
        for chunk in await self.reader.read(max_records=50_000, timeout=timeout):
            at = time.time()
            self.counted += len(chunk.records)
            for record in chunk.records:
                job = launch_codec.decode(record.value or b"")
                ids = dict.fromkeys(event.id for each in job.contributions for event in each.events)
                self.launched[job.schedule.name] = at, list(ids)

    async def worked_off(self, shards: Sequence[int] = range(SHARDS)) -> None:
        """Until a schedule of each shard, told last of all, has fired: everything before it is done."""
        marks = {f"mark-{uuid4().hex[:6]}-{shard}": shard for shard in shards}
        placed = {name: Probe.at(name, shard, wanted=1) for name, shard in marks.items()}
        await self.put({probe.schedule: probe.trigger for probe in placed.values()})
        async with asyncio.timeout(600):
            while not all(probe.schedule in self.launched for probe in placed.values()):
                await self.append([probe.event(1) for probe in placed.values()])
                await self.look()


class Probe(NamedTuple):
    """A schedule that lives in a shard with everything it listens to."""

    schedule: str
    trigger: Trigger
    about: EventName
    shard: int

    @classmethod
    def at(cls, name: str, shard: int, wanted: int) -> Probe:
        names = (f"{name}-{n}" for n in range(10_000))
        schedule = next(n for n in names if home(schedule_key(ScheduleRef("default", "bench", n)), SHARDS) == shard)
        events = (EventName("default", f"{name}-{n}") for n in range(10_000))
        heard = next(e for e in events if home(next(iter(event_keys(CustomEvent(e, 1)))), SHARDS) == shard)
        return cls(schedule, CustomEvent(heard, wanted), heard, shard)

    def event(self, number: int) -> Outgoing:
        made = Event(f"{self.schedule}.{number}", "bench", datetime.now(UTC), CustomHappened(self.about, {}))
        return Outgoing(EVENTS, self.shard, None, event_codec.encode(made))


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


def landed(number: int, dataset: int) -> Outgoing:
    """A partition of a dataset."""
    fact = PartitionsAdded(
        DatasetRef("default", f"d{dataset}"), (Partition(f"day={number}", {}, 1_000_000, 10_000),), 1
    )
    event = Event(f"e{number}", "bench", datetime.now(UTC), fact)
    return Outgoing(PARTITIONS, home(event.key, SHARDS), None, event_codec.encode(event))


async def balanced(crew: Crew, seconds: float = 90) -> None:
    """Every worker runs its share, and all shards are run."""
    async with asyncio.timeout(seconds):
        while True:
            shares = [crew.shards_of(core) for core in crew.running]
            if (
                sorted(shard for share in shares for shard in share) == list(range(SHARDS))
                and len(set(map(len, shares))) == 1
            ):
                return
            await asyncio.sleep(0.1)


class Takeover(NamedTuple):
    """Seconds from the kill, and from the moment the last shard was taken, to the last shard's first correct job."""

    from_kill: float
    from_taken: float


async def takeovers(place: Ground, *, keys: int, rounds: int, lease_s: float) -> tuple[list[Takeover], float]:
    """The rounds, and what workers grew by for 1,000 schedules, in KB."""
    async with town(place, lease_s) as made:
        for core in CORES:
            made.crew.start(core)
        await balanced(made.crew)
        await made.worked_off()
        before = made.crew.resident_kb()
        await made.put({f"s{n}": Partitions(DatasetRef("default", f"d{n}"), WANTED) for n in range(2 * keys)})
        await made.append([landed(n, n) for n in range(2 * keys)])
        await made.worked_off()
        grown = (made.crew.resident_kb() - before) / (2 * keys / 1000)
        found = []
        for number in range(rounds):
            found.append(await takeover(made, number))
            made.crew.start(next(core for core in CORES if core not in made.crew.running))
            await balanced(made.crew)
        return found, grown


async def takeover(made: Town, number: int) -> Takeover:
    dead, heir = CORES[number % 2], CORES[1 - number % 2]
    probes = [Probe.at(f"probe{number}-{shard}", shard, wanted=2) for shard in made.crew.shards_of(dead)]
    await made.put({probe.schedule: probe.trigger for probe in probes})
    await made.append([probe.event(1) for probe in probes])
    await made.worked_off()
    killed = time.time()
    made.crew.kill(dead)
    await made.append([probe.event(2) for probe in probes])
    async with asyncio.timeout(300):
        while not all(probe.schedule in made.launched for probe in probes):
            await made.look(timeout=0.05)
    for probe in probes:
        assert made.launched[probe.schedule][1] == [f"{probe.schedule}.{n}" for n in (1, 2)]
    decided = max(made.launched[probe.schedule][0] for probe in probes)
    taken = [
        line for line in made.crew.lines(heir, "shard.taken") if line["shard"] in {probe.shard for probe in probes}
    ]
    last = max(datetime.fromisoformat(str(line["time"])).timestamp() for line in taken)
    return Takeover(decided - killed, decided - last)


class Rate(NamedTuple):
    """Events a second by the clock, and what they would be if nobody but the workers used their cores."""

    by_clock: float
    by_cpu: float


async def rate(made: Town, batch: int, events: int, schedules: int) -> Rate:
    """A backlog of events, from its first append to its last job. Every tenth event of a schedule is one."""
    records = [landed(batch * events + n, n % schedules) for n in range(events)]
    made.counted = 0
    began, before = time.perf_counter(), made.crew.cpu_s()
    appending = asyncio.create_task(made.append(records, 500))
    async with asyncio.timeout(300):
        while made.counted < events // PER_JOB:
            await made.look()
    took, after = time.perf_counter() - began, made.crew.cpu_s()
    await appending
    return Rate(events / took, events / max(after[core] - before[core] for core in after))


async def rates(place: Ground, *, events: int, rounds: int) -> tuple[list[Rate], list[Rate]]:
    """With one worker, and with two; each on a core of its own."""
    schedules = 400
    async with town(place, 6.0) as made:
        await made.put({f"s{n}": Partitions(DatasetRef("default", f"d{n}"), PER_JOB) for n in range(schedules)})
        found: list[list[Rate]] = []
        for number, core in enumerate(CORES):
            made.crew.start(core)
            await balanced(made.crew)
            await made.worked_off()
            first = number * (rounds + 1)
            found.append([await rate(made, first + n, events, schedules) for n in range(rounds + 1)][1:])
        return found[0], found[1]


async def costs(place: Ground, *, sizes: Sequence[int], rounds: int, seconds: float) -> dict[int, list[float]]:
    """Microseconds of CPU for an event, of one worker that has so many schedules, a few events a turn."""
    found: dict[int, list[float]] = {}
    async with town(place, 6.0) as made:
        made.crew.start(CORES[0])
        await balanced(made.crew)
        there, number = 0, 0
        for size in sizes:
            name = "s{}".format
            await made.put({name(n): Partitions(DatasetRef("default", f"d{n}"), 10**6) for n in range(there, size)})
            await made.append([landed(-1 - n, n) for n in range(there, size)])
            await made.worked_off()
            there, found[size] = size, []
            for _ in range(rounds):
                before, began = made.crew.cpu_s()[CORES[0]], time.perf_counter()
                for tick in range(int(STEADY / 10 * seconds)):
                    await made.append([landed(number + n, (number + n) * 7919 % size) for n in range(10)])
                    number += 10
                    await asyncio.sleep(max(0.0, began + (tick + 1) * 10 / STEADY - time.perf_counter()))
                await asyncio.sleep(0.5)
                spent = made.crew.cpu_s()[CORES[0]] - before
                found[size].append(1e6 * spent / (int(STEADY / 10 * seconds) * 10))
    return found


def spread(values: Sequence[float], unit: str, digits: int = 2) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:,.{digits}f} {unit} ({low:,.{digits}f} to {high:,.{digits}f})"


def taken_over(place: Ground, asked: argparse.Namespace, result: dict[str, float]) -> None:
    for name, keys in (("1k", 1000), ("100k", asked.keys)):
        found, grown = uvloop.run(takeovers(place, keys=keys, rounds=asked.rounds, lease_s=asked.lease))
        killed, taken = [each.from_kill for each in found], [each.from_taken for each in found]
        print(
            f"takeover of {keys:,} of {2 * keys:,}: {spread(killed, 's')} from the kill, "
            f"{spread(taken, 's')} from the lease"
        )
        result[f"takeover_s_{name}"] = round(statistics.median(killed), 2)
        result["kb_per_1k_schedules"] = round(grown)
    print(f"memory: {grown:,.0f} KB for 1,000 of {2 * asked.keys:,} schedules")
    if place.stock is not None:
        there = asyncio.run(
            stock.takeovers(
                place.stock.servers,
                f"stock{uuid4().hex[:6]}",
                keys=asked.keys,
                rounds=min(asked.rounds, 2),
                session_s=max(asked.lease, LEAST_SESSION_S),
                scratch=place.scratch,
            )
        )
        killed, assigned = [each[0] for each in there], [each[1] for each in there]
        print(
            f"stock Faust, {asked.keys:,} of {2 * asked.keys:,}: {spread(killed, 's')} from the kill, "
            f"{spread(assigned, 's')} from the assignment"
        )
        print(f"stock over ours, without finding out: {statistics.median(assigned) / statistics.median(taken):.1f}")
        result["stock_recovery_s_100k"] = round(statistics.median(assigned), 2)


def scaled(place: Ground, asked: argparse.Namespace, result: dict[str, float]) -> None:
    one, two = uvloop.run(rates(place, events=asked.events, rounds=asked.rounds))
    for name, found in (("one worker", one), ("two workers", two)):
        by_clock, by_cpu = zip(*found, strict=True)
        print(f"{name}: {spread(by_clock, 'events/s', 0)}; by their CPU {spread(by_cpu, 'events/s', 0)}")
    ratios = [statistics.median(each[n] for each in two) / statistics.median(each[n] for each in one) for n in (0, 1)]
    print(f"two over one: {ratios[0]:.2f} by the clock, {ratios[1]:.2f} by their CPU")
    result["two_over_one"] = round(ratios[0], 2)


def charged(place: Ground, asked: argparse.Namespace, result: dict[str, float]) -> None:
    sizes = (10, 1000, asked.keys)
    found = uvloop.run(costs(place, sizes=sizes, rounds=asked.rounds, seconds=asked.seconds))
    for size, costs_of in found.items():
        print(f"{size:,} schedules, {STEADY} events/s: {spread(costs_of, 'µs of CPU an event', 0)}")
    ratio = statistics.median(found[sizes[-1]]) / statistics.median(found[sizes[0]])
    result["cost_100k_over_10_schedules"] = round(ratio, 2)


PARTS = {"takeover": taken_over, "rate": scaled, "cost": charged}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", choices=("kafka", "postgres"), default="kafka")
    parser.add_argument("--keys", type=int, default=100_000, help="schedules of the large takeover, and of the cost")
    parser.add_argument("--rounds", type=int, default=3, help="of each measurement")
    parser.add_argument("--lease", type=float, default=2.0, help="seconds")
    parser.add_argument("--events", type=int, default=60_000, help="of a backlog")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a steady rate")
    parser.add_argument("--part", choices=tuple(PARTS), nargs="*", default=tuple(PARTS))
    parser.add_argument("--without-stock", action="store_true")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    print(about(["aiokafka", "asyncpg", "faust-streaming", "orjson", "uvloop"]))
    print("command: python -m bench.cluster", *sys.argv[1:])
    print("workers pinned to cores 0 and 1 (the first alone to core 0), which the log and this process share")
    result: dict[str, float] = {}
    with ground(asked.broker, stock=not asked.without_stock) as place:
        for part in asked.part:
            PARTS[part](place, asked, result)
    print("RESULT", orjson.dumps(result).decode())


if __name__ == "__main__":
    main()
