"""Jobs launched and done per second: claim, every constraint, run, end; beside the queues people know, on the same
PostgreSQL in the same run.

    make bench NAME=launch_queue        python -m bench.launch_queue --jobs 12000 --rounds 3

Ours: jobs of 8 schedules of 8 programs wait in `jobs`, each with five constraints that hold just so (concurrency, a
shared group, a rate, a delay, a window). Launcher processes decide, admit, execute, end the runs as COMPLETED and
announce that, with the whole history; the clock runs from their release until the last end is stored. The programs are
of kind `publish`: launchers execute them within their own process (`launcher.hands`, claimed as they are admitted), as
all the others' tasks are executed in the worker; each leaves its event in the outbox besides. Runs of Spark and bash
are processes and cost what a process costs. All schedules share the one group, whose lock several launchers take in
turns. LAST_RUN is left out: it allows one run at a time by its nature. The installation has a past of as many jobs.

What is compared is not the same work, and neither are the terms, so:
- Everybody's tables are logged and every commit waits for the disk (`synchronous_commit`).
- PgQueuer and procrastinate: one worker process each, with a task that does nothing; PgQueuer's history (three lines a
  job) is written as it ships. A job of ours leaves six lines, three announcements, a run and its slots.
- Ours takes up to 512 jobs in a transaction, PgQueuer the same, as many as it likes best here; each ends in batches.
- PgQueuer alone has no constraint to look at; `pgqueuer_limited_per_s` is PgQueuer with the one it knows, a limit of
  how many jobs of the kind run at a time, as high as ours.
- Raw: one connection that takes a row with FOR UPDATE SKIP LOCKED and marks it done, one job and two commits at a time;
  `raw_4_per_s` is four of them, `raw_batch_per_s` one that takes and marks as many as we do in a transaction. Against
  that one a scheduler has no batches to win by.
Whoever needs long for it gets fewer jobs (`--slow`). Numbers of one run compare; those of two on a shared machine do
not.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import platform
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
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

from bench.town import server
from streamsched import __version__
from streamsched.codec import launch
from streamsched.codec.schedule import program_to_json, schedule_to_json
from streamsched.domain.constraint import Concurrency, Delay
from streamsched.domain.event import CustomHappened, Event
from streamsched.domain.group import Group
from streamsched.domain.job import Contribution, ReadyJob
from streamsched.domain.names import EventName, ProgramRef, ScheduleRef
from streamsched.domain.overlap import Overlap
from streamsched.domain.rate import Rate
from streamsched.domain.schedule import Program, PublishJob, Schedule
from streamsched.domain.trigger import CustomEvent, leaf_id
from streamsched.domain.window import TimeWindow
from streamsched.launcher.followup import FollowUp, Patience
from streamsched.launcher.hands import QuickHands
from streamsched.launcher.loop import Launcher
from streamsched.ports.clock import SystemClock
from streamsched.ports.intake import Batch, Satisfaction
from streamsched.ports.runner import RunnerId
from streamsched.ports.runs import Ending
from streamsched.ports.topics import LAUNCH
from streamsched.spark.processes import this_process
from streamsched.store.bell import PostgresBell
from streamsched.store.crowd import PostgresRunCrowd
from streamsched.store.docket import PostgresDecisions
from streamsched.store.followup import PostgresFollowUpBook
from streamsched.store.intake import PostgresIntake
from streamsched.store.migrate import migrate
from streamsched.store.pool import open_pool
from streamsched.stream.worker import GC_THRESHOLDS

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
    """`ports.runner.Runners` of a launcher that starts no processes."""

    def spawn(self, run: str) -> None:
        raise AssertionError(f"{run} wants a process")

    def room(self) -> int:
        return 0

    def alive(self, runner: RunnerId) -> bool | None:
        return True

    def ending(self, run: str) -> Ending | None:
        return None


def make(pool: asyncpg.Pool, bell: PostgresBell) -> tuple[QuickHands, Launcher]:
    """A launcher and its hands, as `bootstrap.launcher_loops` makes them."""
    clock = SystemClock()
    hands = QuickHands(PostgresRunCrowd(pool), this_process(), clock)
    followup = FollowUp(PostgresFollowUpBook(pool), NoProcesses(), clock, Patience(), hands=hands)
    return hands, Launcher(PostgresDecisions(pool), followup, bell, clock, hands=hands)


async def launcher(url: str) -> None:
    """One launcher process: says it is ready, waits for a line, works until it is ended."""
    pool, bell = await open_pool(url, min_size=4), PostgresBell(url)
    hands, made = make(pool, bell)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await asyncio.gather(made.run(), hands.run())


async def ours(url: str, jobs: int, launchers: int) -> float:
    """Jobs per second of so many launcher processes."""
    pool = await open_pool(url)
    before = await pool.fetchval("SELECT count(*) FROM jobs")
    await waiting(pool, jobs, before // PROGRAMS)
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
        begun = time.perf_counter()
        for child in children:
            assert child.stdin is not None
            child.stdin.write(b"go\n")
        async with asyncio.timeout(300):
            while await pool.fetchval(BUSY):
                await asyncio.sleep(0.01)
        seconds = time.perf_counter() - begun
    finally:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    states = {row[0]: row[1] for row in await pool.fetch("SELECT state, count(*) FROM runs GROUP BY state")}
    assert states == {"COMPLETED": before + jobs}, states
    await pool.close()
    return jobs / seconds


async def waiting(pool: asyncpg.Pool, jobs: int, before: int) -> None:
    """Definitions, and ready jobs as the intake leaves them; each schedule had so many before."""
    now = datetime.now(UTC)
    await pool.execute("INSERT INTO namespaces VALUES ('default', $1) ON CONFLICT DO NOTHING", now)
    await pool.execute("INSERT INTO apps VALUES ('default.bench', 'default', $1, $1) ON CONFLICT DO NOTHING", now)
    leaf = CustomEvent(GO)
    readies: list[Satisfaction] = []
    for place in range(PROGRAMS):
        program = Program(ProgramRef("default", "bench", f"p{place}"), PublishJob(DONE))
        known = Schedule(
            ScheduleRef("default", "bench", f"s{place}"), program.ref, leaf, CONSTRAINTS, overlap=Overlap.QUEUE
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
            event = Event(f"{place}-{sequence}", "bench", now, CustomHappened(GO))
            ready = ReadyJob(known.ref, 1, sequence, now, (Contribution(leaf_id(leaf), 1, (event,)),))
            readies.append(Satisfaction(ready.id, str(known.ref), 1, sequence, now, launch.encode(ready).decode()))
    intake = PostgresIntake(pool)
    at = (await intake.positions(LAUNCH, 1))[0]
    taken = await intake.take(LAUNCH, [Batch(0, at, at + len(readies), readies)], now=now)
    assert taken.stored == jobs
    await pool.execute("TRUNCATE outbox")  # as the relay leaves it
    await pool.execute("VACUUM ANALYZE")


async def raw(url: str, jobs: int, connections: int = 1) -> float:
    """A loop that takes and marks, one row at a time."""
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

    begun = time.perf_counter()
    await asyncio.gather(*(loop() for _ in range(connections)))
    seconds = time.perf_counter() - begun
    await pool.close()
    return jobs / seconds


async def batched(url: str, jobs: int) -> float:
    """Takes and marks as many rows at a time as a launcher does jobs, and nothing else."""
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TABLE batched (id bigint PRIMARY KEY, state text NOT NULL, payload text)")
    await connection.execute("CREATE INDEX ON batched (id) WHERE state = 'ready'")
    await connection.execute("INSERT INTO batched SELECT n, 'ready', 'x' FROM generate_series(1, $1::bigint) n", jobs)
    await connection.execute("ANALYZE batched")
    begun = time.perf_counter()
    while taken := await connection.fetch(
        "UPDATE batched SET state = 'taken' WHERE id IN (SELECT id FROM batched WHERE state = 'ready' ORDER BY id "
        "LIMIT 512 FOR UPDATE SKIP LOCKED) RETURNING id"
    ):
        await connection.execute("UPDATE batched SET state = 'done' WHERE id = ANY($1)", [row["id"] for row in taken])
    seconds = time.perf_counter() - begun
    await connection.close()
    return jobs / seconds


async def pgqueuer(url: str, jobs: int, limit: int = 0) -> float:
    """PgQueuer, one worker; unless it is 0, the database sees to it that no more than `limit` jobs run at a time."""
    pool = await asyncpg.create_pool(url, min_size=4, max_size=8)
    queue = PgQueuer.from_asyncpg_pool(pool)
    queries = queue.qm.queries
    await queries.install()

    @queue.entrypoint("noop", concurrency_limit=limit)
    async def noop(job: object) -> None:
        """Nothing."""

    await queries.enqueue(["noop"] * jobs, [b"x"] * jobs, [0] * jobs)
    begun = time.perf_counter()
    await queue.run(batch_size=512, mode=QueueExecutionMode.drain, dequeue_timeout=timedelta(seconds=1))
    seconds = time.perf_counter() - begun
    await queries.uninstall()
    await pool.close()
    return jobs / seconds


async def procrastinate(url: str, jobs: int) -> float:
    """procrastinate, one worker with 50 tasks at a time."""
    app = App(connector=PsycopgConnector(conninfo=url, max_size=10))

    @app.task(name="noop")
    async def noop() -> None:
        """Nothing."""

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await noop.batch_defer_async(*({} for _ in range(jobs)))
        begun = time.perf_counter()
        await app.run_worker_async(wait=False, concurrency=50, listen_notify=False, install_signal_handlers=False)
        return jobs / (time.perf_counter() - begun)


async def fresh(url: str, name: str) -> str:
    """URL of an empty database."""
    made = f"{name}_{uuid4().hex[:6]}"
    admin = await asyncpg.connect(url)
    await admin.execute(f"CREATE DATABASE {made}")
    await admin.close()
    return url.replace("/postgres?", f"/{made}?")


async def measured(name: str, rounds: int, measure: Callable[[], Awaitable[float]]) -> float:
    """The median of the rounds, and a line with their spread."""
    found = [await measure() for _ in range(rounds)]
    print(f"{name:<34} {statistics.median(found):>9,.0f} jobs/s   ({min(found):,.0f} – {max(found):,.0f})", flush=True)
    return statistics.median(found)


async def compare(url: str, jobs: int, rounds: int, slow: int) -> dict[str, float]:
    """Everybody in turn."""
    database = await fresh(url, "ours")
    await asyncio.to_thread(migrate, database)
    await ours(database, jobs, 1)  # without a past the plans would be those of empty tables

    async def elsewhere(run: Callable[[str, int], Awaitable[float]], count: int = jobs) -> float:
        return await run(await fresh(url, "other"), count)

    async def limited(url: str, count: int) -> float:
        return await pgqueuer(url, count, 10_000)

    async def raw_4(url: str, count: int) -> float:
        return await raw(url, count, 4)

    return {
        "jobs_per_s_1": await measured("ours, 1 launcher", rounds, lambda: ours(database, jobs, 1)),
        "jobs_per_s_4": await measured("ours, 4 launchers", rounds, lambda: ours(database, jobs, 4)),
        "pgqueuer_per_s": await measured("PgQueuer", rounds, lambda: elsewhere(pgqueuer)),
        "pgqueuer_limited_per_s": await measured("PgQueuer, with a limit", rounds, lambda: elsewhere(limited)),
        "procrastinate_per_s": await measured("procrastinate", rounds, lambda: elsewhere(procrastinate, slow)),
        "raw_per_s": await measured("raw SKIP LOCKED loop", rounds, lambda: elsewhere(raw, slow)),
        "raw_4_per_s": await measured("raw, 4 connections", rounds, lambda: elsewhere(raw_4, slow)),
        "raw_batch_per_s": await measured("raw, 512 at a time", rounds, lambda: elsewhere(batched)),
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints; the last line is RESULT with the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=12_000)
    parser.add_argument("--slow", type=int, default=2000, help="jobs for those that take one at a time")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--launcher", metavar="URL", help="be one launcher process")
    asked = parser.parse_args(argv)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    logging.disable(logging.WARNING)
    gc.set_threshold(*GC_THRESHOLDS)
    if asked.launcher:
        uvloop.run(launcher(asked.launcher))
        return
    if asked.jobs % PROGRAMS or asked.jobs < PROGRAMS:
        parser.error(f"--jobs must be a multiple of {PROGRAMS}")
    print(f"machine  {platform.machine()} {platform.system()}, streamsched {__version__}")
    print(
        f"command  python -m bench.launch_queue --jobs {asked.jobs} --rounds {asked.rounds} --slow {asked.slow}\n",
        flush=True,
    )
    with server() as url:
        results = uvloop.run(compare(url, asked.jobs, asked.rounds, asked.slow))
    print("RESULT " + orjson.dumps({name: round(value) for name, value in results.items()}).decode())


if __name__ == "__main__":
    main()
