"""Benchmark of workers: takeover time after a crash, speed-up of a second worker, cost of many schedules.

    make bench NAME=cluster         python -m bench.cluster [--broker kafka|postgres] [--keys N] [--rounds N] …

Workers are processes (`streamsched worker`), each pinned to one core. Kafka or PostgreSQL and this process share the
cores with them.

Takeover: two workers share 4 shards, with twice as many schedules as are taken over, each of which has counted one of
seven events. One worker gets SIGKILL; at once each of its shards gets an event that completes a schedule with one of
two events. `takeover_s_…`: from the kill until the last of those shards has launched its job with both events. Most of
it is the lease (`--lease`); the table also has the time from `shard.taken` to the job. `stock_recovery_s_100k`: the
same for a stock Faust app (`bench.stock`) with as many keys, from the assignment of the partitions; its session timeout
is 6 s, Kafka's minimum.

`two_over_one`: throughput of two workers over one. A backlog becomes visible in one transaction; one of 400 schedules
listens to each event; events/s until the last job is in the log. One worker with everything it needs (Kafka,
PostgreSQL, this process) is pinned to one core, then two workers have one core each, and everything else uses both.
`two_over_one_with_core_to_spare`: the two workers over a single one that leaves the second core to the log.
`two_over_one_by_cpu`: by the CPU time of the busiest worker, as if the log had its own cores.
`two_over_one_of_one_dataset` (part `shared`): the same where all 400 schedules listen to one dataset.

`cost_100k_over_10_schedules`: a worker's CPU per event at a steady rate with 100,000 schedules, over that with 10. One
schedule listens to each event, round robin; every second event starts a job. The workers of all sizes run at the same
time and are measured in turn.

`cpu_us_at_50`, `_500`, `_5000`: CPU microseconds per event of one worker with 4 shards and 100 schedules, at that many
events/s, appended 50 times a second; `p50_ms_at_…`: from the append of the second event of a schedule to its job being
read from the log.

During a takeover, the longest wait of an event for a shard that keeps its worker is printed too.

`kb_per_1k_schedules`: growth of the workers' memory by the schedules taken over, with one event each.
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
from bench.installation import about
from bench.probe import SHARDS, BareInstallation, Probe, bare_installation, partition_record
from bench.worker_processes import Servers, WorkerProcesses, fresh_servers
from streamsched.domain.names import DatasetRef
from streamsched.domain.triggers.trigger import Partitions, Trigger

CORES = (0, 1)
WANTED = 7
PER_JOB = 10
#: Events a second of the steady rate.
STEADY = 500
#: Events a second of the steady rates, and appends a second.
RATES = (50, 500, 5000)
TICKS_S = 50
SCHEDULES = 100
#: Schedules of the backlogs.
SHARED = 400
#: Kafka's shortest session timeout.
LEAST_SESSION_S = 6.0


def counting_schedules(numbers: range, wanted: int, *, datasets: int | None = None) -> list[tuple[str, Trigger]]:
    """A schedule for each number, which waits for `wanted` partitions of its dataset: of so many, or of one each."""
    return [(f"s{n}", Partitions(DatasetRef("default", f"d{n % (datasets or len(numbers))}"), wanted)) for n in numbers]


async def await_balance(workers: WorkerProcesses, seconds: float = 240) -> None:
    """Waits until all shards run, and every worker runs equally many."""
    async with asyncio.timeout(seconds):
        while True:
            shares = [workers.shards_of(core) for core in workers.running]
            if (
                sorted(shard for share in shares for shard in share) == list(range(SHARDS))
                and len(set(map(len, shares))) == 1
            ):
                return
            await asyncio.sleep(0.1)


class Takeover(NamedTuple):
    """Times of one takeover in seconds.

    Attributes:
        from_kill, from_taken: from the kill, or from the takeover of the last shard, to the last shard's first correct
            job.
        recovery: as logged by the new owner, of the slowest shard.
        neighbour: longest wait of an event for a shard that it already owned.
    """

    from_kill: float
    from_taken: float
    recovery: float
    neighbour: float


async def takeovers(servers: Servers, *, keys: int, rounds: int, lease_s: float) -> tuple[list[Takeover], float]:
    """The rounds, and the growth of the workers' memory per 1,000 schedules in KB."""
    async with bare_installation(servers, lease_s) as site:
        for core in CORES:
            site.workers.start(core)
        await await_balance(site.workers)
        await site.drain()
        before = site.workers.resident_kb()
        await site.put(counting_schedules(range(2 * keys), WANTED))
        await site.append([partition_record(n, n) for n in range(2 * keys)])
        await site.drain()
        grown = (site.workers.resident_kb() - before) / (2 * keys / 1000)
        found = []
        for number in range(rounds):
            await await_balance(site.workers)
            found.append(await takeover(site, number))
            site.workers.start(next(core for core in CORES if core not in site.workers.running))
        return found, grown


