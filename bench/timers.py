"""Benchmark of timers: throughput and lateness when very many ticks are due at the same instant.

Timers of cron and interval schedules, all due at one instant, on a temporary PostgreSQL with durable commits; two
instances, each a process, like two launchers. A tick has fired when the transaction that moves its timer to the next
tick and writes the tick to the outbox has committed; the relay then appends it to the log, once.

`late_*`: from the instant to that commit, with `--at-once` ticks due. `fired_per_s`: with `--burst` ticks due, by the
time from the instant to the last commit. `lost`, `early`: the same burst while one instance is killed by SIGKILL
(duplicates end the benchmark with an error). `held_rss_mb`: memory of an instance with `--held` timers due tomorrow;
its idle CPU is printed. `apscheduler_per_s`: APScheduler 3 with its SQLAlchemy store on the same PostgreSQL, with fewer
jobs due at one instant, each a function that returns at once.

    make bench NAME=timers          python -m bench.timers [--rounds N] [--burst N] [--at-once N] [--held N]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import orjson
import psutil
import structlog
import uvloop
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

from bench.installation import Installation, about, fresh_installation, server
from streamsched.catalog.relay import Relay
from streamsched.codec.schedules.schedule import schedule_to_json
from streamsched.domain.names import DatasetRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.triggers.trigger import Cron, Every, Partitions, TimeLeaf, Trigger, leaf_id
from streamsched.ports.clock import SystemClock
from streamsched.process.memory import configure_memory
from streamsched.store.catalog.outbox import PostgresOutbox
from streamsched.store.connections import open_pool
from streamsched.store.events.timers import PostgresTimers
from streamsched.store.events.wakes import PostgresWakes
from streamsched.store.server.notifier import PostgresNotifier
from streamsched.timers.timers import Timers

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo")
INSTANCES = 2
DATASETS = 100


def leaves(due: datetime) -> list[TimeLeaf]:
    """Time leaves that tick at that instant and not again within the hour."""
    crons: list[TimeLeaf] = [Cron(f"{due.second} {due.minute} * * * *", zone) for zone in ZONES]
    return [*crons, Every(timedelta(hours=1), due), Every(timedelta(hours=6), due)]


async def hold(site: Installation, count: int, due: datetime) -> None:
    """Stores that many enabled schedules with timers; half of them also wait for data."""
    program, now = ProgramRef("default", "bench", "noop"), datetime.now(UTC)
    shapes = [(leaf, DatasetRef("default", f"d{number}")) for number in range(DATASETS) for leaf in leaves(due)]
    triggers: list[Trigger] = [
        leaf & Partitions(data, 7) if number % 2 else leaf for number, (leaf, data) in enumerate(shapes)
    ]
    definitions = [schedule_to_json(Schedule(ScheduleRef("default", "bench", "s"), program, each)) for each in triggers]
    await site.pool.execute("INSERT INTO namespaces VALUES ('default', $1) ON CONFLICT DO NOTHING", now)
    await site.pool.execute("INSERT INTO apps VALUES ('default.bench', 'default', $1, $1) ON CONFLICT DO NOTHING", now)
    await site.pool.execute(
        "INSERT INTO schedules SELECT 'default.bench.s' || n, 'default.bench', $3,"
        " jsonb_set(($4::jsonb[])[1 + n % cardinality($4)], '{name}', to_jsonb('s' || n)), 1, true, $2, $2"
        " FROM generate_series(0, $1::int - 1) n",
        *(count, now, str(program), definitions),
    )
    await site.pool.execute(
        "INSERT INTO timers SELECT 'default.bench.s' || n, ($2::text[])[1 + n % cardinality($2)], 1, $3"
        " FROM generate_series(0, $1::int - 1) n",
        *(count, [leaf_id(leaf) for leaf, _ in shapes], due),
    )
    await site.pool.execute("ANALYZE schedules, timers")
    await site.pool.execute("CHECKPOINT")


class LoggedTimers(PostgresTimers):
    """Prints the time of each commit and how many timers it fired."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        super().__init__(pool)
        self._clock = SystemClock()

    async def fire(self, **args: Any) -> int:
        fired = await super().fire(**args)
        if fired:
            sys.stdout.write(f"{self._clock.now().isoformat()} {fired}\n")
            sys.stdout.flush()
        return fired


async def instance(url: str) -> None:
    """Runs the timers of one launcher until killed, with the GC thresholds of a role."""
    configure_memory()
    pool, bell = await open_pool(url, min_size=3, max_size=4), PostgresNotifier(url)
    sys.stdout.write("up 0\n")
    sys.stdout.flush()
    await Timers(store=LoggedTimers(pool), wakes=PostgresWakes(pool), notifier=bell, clock=SystemClock()).run()


