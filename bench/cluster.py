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

`two_over_one`: a backlog becomes visible at once, in one transaction; each event is heard by one of 400 schedules.
Events/s until the last job is in the log. What is compared is one core with two: one worker and everything it stands on
(Kafka, PostgreSQL, this process) pinned to one core, then two workers, each on its core, and everything else on both.
`two_over_one_with_core_to_spare`: the same two workers over one that leaves the second core to the log, so that the
second worker has to share with the log what the first had for itself. `two_over_one_by_cpu`: by the CPU time of the
busiest worker alone, which is what two would do if the log had cores of its own.

`cost_100k_over_10_schedules`: CPU of a worker per event at a steady rate when it has 100,000 schedules, over that when
it has 10; every event is heard by one of them, in turn, and every second one starts a job. The workers of all sizes are
there together and are measured in turns.

How long an event for a shard that stays with its worker waits during a takeover is printed beside it.

`kb_per_1k_schedules`: what workers have grown by with the schedules of the takeover, states decoded, one event counted.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple
from uuid import uuid4

import orjson
import structlog
import uvloop

from bench import stock
from bench.crew import Crew, Ground, ground
from bench.probe import SHARDS, Probe, Town, landed, town
from bench.town import about
from streamsched.domain.names import DatasetRef
from streamsched.domain.trigger import Partitions, Trigger

CORES = (0, 1)
WANTED = 7
PER_JOB = 10
#: Events a second of the steady rate.
STEADY = 500
#: A Kafka allows no shorter session.
LEAST_SESSION_S = 6.0


def counting(numbers: range, wanted: int) -> list[tuple[str, Trigger]]:
    """A schedule for each, which wants so many partitions of its dataset."""
    return [(f"s{n}", Partitions(DatasetRef("default", f"d{n}"), wanted)) for n in numbers]


async def balanced(crew: Crew, seconds: float = 240) -> None:
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
    """Seconds from the kill, and from the moment the last shard was taken, to the last shard's first correct job; what
    the new owner says its recovery took, of the shard that took longest; and how long, at most, an event for a shard
    that it had before waited meanwhile."""

    from_kill: float
    from_taken: float
    recovery: float
    neighbour: float


async def takeovers(place: Ground, *, keys: int, rounds: int, lease_s: float) -> tuple[list[Takeover], float]:
    """The rounds, and what workers grew by for 1,000 schedules, in KB."""
    async with town(place, lease_s) as made:
        for core in CORES:
            made.crew.start(core)
        await balanced(made.crew)
        await made.worked_off()
        before = made.crew.resident_kb()
        await made.put(counting(range(2 * keys), WANTED))
        await made.append([landed(n, n) for n in range(2 * keys)])
        await made.worked_off()
        grown = (made.crew.resident_kb() - before) / (2 * keys / 1000)
        found = []
        for number in range(rounds):
            await balanced(made.crew)
            found.append(await takeover(made, number))
            made.crew.start(next(core for core in CORES if core not in made.crew.running))
        return found, grown


async def takeover(made: Town, number: int) -> Takeover:
    dead, heir = CORES[number % 2], CORES[1 - number % 2]
    probes = [Probe.at(f"probe{number}-{shard}", shard, wanted=2) for shard in range(SHARDS)]
    await made.put((probe.schedule, probe.trigger) for probe in probes)
    await made.append([probe.event(1) for probe in probes])
    await made.worked_off()
    await balanced(made.crew)
    orphans = made.crew.shards_of(dead)
    probes = [probe for probe in probes if probe.heard_in in orphans]
    neighbour = Neighbour(made, Probe.at(f"neighbour{number}", min(made.crew.shards_of(heir)), wanted=1))
    await neighbour.settle()
    killed = time.time()
    made.crew.kill(dead)
    await made.append([probe.event(2) for probe in probes])
    async with asyncio.timeout(300):
        while not all(probe.schedule in made.launched for probe in probes):
            await neighbour.look()
    for probe in probes:
        assert made.launched[probe.schedule][1] == [probe.name(n) for n in (1, 2)]
    decided = max(made.launched[probe.schedule][0] for probe in probes)
    taken = [at for at, line in made.crew.lines(heir, "shard.taken", killed) if line["shard"] in orphans]
    started = [line for _, line in made.crew.lines(heir, "shard.started", killed) if line["shard"] in orphans]
    recovery = max(sum(float(str(line[part])) for part in ("fence_s", "read_s", "app_s")) for line in started)
    return Takeover(decided - killed, decided - max(taken), recovery, neighbour.longest)


class Neighbour:
    """A schedule of a shard that stays where it is, told of an event whenever it has judged the one before."""

    def __init__(self, made: Town, probe: Probe) -> None:
        self.longest = 0.0
        self._made = made
        self._probe = probe
        self._sent = 0
        self._sent_at = 0.0

    async def settle(self) -> None:
        """The schedule is there, and has judged its first event."""
        await self._made.put([(self._probe.schedule, self._probe.trigger)])
        await self._send()
        async with asyncio.timeout(60):
            while self._sent == 1:
                await self.look()
        self.longest = 0.0

    async def look(self) -> None:
        await self._made.look(timeout=0.05)
        at, events = self._made.launched.get(self._probe.schedule, (0.0, []))
        if events == [self._probe.name(self._sent)]:
            self.longest = max(self.longest, at - self._sent_at)
            await self._send()

    async def _send(self) -> None:
        self._sent, self._sent_at = self._sent + 1, time.time()
        await self._made.append([self._probe.event(self._sent)])


class Rate(NamedTuple):
    """Events a second by the clock, what they would be if nobody but the workers used their cores, and microseconds of
    CPU an event: the workers', and everybody else's."""

    by_clock: float
    by_cpu: float
    workers_us: float
    others_us: float


