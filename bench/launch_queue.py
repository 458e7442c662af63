"""Benchmark of launchers: jobs per second from decision to the run's end, compared with other queues on the same
PostgreSQL.

    make bench NAME=launch_queue        python -m bench.launch_queue --jobs 12000 --rounds 3

streamsched: jobs of 8 schedules of 8 programs wait in `jobs`, each with five constraints that are satisfied
(concurrency, a shared group, a rate, a delay, a window). Launcher processes decide, admit, execute, end the runs as
COMPLETED and announce that, with complete history; measured from their release until the last end is stored. The
programs are of kind `publish`, which launchers execute inline (`launcher.inline_executor`), as the other queues execute
tasks in their worker; each also writes its event to the outbox. Runs of Spark and bash would add the cost of a process.
All schedules share one group, so launchers contend for its lock. LAST_RUN is not used, because it allows one run at a
time. The installation has a history of as many jobs.

The queues do different work:
- All tables are logged and every commit waits for the disk (`synchronous_commit`).
- PgQueuer and procrastinate: one worker process each, with a task that does nothing; PgQueuer writes its default
  history (three rows per job). A job of streamsched writes six history rows, three announcements, a run and its slots.
- streamsched takes up to 512 jobs in a transaction, PgQueuer too, which is its optimum here; both end jobs in batches.
- PgQueuer alone checks no constraint; `pgqueuer_limited_per_s` uses its concurrency limit, with the same value.
- Raw: one connection takes a row with FOR UPDATE SKIP LOCKED and marks it done, one job and two commits at a time;
  `raw_4_per_s` uses four connections, `raw_batch_per_s` one that takes and marks 512 rows in a transaction.
Slow queues get fewer jobs (`--slow`). Compare numbers of one run only; on a shared machine two runs differ.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import platform
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from datetime import time as wall
from typing import Final
from uuid import uuid4

import asyncpg
import orjson
import structlog
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.types import QueueExecutionMode
from procrastinate import App, PsycopgConnector

from bench.installation import server
from streamsched import __version__
from streamsched.codec.records import launch
from streamsched.codec.schedules.schedule import program_to_json, schedule_to_json
from streamsched.domain.addresses import EVERYWHERE
from streamsched.domain.constraints.constraint import Concurrency, Delay
from streamsched.domain.constraints.group import Group
from streamsched.domain.constraints.process_room import ProcessKind
from streamsched.domain.constraints.rate import Rate
from streamsched.domain.constraints.window import TimeWindow
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.jobs.job import Contribution, ReadyJob
from streamsched.domain.names import EventName, ProgramRef, ScheduleRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import Program, PublishJob, Schedule
from streamsched.domain.triggers.trigger import CustomEvent, leaf_id
from streamsched.launcher.inline_executor import InlineExecutor
from streamsched.launcher.loop import Launcher
from streamsched.launcher.run_monitor import RunMonitor, RunTimeouts
from streamsched.log.topics import LAUNCH
from streamsched.ports.clock import SystemClock
from streamsched.ports.intake import IntakeBatch, ReadyJobRow
from streamsched.ports.runner import RunnerId
from streamsched.ports.runs import RunEnd
from streamsched.process.http_client import HttpClient
from streamsched.process.memory import configure_memory
from streamsched.spark.processes import this_process
from streamsched.store.connections import open_pool
from streamsched.store.jobs.decisions import DecisionStore
from streamsched.store.jobs.intake import PostgresIntake
from streamsched.store.runs.run_batch import RunBatch
from streamsched.store.runs.run_monitor import RunMonitorStore
from streamsched.store.server.migrate import migrate
from streamsched.store.server.notifier import PostgresNotifier

PROGRAMS: Final = 8
GO: Final = EventName("default", "go")
DONE: Final = EventName("default", "done")
CONSTRAINTS: Final = (
    Concurrency(10_000, wait=True),
    Group("shared", 100_000),
    Rate(1000, timedelta(milliseconds=1)),
    Delay(timedelta(milliseconds=1)),
    TimeWindow(wall(0), wall(23, 59, 59)),
)
#: Whether a job waits or a run has not ended.
BUSY: Final = """
SELECT EXISTS (SELECT FROM runs WHERE state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED'))
    OR EXISTS (SELECT FROM jobs WHERE state = 'PENDING_CONSTRAINT')
"""


class NoProcesses:
    """`ports.runner.Runners` for programs that need no processes."""

    def spawn(self, run: str, kind: ProcessKind) -> None:
        del kind
        raise AssertionError(f"{run} needs a process")

    def fence(self, run: str) -> None:
        raise AssertionError(f"{run} needs a process")

    def fence_room(self) -> int:
        return 0

    def places(self) -> Mapping[ProcessKind, int]:
        return dict.fromkeys(ProcessKind, 0)

    def room(self, kind: ProcessKind) -> int:
        del kind
        return 0

    def is_alive(self, runner: RunnerId) -> bool | None:
        return True

    def end_note(self, run: str) -> RunEnd | None:
        return None


def make(pool: asyncpg.Pool, bell: PostgresNotifier) -> tuple[InlineExecutor, Launcher]:
    """A launcher and its inline executor, as in `roles.launcher`."""
    clock = SystemClock()
    inline = InlineExecutor(RunBatch(pool), this_process(), HttpClient(EVERYWHERE), clock)
    monitor = RunMonitor(RunMonitorStore(pool), NoProcesses(), clock, RunTimeouts(), inline=inline)
    return inline, Launcher(DecisionStore(pool), monitor, bell, clock, inline=inline)


async def launcher(url: str) -> None:
    """One launcher process: prints `ready`, waits for a line of input, and runs until it is killed."""
    pool, bell = await open_pool(url, min_size=4), PostgresNotifier(url)
    inline, launcher = make(pool, bell)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await asyncio.gather(launcher.run(), inline.run())


async def ours(url: str, jobs: int, launchers: int) -> float:
    """Jobs per second of `launchers` launcher processes."""
    pool = await open_pool(url)
    before = await pool.fetchval("SELECT count(*) FROM jobs")
    await store_ready(pool, jobs, before // PROGRAMS)
    children = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.launch_queue", "--launcher", url),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        for _ in range(launchers)
    ]
    try:
        for child in children:
            assert child.stdout is not None
            await child.stdout.readline()
        started = time.perf_counter()
        for child in children:
            assert child.stdin is not None
            child.stdin.write(b"go\n")
        async with asyncio.timeout(300):
            while await pool.fetchval(BUSY):
                await asyncio.sleep(0.01)
        seconds = time.perf_counter() - started
    finally:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    states = {row[0]: row[1] for row in await pool.fetch("SELECT state, count(*) FROM runs GROUP BY state")}
    assert states == {"COMPLETED": before + jobs}, states
    await pool.close()
    return jobs / seconds


async def store_ready(pool: asyncpg.Pool, jobs: int, before: int) -> None:
    """Stores definitions, and ready jobs as the intake does; `before`: jobs that each schedule already has."""
    now = datetime.now(UTC)
    await pool.execute("INSERT INTO namespaces VALUES ('default', $1) ON CONFLICT DO NOTHING", now)
    await pool.execute("INSERT INTO apps VALUES ('default.bench', 'default', $1, $1) ON CONFLICT DO NOTHING", now)
    leaf = CustomEvent(GO)
    readies: list[ReadyJobRow] = []
    for number in range(PROGRAMS):
        program = Program(ProgramRef("default", "bench", f"p{number}"), PublishJob(DONE))
        known = Schedule(
            ScheduleRef("default", "bench", f"s{number}"), program.ref, leaf, CONSTRAINTS, overlap=Overlap.QUEUE
        )
        await pool.execute(
            "INSERT INTO programs VALUES ($1, 'default.bench', $2, $3, $3) ON CONFLICT DO NOTHING",
            *(str(program.ref), program_to_json(program), now),
        )
        await pool.execute(
            "INSERT INTO schedules VALUES ($1, 'default.bench', $2, $3, 1, true, $4, $4) ON CONFLICT DO NOTHING",
            *(str(known.ref), str(program.ref), schedule_to_json(known), now),
        )
        for sequence in range(before + 1, before + jobs // PROGRAMS + 1):
            event = Event(f"{number}-{sequence}", "bench", now, CustomHappened(GO))
            ready = ReadyJob(known.ref, 1, sequence, now, (Contribution(leaf_id(leaf), 1, (event,)),))
            readies.append(ReadyJobRow(ready.id, str(known.ref), 1, sequence, now, launch.encode(ready).decode()))
    intake = PostgresIntake(pool)
    at = (await intake.positions(LAUNCH, 1))[0]
    taken = await intake.take(LAUNCH, [IntakeBatch(0, at, at + len(readies), readies)], now=now)
    assert taken.stored == jobs
    await pool.execute("TRUNCATE outbox")  # as the relay leaves it
    await pool.execute("VACUUM ANALYZE")


async def raw(url: str, jobs: int, connections: int = 1) -> float:
    """Takes and marks one row at a time."""
    pool = await asyncpg.create_pool(url, min_size=connections, max_size=connections)
    await pool.execute("DROP TABLE IF EXISTS raw")
    await pool.execute("CREATE TABLE raw (id bigint PRIMARY KEY, state text NOT NULL, payload text)")
    await pool.execute("CREATE INDEX ON raw (id) WHERE state = 'ready'")
    await pool.execute("INSERT INTO raw SELECT n, 'ready', 'x' FROM generate_series(1, $1::bigint) n", jobs)
    await pool.execute("ANALYZE raw")

    async def loop() -> None:
        async with pool.acquire() as connection:
            take = await connection.prepare(
                "UPDATE raw SET state = 'taken' WHERE id = (SELECT id FROM raw WHERE state = 'ready' ORDER BY id "
                "LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
            )
            done = await connection.prepare("UPDATE raw SET state = 'done' WHERE id = $1")
            while (found := await take.fetchval()) is not None:
                await done.fetchval(found)

    started = time.perf_counter()
    await asyncio.gather(*(loop() for _ in range(connections)))
    seconds = time.perf_counter() - started
    await pool.close()
    return jobs / seconds


async def take_batches(url: str, jobs: int) -> float:
    """Takes and marks 512 rows at a time, like a launcher."""
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TABLE batched (id bigint PRIMARY KEY, state text NOT NULL, payload text)")
    await connection.execute("CREATE INDEX ON batched (id) WHERE state = 'ready'")
    await connection.execute("INSERT INTO batched SELECT n, 'ready', 'x' FROM generate_series(1, $1::bigint) n", jobs)
    await connection.execute("ANALYZE batched")
    started = time.perf_counter()
    while taken := await connection.fetch(
        "UPDATE batched SET state = 'taken' WHERE id IN (SELECT id FROM batched WHERE state = 'ready' ORDER BY id "
        "LIMIT 512 FOR UPDATE SKIP LOCKED) RETURNING id"
    ):
        await connection.execute("UPDATE batched SET state = 'done' WHERE id = ANY($1)", [row["id"] for row in taken])
    seconds = time.perf_counter() - started
    await connection.close()
    return jobs / seconds


async def pgqueuer(url: str, jobs: int, limit: int = 0) -> float:
    """PgQueuer with one worker; `limit`: its concurrency limit, 0: none."""
    pool = await asyncpg.create_pool(url, min_size=4, max_size=8)
    queue = PgQueuer.from_asyncpg_pool(pool)
    queries = queue.qm.queries
    await queries.install()

    @queue.entrypoint("noop", concurrency_limit=limit)
    async def noop(job: object) -> None:
        """Nothing."""

    await queries.enqueue(["noop"] * jobs, [b"x"] * jobs, [0] * jobs)
    started = time.perf_counter()
    await queue.run(batch_size=512, mode=QueueExecutionMode.drain, dequeue_timeout=timedelta(seconds=1))
    seconds = time.perf_counter() - started
    await queries.uninstall()
    await pool.close()
    return jobs / seconds


async def procrastinate(url: str, jobs: int) -> float:
    """procrastinate with one worker and 50 concurrent tasks."""
    app = App(connector=PsycopgConnector(conninfo=url, max_size=10))

    @app.task(name="noop")
    async def noop() -> None:
        """Nothing."""

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await noop.batch_defer_async(*({} for _ in range(jobs)))
        started = time.perf_counter()
        await app.run_worker_async(wait=False, concurrency=50, listen_notify=False, install_signal_handlers=False)
        return jobs / (time.perf_counter() - started)


async def fresh(url: str, name: str) -> str:
    """URL of an empty database."""
    made = f"{name}_{uuid4().hex[:6]}"
    admin = await asyncpg.connect(url)
    await admin.execute(f"CREATE DATABASE {made}")
    await admin.close()
    return url.replace("/postgres?", f"/{made}?")


async def measure_rounds(name: str, rounds: int, measure: Callable[[], Awaitable[float]]) -> float:
    """The median of the rounds; prints a line with their spread."""
    found = [await measure() for _ in range(rounds)]
    print(f"{name:<34} {statistics.median(found):>9,.0f} jobs/s   ({min(found):,.0f} – {max(found):,.0f})", flush=True)
    return statistics.median(found)


async def compare(url: str, jobs: int, rounds: int, slow: int) -> dict[str, float]:
    """Measures all queues, one after the other."""
    database = await fresh(url, "ours")
    await asyncio.to_thread(migrate, database)
    await ours(database, jobs, 1)  # without history, plans would be for empty tables

    async def elsewhere(run: Callable[[str, int], Awaitable[float]], count: int = jobs) -> float:
        return await run(await fresh(url, "other"), count)

    async def limit(url: str, count: int) -> float:
        return await pgqueuer(url, count, 10_000)

    async def raw_4(url: str, count: int) -> float:
        return await raw(url, count, 4)

    return {
        "jobs_per_s_1": await measure_rounds("ours, 1 launcher", rounds, lambda: ours(database, jobs, 1)),
        "jobs_per_s_4": await measure_rounds("ours, 4 launchers", rounds, lambda: ours(database, jobs, 4)),
        "pgqueuer_per_s": await measure_rounds("PgQueuer", rounds, lambda: elsewhere(pgqueuer)),
        "pgqueuer_limited_per_s": await measure_rounds("PgQueuer, with a limit", rounds, lambda: elsewhere(limit)),
        "procrastinate_per_s": await measure_rounds("procrastinate", rounds, lambda: elsewhere(procrastinate, slow)),
        "raw_per_s": await measure_rounds("raw SKIP LOCKED loop", rounds, lambda: elsewhere(raw, slow)),
        "raw_4_per_s": await measure_rounds("raw, 4 connections", rounds, lambda: elsewhere(raw_4, slow)),
        "raw_batch_per_s": await measure_rounds("raw, 512 at a time", rounds, lambda: elsewhere(take_batches)),
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints; the last line is RESULT with the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=12_000)
    parser.add_argument("--slow", type=int, default=2000, help="jobs for queues that take one at a time")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--launcher", metavar="URL", help="run one launcher process (internal)")
    args = parser.parse_args(argv)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    logging.disable(logging.WARNING)
    configure_memory()
    if args.launcher:
        uvloop.run(launcher(args.launcher))
        return
    if args.jobs % PROGRAMS or args.jobs < PROGRAMS:
        parser.error(f"--jobs must be a multiple of {PROGRAMS}")
    print(f"machine  {platform.machine()} {platform.system()}, streamsched {__version__}")
    print(
        f"command  python -m bench.launch_queue --jobs {args.jobs} --rounds {args.rounds} --slow {args.slow}\n",
        flush=True,
    )
    with server() as url:
        results = uvloop.run(compare(url, args.jobs, args.rounds, args.slow))
    print("RESULT " + orjson.dumps({name: round(value) for name, value in results.items()}).decode())


if __name__ == "__main__":
    main()