async def takeover(site: BareInstallation, number: int) -> Takeover:
    killed_core, survivor = CORES[number % 2], CORES[1 - number % 2]
    probes = [Probe.at(f"probe{number}-{shard}", shard, wanted=2) for shard in range(SHARDS)]
    await site.put(((probe.schedule, probe.trigger) for probe in probes), with_affinity=False)
    await site.append([probe.event(1) for probe in probes])
    await site.drain()
    await await_balance(site.workers)
    orphans = site.workers.shards_of(killed_core)
    probes = [probe for probe in probes if probe.key_shard in orphans]
    neighbour = Neighbour(site, Probe.at(f"neighbour{number}", min(site.workers.shards_of(survivor)), wanted=1))
    await neighbour.settle()
    killed = time.time()
    site.workers.kill(killed_core)
    await site.append([probe.event(2) for probe in probes])
    async with asyncio.timeout(300):
        while not all(probe.schedule in site.launched for probe in probes):
            await neighbour.poll()
    for probe in probes:
        assert site.launched[probe.schedule][1] == [probe.name(n) for n in (1, 2)]
    decided = max(site.launched[probe.schedule][0] for probe in probes)
    taken = [at for at, line in site.workers.lines(survivor, "shard.taken", killed) if line["shard"] in orphans]
    started = [line for _, line in site.workers.lines(survivor, "shard.started", killed) if line["shard"] in orphans]
    recovery = max(sum(float(str(line[part])) for part in ("fence_s", "read_s")) for line in started)
    return Takeover(decided - killed, decided - max(taken), recovery, neighbour.longest)


class Neighbour:
    """A schedule of a shard that keeps its owner; gets the next event when the job of the previous one is launched."""

    def __init__(self, site: BareInstallation, probe: Probe) -> None:
        self.longest = 0.0
        self._made = site
        self._probe = probe
        self._sent = 0
        self._sent_at = 0.0

    async def settle(self) -> None:
        """Creates the schedule and waits for its first job."""
        await self._made.put([(self._probe.schedule, self._probe.trigger)])
        await self._send()
        async with asyncio.timeout(60):
            while self._sent == 1:
                await self.poll()
        self.longest = 0.0

    async def poll(self) -> None:
        await self._made.poll(timeout=0.05)
        at, events = self._made.launched.get(self._probe.schedule, (0.0, []))
        if events == [self._probe.name(self._sent)]:
            self.longest = max(self.longest, at - self._sent_at)
            await self._send()

    async def _send(self) -> None:
        self._sent, self._sent_at = self._sent + 1, time.time()
        await self._made.append([self._probe.event(self._sent)])


class Rate(NamedTuple):
    """Events per second by wall-clock time and by the busiest worker's CPU time; microseconds of CPU per event of the
    workers and of all other processes."""

    by_clock: float
    by_cpu: float
    workers_us: float
    others_us: float


async def rate(site: BareInstallation, servers: Servers, batch: int, events: int, datasets: int) -> Rate:
    """Processes a backlog of events, from its commit to its last job."""
    records = [partition_record(batch * events + n, n % datasets) for n in range(events)]
    jobs = events // PER_JOB * (SHARED // datasets)
    writer = await site.broker.writer("bench-backlog")
    await writer.commit(records)
    began, before, others = time.perf_counter(), site.workers.cpu_s(), servers.cpu_s()
    site.counted = 0
    async with asyncio.timeout(300):
        while site.counted < jobs:
            await site.poll(decoded=False)
    took, after, others = time.perf_counter() - began, site.workers.cpu_s(), servers.cpu_s() - others
    await writer.close()
    spent = [after[core] - before[core] for core in after]
    return Rate(events / took, events / max(spent), 1e6 * sum(spent) / events, 1e6 * others / events)


async def rates(servers: Servers, *, events: int, rounds: int, datasets: int) -> dict[str, list[Rate]]:
    """Rates of one worker on the same core as all servers, of one with a second core for the servers, and of two."""
    batch = 0
    found: dict[str, list[Rate]] = {}
    async with bare_installation(servers, 6.0) as site:
        await site.put(counting_schedules(range(SHARED), PER_JOB, datasets=datasets))
        for name, workers, others in (("one core", 1, (0,)), ("one worker", 1, CORES), ("two workers", 2, CORES)):
            for core in CORES[:workers]:
                if core not in site.workers.running:
                    site.workers.start(core)
            servers.pin(others)
            await await_balance(site.workers)
            await site.drain()
            found[name] = []
            for _ in range(rounds + 1):
                found[name].append(await rate(site, servers, batch, events, datasets))
                batch += 1
            del found[name][0]  # the first warms up
    return found