@dataclass(slots=True)
class Instances:
    """Instances as processes, and their output."""

    url: str
    folder: Path
    processes: list[subprocess.Popen[bytes]]

    def commits(self) -> list[tuple[datetime, int]]:
        """Time and number of ticks of each commit; the last line of a killed instance may be missing."""
        lines = [line for path in self.folder.glob("*.out") for line in path.read_text().splitlines(keepends=True)]
        pairs = [line.split() for line in lines if line.endswith("\n") and not line.startswith("up")]
        return sorted((datetime.fromisoformat(at), int(count)) for at, count in pairs)

    async def up(self) -> None:
        while sum(path.read_text().startswith("up") for path in self.folder.glob("*.out")) < len(self.processes):
            await asyncio.sleep(0.05)


@contextmanager
def run_instances(url: str, size: int = INSTANCES) -> Iterator[Instances]:
    with tempfile.TemporaryDirectory(prefix="ss-bench-") as scratch:
        processes: list[subprocess.Popen[bytes]] = []
        for number in range(size):
            with (Path(scratch) / f"{number}.out").open("wb") as out:
                command = (sys.executable, "-m", "bench.timers", "--instance", url)
                processes.append(subprocess.Popen(command, stdout=out))
        try:
            yield Instances(url, Path(scratch), processes)
        finally:
            for process in processes:
                process.kill()
                process.wait()


def soon(seconds: float) -> datetime:
    """The next whole second that is at least that far ahead."""
    return (datetime.now(UTC) + timedelta(seconds=seconds + 1)).replace(microsecond=0)


class Burst(NamedTuple):
    """One burst: lateness and ticks of each commit, and deviations found in the outbox."""

    commits: list[tuple[float, int]]
    lost: int
    early: int
    doubled: int

    @property
    def per_s(self) -> float:
        return sum(count for _, count in self.commits) / self.commits[-1][0]

    def late(self, share: float) -> float:
        """The quantile `share` of the ticks' lateness in seconds."""
        wanted = share * sum(count for _, count in self.commits)
        for late, count in self.commits:
            wanted -= count
            if wanted <= 0:
                return late
        return self.commits[-1][0]


async def ready(site: Installation, count: int, instances: Instances) -> datetime:
    """Sets up that many timers; returns the instant at which they are due, a second or two ahead."""
    for margin in (5 + count / 10_000, 20 + count / 2500, 60 + count / 500):
        due = soon(margin)
        await hold(site, count, due)
        await instances.up()
        if due - datetime.now(UTC) > timedelta(seconds=1):
            await asyncio.sleep((due - datetime.now(UTC)).total_seconds() - 0.1)
            return due
        await site.pool.execute("TRUNCATE timers, schedules, outbox CASCADE")  # this machine is slower than that
    raise SystemExit(f"{count} timers cannot be set up in {margin:.0f} s")


async def burst(site: Installation, count: int, *, kill_after: float | None = None) -> Burst:
    """That many ticks due at one instant. `kill_after`: seconds after it one instance is killed."""
    with run_instances(site.url) as instances:
        due = await ready(site, count, instances)
        if kill_after is not None:
            await asyncio.sleep((due - datetime.now(UTC)).total_seconds() + kill_after)
            instances.processes[0].kill()
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            await asyncio.sleep(0.2)
            if not await site.pool.fetchval("SELECT count(*) FROM timers WHERE due_at <= $1", due):
                break
        await asyncio.sleep(0.1)
        commits = [((at - due).total_seconds(), ticks) for at, ticks in instances.commits() if at >= due]
    row = await site.pool.fetchrow(
        "SELECT count(*) AS records, count(DISTINCT key) AS keys, count(*) FILTER (WHERE created_at < $1) AS early"
        " FROM outbox WHERE topic = 'signals'",
        due,
    )
    assert row is not None
    return Burst(commits, count - row["keys"], row["early"], row["records"] - row["keys"])


async def relay_all(site: Installation) -> float:
    """Relays the whole outbox; records per second."""
    bell = PostgresNotifier(site.url)
    relay = Relay(broker=site.broker, outbox=PostgresOutbox(site.pool), notifier=bell)
    began, moved = time.perf_counter(), 0
    while got := await relay.run_once():
        moved += got
    took = time.perf_counter() - began
    await relay.close()
    await bell.close()
    return moved / took


class Idle(NamedTuple):
    rss_mb: float
    cpu_percent: float


async def idle(site: Installation, count: int) -> Idle:
    """Memory and CPU of an instance with that many timers, none of which is due."""
    for start in range(0, count, 100_000):
        await site.pool.execute(
            "INSERT INTO timers SELECT 'default.bench.s0', 'held' || n, 1, now() + '1 day' + n * interval '1 ms'"
            " FROM generate_series($1::int, $2::int - 1) n",
            start,
            min(start + 100_000, count),
        )
    await site.pool.execute("VACUUM ANALYZE timers")
    with run_instances(site.url, 1) as instances:
        await instances.up()
        process = psutil.Process(instances.processes[0].pid)
        await asyncio.sleep(3)
        before, began = process.cpu_times(), time.perf_counter()
        await asyncio.sleep(12)
        after, took = process.cpu_times(), time.perf_counter() - began
        used = (after.user + after.system) - (before.user + before.system)
        return Idle(process.memory_info().rss / 1e6, 100 * used / took)