async def rate(made: Town, place: Ground, batch: int, events: int, schedules: int) -> Rate:
    """A backlog of events, from when it is visible to its last job. Every tenth event of a schedule is one."""
    records = [landed(batch * events + n, n % schedules) for n in range(events)]
    writer = await made.broker.writer("bench-backlog")
    await writer.commit(records)
    began, before, others = time.perf_counter(), made.crew.cpu_s(), place.cpu_s()
    made.counted = 0
    async with asyncio.timeout(300):
        while made.counted < events // PER_JOB:
            await made.look(decoded=False)
    took, after, others = time.perf_counter() - began, made.crew.cpu_s(), place.cpu_s() - others
    await writer.close()
    spent = [after[core] - before[core] for core in after]
    return Rate(events / took, events / max(spent), 1e6 * sum(spent) / events, 1e6 * others / events)


async def rates(place: Ground, *, events: int, rounds: int) -> dict[str, list[Rate]]:
    """Of one worker that shares a core with all the others, of one that leaves them the second core, and of two."""
    schedules, batch = 400, 0
    found: dict[str, list[Rate]] = {}
    async with town(place, 6.0) as made:
        await made.put(counting(range(schedules), PER_JOB))
        for name, workers, others in (("one core", 1, (0,)), ("one worker", 1, CORES), ("two workers", 2, CORES)):
            for core in CORES[:workers]:
                if core not in made.crew.running:
                    made.crew.start(core)
            place.pin(others)
            await balanced(made.crew)
            await made.worked_off()
            found[name] = []
            for _ in range(rounds + 1):
                found[name].append(await rate(made, place, batch, events, schedules))
                batch += 1
            del found[name][0]  # the first warms up
    return found


async def costs(place: Ground, *, sizes: Sequence[int], rounds: int, seconds: float) -> dict[int, list[float]]:
    """Microseconds of CPU for an event, of one worker that has so many schedules, a few events a turn."""
    found: dict[int, list[float]] = {size: [] for size in sizes}
    async with AsyncExitStack() as stack:
        towns = {size: await stack.enter_async_context(town(place, 6.0)) for size in sizes}
        for size, made in towns.items():
            made.crew.start(CORES[0])
            await balanced(made.crew)
            await made.put(counting(range(size), 2))
            await made.append([landed(-1 - n, n) for n in range(0, size, 2)])  # so that half of what comes is a second
            await made.worked_off()
        for number in range(rounds + 1):
            for size, made in towns.items():
                found[size].append(await cost(made, size, number, int(STEADY / 10 * seconds)))
    return {size: each[1:] for size, each in found.items()}  # the first warms up


async def cost(made: Town, size: int, number: int, ticks: int) -> float:
    before, began = made.crew.cpu_s()[CORES[0]], time.perf_counter()
    for tick in range(ticks):
        first = (number * ticks + tick) * 10
        await made.append([landed(n, n * 7919 % size) for n in range(first, first + 10)])
        await asyncio.sleep(max(0.0, began + (tick + 1) * 10 / STEADY - time.perf_counter()))
    await asyncio.sleep(0.5)
    return 1e6 * (made.crew.cpu_s()[CORES[0]] - before) / (ticks * 10)


def spread(values: Sequence[float], unit: str, digits: int = 2) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:,.{digits}f} {unit} ({low:,.{digits}f} to {high:,.{digits}f})"


def taken_over(place: Ground, asked: argparse.Namespace, result: dict[str, float]) -> None:
    for name, keys in (("1k", 1000), ("100k", asked.keys)):
        found, grown = uvloop.run(takeovers(place, keys=keys, rounds=asked.rounds, lease_s=asked.lease))
        killed, taken, recovery, neighbours = zip(*found, strict=True)
        print(
            f"takeover of {keys:,} of {2 * keys:,}: {spread(killed, 's')} from the kill, "
            f"{spread(taken, 's')} from the lease, of which recovery {spread(recovery, 's')}; meanwhile an event for "
            f"another shard waited {spread(neighbours, 's')} at most"
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
    found = uvloop.run(rates(place, events=asked.events, rounds=asked.rounds))
    place.pin(CORES)
    middle: dict[str, Rate] = {}
    for name, each in found.items():
        by_clock, by_cpu, workers_us, others_us = zip(*each, strict=True)
        middle[name] = Rate(*map(statistics.median, (by_clock, by_cpu, workers_us, others_us)))
        print(
            f"{name}: {spread(by_clock, 'events/s', 0)}; by the busiest worker's CPU {spread(by_cpu, 'events/s', 0)}; "
            f"µs of CPU an event: workers {middle[name].workers_us:.0f}, the others {middle[name].others_us:.0f}"
        )
    core, one, two = middle.values()
    over_core, over_one, by_cpu = two.by_clock / core.by_clock, two.by_clock / one.by_clock, two.by_cpu / one.by_cpu
    print(
        f"two over one: {over_core:.2f} (two cores over one), {over_one:.2f} over a worker that leaves the log a core, "
        f"{by_cpu:.2f} by the workers' CPU"
    )
    result["two_over_one"] = round(over_core, 2)
    result["two_over_one_with_core_to_spare"] = round(over_one, 2)
    result["two_over_one_by_cpu"] = round(by_cpu, 2)


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
    parser.add_argument("--events", type=int, default=40_000, help="of a backlog")
    parser.add_argument("--seconds", type=float, default=8.0, help="of a steady rate")
    parser.add_argument("--part", choices=tuple(PARTS), nargs="*", default=tuple(PARTS))
    parser.add_argument("--without-stock", action="store_true")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is stopped
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