async def costs(servers: Servers, *, sizes: Sequence[int], rounds: int, seconds: float) -> dict[int, list[float]]:
    """A worker's microseconds of CPU per event, by its number of schedules, with a few events per turn."""
    found: dict[int, list[float]] = {size: [] for size in sizes}
    async with AsyncExitStack() as stack:
        installations = {size: await stack.enter_async_context(bare_installation(servers, 6.0)) for size in sizes}
        for size, site in installations.items():
            site.workers.start(CORES[0])
            await await_balance(site.workers)
            await site.put(counting_schedules(range(size), 2))
            await site.append(
                [partition_record(-1 - n, n) for n in range(0, size, 2)]
            )  # so that half of the events complete
            await site.drain()
        for number in range(rounds + 1):
            for size, site in installations.items():
                found[size].append(await cost(site, size, number, int(STEADY / 10 * seconds)))
    return {size: each[1:] for size, each in found.items()}  # the first warms up


async def cost(site: BareInstallation, size: int, number: int, ticks: int) -> float:
    before, began = site.workers.cpu_s()[CORES[0]], time.perf_counter()
    for tick in range(ticks):
        first = (number * ticks + tick) * 10
        await site.append([partition_record(n, n * 7919 % size) for n in range(first, first + 10)])
        await asyncio.sleep(max(0.0, began + (tick + 1) * 10 / STEADY - time.perf_counter()))
    await asyncio.sleep(0.5)
    return 1e6 * (site.workers.cpu_s()[CORES[0]] - before) / (ticks * 10)


class Steady(NamedTuple):
    """A steady rate: CPU microseconds per event of the worker and of all other processes, and its latencies in ms."""

    worker_us: float
    others_us: float
    p50_ms: float
    p99_ms: float