RAN: list[float] = []
ENOUGH = threading.Event()


def noop() -> None:
    """APScheduler's job."""
    RAN.append(time.time())


def apscheduler(url: str, count: int) -> float:
    """Jobs per second of APScheduler 3, all due before it starts, with its store in the same PostgreSQL."""
    RAN.clear()
    store = SQLAlchemyJobStore(url=url.replace("postgresql://", "postgresql+psycopg://"))
    scheduler = BackgroundScheduler(
        jobstores={"default": store}, executors={"default": ThreadPoolExecutor(10)}, timezone=UTC
    )
    scheduler.start(paused=True)
    due = datetime.now(UTC)
    for number in range(count):
        scheduler.add_job(
            noop, "interval", hours=1, start_date=due, id=f"j{number}", misfire_grace_time=None, next_run_time=due
        )
    began = time.time()
    scheduler.resume()
    deadline = time.monotonic() + 120
    while len(RAN) < count and time.monotonic() < deadline:
        ENOUGH.wait(0.02)
    scheduler.shutdown(wait=True)
    return len(RAN) / (max(RAN) - began)


def show(name: str, values: Sequence[float], unit: str) -> float:
    """Prints median and spread; returns the median."""
    middle = statistics.median(values)
    print(f"{name:<52} {middle:>12,.3f} {unit:<8} ({min(values):,.3f} – {max(values):,.3f})")
    return middle


async def measure(url: str, args: argparse.Namespace) -> dict[str, float]:
    at_once, all_of, killed, log = list[Burst](), list[Burst](), list[Burst](), list[float]()
    for _ in range(args.rounds):
        async with fresh_installation(url) as site:
            at_once.append(await burst(site, args.at_once))
        async with fresh_installation(url) as site:
            all_of.append(await burst(site, args.burst))
            log.append(await relay_all(site))
        async with fresh_installation(url) as site:
            half = args.burst / all_of[-1].per_s / 2
            killed.append(await burst(site, args.burst, kill_after=half))
    async with fresh_installation(url) as site:
        await hold(site, 1, datetime.now(UTC) + timedelta(days=1))
        resting = await idle(site, args.held)
    others: list[float] = []
    for _ in range(args.rounds):
        async with fresh_installation(url) as site:
            others.append(await asyncio.to_thread(apscheduler, site.url, args.others))
    every = [*at_once, *all_of, *killed]
    if any(each.doubled for each in every):
        raise SystemExit(f"doubled: {[each.doubled for each in every]}")
    result = {
        "fired_per_s": show(f"fired, {args.burst:,} due at once", [each.per_s for each in all_of], "ticks/s"),
        "late_p50_s": show(f"late, {args.at_once:,} due at once: half", [each.late(0.5) for each in at_once], "s"),
        "late_p99_s": show(f"late, {args.at_once:,} due at once: 99 %", [each.late(0.99) for each in at_once], "s"),
        "lost": show("lost, one of two instances killed", [each.lost for each in every], "ticks"),
        "early": show("early", [each.early for each in every], "ticks"),
        "apscheduler_per_s": show(f"APScheduler, {args.others:,} due at once", others, "jobs/s"),
        "held_rss_mb": show(f"memory beside {args.held:,} timers", [resting.rss_mb], "MB"),
    }
    result["lost"], result["early"] = sum(each.lost for each in every), sum(each.early for each in every)
    show("CPU idle beside them", [resting.cpu_percent], "%")
    show(f"late, {args.burst:,} due at once: 99 %", [each.late(0.99) for each in all_of], "s")
    show("fired while one of two was killed", [each.per_s for each in killed], "ticks/s")
    show("from the outbox into the log, one relay", log, "ticks/s")
    return {name: round(value, 3) for name, value in result.items()}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--burst", type=int, default=100_000)
    arguments.add_argument("--at-once", type=int, default=10_000)
    arguments.add_argument("--held", type=int, default=1_000_000)
    arguments.add_argument("--others", type=int, default=2_000, help="APScheduler's jobs")
    arguments.add_argument("--instance", help=argparse.SUPPRESS)
    args = arguments.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if args.instance:
            runner.run(instance(args.instance))
            return
        with server() as url:
            print(about(["asyncpg", "apscheduler", "sqlalchemy"]))
            print(f"command: python -m bench.timers {' '.join(sys.argv[1:])}".rstrip())
            print(f"rounds {args.rounds}: median (least – most); load {psutil.getloadavg()[0]:.1f} when it began\n")
            result = runner.run(measure(url, args))
    print(f"\nRESULT {orjson.dumps(result).decode()}")


if __name__ == "__main__":
    main()