async def steady(servers: Servers, *, rounds: int, seconds: float) -> dict[int, list[Steady]]:
    """By events per second, the rounds of one worker."""
    first = 0
    found: dict[int, list[Steady]] = {events_s: [] for events_s in RATES}
    async with bare_installation(servers, 6.0) as site:
        site.workers.start(CORES[0])
        await await_balance(site.workers)
        await site.put(counting_schedules(range(SCHEDULES), 2))
        await site.drain()
        for _ in range(rounds + 1):
            for events_s in RATES:
                numbers = range(first, first + int(events_s * seconds) // (2 * TICKS_S) * 2 * TICKS_S)
                first = numbers.stop
                found[events_s].append(await steadily(site, servers, events_s // TICKS_S, numbers))
    return {events_s: each[1:] for events_s, each in found.items()}  # the first warms up


async def steadily(site: BareInstallation, servers: Servers, per_tick: int, numbers: range) -> Steady:
    """Two events for each schedule in turn, `per_tick` in one append."""
    sent: dict[str, float] = {}
    site.jobs = []
    before, others = site.workers.cpu_s()[CORES[0]], servers.cpu_s()
    polling = asyncio.create_task(_poll_jobs(site, len(numbers) // 2))
    began = time.time()
    for tick, start in enumerate(numbers[::per_tick], 1):
        together = range(start, min(start + per_tick, numbers.stop))
        sent |= dict.fromkeys((f"e{n}" for n in together), time.time())
        await site.append([partition_record(n, n // 2 * 7919 % SCHEDULES) for n in together])
        await asyncio.sleep(max(0.0, began + tick / TICKS_S - time.time()))
    await polling
    worker_s, others = site.workers.cpu_s()[CORES[0]] - before, servers.cpu_s() - others
    took = sorted(1000 * (at - sent[event]) for at, event in site.jobs if event in sent)
    of_one = 1e6 / len(numbers)
    return Steady(worker_s * of_one, others * of_one, took[len(took) // 2], took[len(took) * 99 // 100])


async def _poll_jobs(site: BareInstallation, jobs: int) -> None:
    async with asyncio.timeout(120):
        while len(site.jobs) < jobs:
            await site.poll(1.0)


def spread(values: Sequence[float], unit: str, digits: int = 2) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:,.{digits}f} {unit} ({low:,.{digits}f} to {high:,.{digits}f})"


def measure_takeover(servers: Servers, args: argparse.Namespace, result: dict[str, float]) -> None:
    for name, keys in (("1k", 1000), ("100k", args.keys)):
        found, grown = uvloop.run(takeovers(servers, keys=keys, rounds=args.rounds, lease_s=args.lease))
        killed, taken, recovery, neighbours = zip(*found, strict=True)
        print(
            f"takeover of {keys:,} of {2 * keys:,}: {spread(killed, 's')} from the kill, "
            f"{spread(taken, 's')} from the lease, of which recovery {spread(recovery, 's')}; longest wait of an event "
            f"for another shard {spread(neighbours, 's')}"
        )
        result[f"takeover_s_{name}"] = round(statistics.median(killed), 2)
        result["kb_per_1k_schedules"] = round(grown)
    print(f"memory: {grown:,.0f} KB for 1,000 of {2 * args.keys:,} schedules")
    if servers.stock is not None:
        there = asyncio.run(
            stock.takeovers(
                servers.stock.servers,
                f"stock{uuid4().hex[:6]}",
                keys=args.keys,
                rounds=min(args.rounds, 2),
                session_s=max(args.lease, LEAST_SESSION_S),
                scratch=servers.scratch,
            )
        )
        killed, assigned = [each[0] for each in there], [each[1] for each in there]
        print(
            f"stock Faust, {args.keys:,} of {2 * args.keys:,}: {spread(killed, 's')} from the kill, "
            f"{spread(assigned, 's')} from the assignment"
        )
        print(f"stock over ours, without detection: {statistics.median(assigned) / statistics.median(taken):.1f}")
        result["stock_recovery_s_100k"] = round(statistics.median(assigned), 2)


def measure_scale(servers: Servers, args: argparse.Namespace, result: dict[str, float]) -> None:
    result |= measure_rates(servers, args.events, args.rounds, SHARED, "two_over_one")


def measure_shared(servers: Servers, args: argparse.Namespace, result: dict[str, float]) -> None:
    result |= measure_rates(servers, args.events // 100, args.rounds, 1, "two_over_one_of_one_dataset")


def measure_rates(servers: Servers, events: int, rounds: int, datasets: int, name: str) -> dict[str, float]:
    found = uvloop.run(rates(servers, events=events, rounds=rounds, datasets=datasets))
    servers.pin(CORES)
    middle: dict[str, Rate] = {}
    for which, each in found.items():
        by_clock, by_cpu, workers_us, others_us = zip(*each, strict=True)
        middle[which] = Rate(*map(statistics.median, (by_clock, by_cpu, workers_us, others_us)))
        print(
            f"{SHARED} schedules of {datasets} datasets, {which}: {spread(by_clock, 'events/s', 0)}; by the busiest "
            f"worker's CPU {spread(by_cpu, 'events/s', 0)}; µs of CPU per event: workers "
            f"{middle[which].workers_us:.0f}, others {middle[which].others_us:.0f}"
        )
    core, one, two = middle.values()
    over_core, over_one, by_cpu = two.by_clock / core.by_clock, two.by_clock / one.by_clock, two.by_cpu / one.by_cpu
    print(
        f"two over one: {over_core:.2f} (two cores over one), {over_one:.2f} over a worker that leaves the log a core, "
        f"{by_cpu:.2f} by the workers' CPU"
    )
    return {
        name: round(over_core, 2),
        f"{name}_with_core_to_spare": round(over_one, 2),
        f"{name}_by_cpu": round(by_cpu, 2),
    }


def measure_costs(servers: Servers, args: argparse.Namespace, result: dict[str, float]) -> None:
    sizes = (10, 1000, args.keys)
    found = uvloop.run(costs(servers, sizes=sizes, rounds=args.rounds, seconds=args.seconds))
    for size, costs_of in found.items():
        print(f"{size:,} schedules, {STEADY} events/s: {spread(costs_of, 'µs of CPU an event', 0)}")
    ratio = statistics.median(found[sizes[-1]]) / statistics.median(found[sizes[0]])
    result["cost_100k_over_10_schedules"] = round(ratio, 2)


def measure_steady(servers: Servers, args: argparse.Namespace, result: dict[str, float]) -> None:
    for events_s, each in uvloop.run(steady(servers, rounds=args.rounds, seconds=args.seconds)).items():
        worker_us, others_us, p50_ms, p99_ms = zip(*each, strict=True)
        print(
            f"{events_s} events/s: µs of CPU an event: worker {spread(worker_us, 'µs', 0)}, "
            f"others {spread(others_us, 'µs', 0)}; p50 {spread(p50_ms, 'ms', 1)}, p99 {spread(p99_ms, 'ms', 1)}"
        )
        result[f"cpu_us_at_{events_s}"] = round(statistics.median(worker_us))
        result[f"p50_ms_at_{events_s}"] = round(statistics.median(p50_ms), 1)


PARTS = {
    "takeover": measure_takeover,
    "rate": measure_scale,
    "shared": measure_shared,
    "cost": measure_costs,
    "steady": measure_steady,
}


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
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that child processes are stopped
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    print(about(["aiokafka", "asyncpg", "faust-streaming", "orjson", "uvloop"]))
    print("command: python -m bench.cluster", *sys.argv[1:])
    print("workers pinned to cores 0 and 1 (a single one to core 0), shared with the log and this process")
    result: dict[str, float] = {}
    with fresh_servers(args.broker, stock=not args.without_stock) as servers:
        for part in args.part:
            PARTS[part](servers, args, result)
    print("RESULT", orjson.dumps(result).decode())


if __name__ == "__main__":
    main()
