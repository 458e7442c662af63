"""Benchmark of concurrency groups: throughput compared with the ideal, and fairness.

    make bench NAME=groups        python -m bench.groups --jobs 1000 --groups 50 --limit 2 --milliseconds 10

Every group has its own program and schedule, whose jobs queue for its slots. A run sleeps for `--milliseconds` inside
the launcher. `makespan_over_ideal`: the time from the release to the last end, over the ideal jobs ÷ (groups × limit) ×
duration. `longest_over_median_wait`: of the jobs' waits from the release to the start of their runs. `peak_taken`: the
largest number of taken slots of one group, counted by a database trigger in a separate round.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import asyncpg
import orjson
import structlog
import uvloop

from bench.installation import server
from bench.launch_queue import GO, NoProcesses, fresh
from streamsched import __version__
from streamsched.codec.records import launch
from streamsched.codec.schedules.schedule import program_to_json, schedule_to_json
from streamsched.domain.constraints.group import Group
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import BashJob, Program, Schedule
from streamsched.domain.triggers.trigger import CustomEvent
from streamsched.launcher.loop import Launcher
from streamsched.launcher.run_monitor import RunMonitor, RunTimeouts
from streamsched.log.topics import LAUNCH
from streamsched.ports.clock import SystemClock
from streamsched.ports.intake import IntakeBatch, ReadyJobRow
from streamsched.ports.runner import RunnerId
from streamsched.ports.runs import Assignment, RunEnd
from streamsched.process.memory import configure_memory
from streamsched.store.connections import open_pool
from streamsched.store.jobs.decisions import DecisionStore
from streamsched.store.jobs.intake import PostgresIntake
from streamsched.store.runs.run_batch import RunBatch
from streamsched.store.runs.run_monitor import RunMonitorStore
from streamsched.store.server.migrate import migrate
from streamsched.store.server.notifier import PostgresNotifier

PEAK_TRIGGER = """
CREATE TABLE peak (name text PRIMARY KEY, taken integer NOT NULL, most integer NOT NULL);
CREATE FUNCTION count_peak() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO peak AS p VALUES (NEW.group_name, NEW.weight, NEW.weight) ON CONFLICT (name)
        DO UPDATE SET taken = p.taken + NEW.weight, most = greatest(p.most, p.taken + NEW.weight);
    ELSE UPDATE peak SET taken = taken - OLD.weight WHERE name = OLD.group_name;
    END IF; RETURN NULL; END $$;
CREATE TRIGGER count_peak AFTER INSERT OR DELETE ON group_slots FOR EACH ROW EXECUTE FUNCTION count_peak();
"""


class SleepingRuns:
    """A `ports.runner.InlineRunner` whose runs sleep concurrently."""

    runner = RunnerId("bench", 1, 1)

    def __init__(self, batch: RunBatch, seconds: float, jobs: int) -> None:
        self._batch = batch
        self._seconds = seconds
        self._left = jobs
        self._tasks: set[asyncio.Task[None]] = set()
        self.started: dict[str, float] = {}
        self.ended: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def fits(self, program: Program) -> bool:
        return True

    def room(self) -> int:
        return 2048

    def publications(self) -> int:
        return 2048

    async def wait_for_room(self) -> None:
        """Never: there is always room."""
        await asyncio.Event().wait()

    def holds(self, run: str) -> bool:
        return run in self.started

    def claim_and_execute(self, runs: Sequence[str]) -> None:
        assert not runs, f"{runs} did not start with their admission"

    def execute(self, runs: Sequence[Assignment]) -> None:
        self.started |= dict.fromkeys((each.run for each in runs), time.perf_counter())
        task = asyncio.create_task(self._execute([each.run for each in runs]))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def _execute(self, runs: Sequence[str]) -> None:
        await asyncio.sleep(self._seconds)
        at = datetime.now(UTC)
        await self._batch.finish({run: RunEnd(RunState.COMPLETED, "", at, 0) for run in runs}, events={})
        self._left -= len(runs)
        if not self._left:
            self.ended.set_result(time.perf_counter())

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if (wrong := task.exception()) is not None:
            self.ended.set_exception(wrong)


@dataclass(frozen=True, slots=True)
class Load:
    """The measured load."""

    url: str
    jobs: int
    groups: int
    limit: int
    seconds: float

    @property
    def ideal(self) -> float:
        """Seconds without any overhead."""
        return self.jobs / (self.groups * self.limit) * self.seconds


class Round(NamedTuple):
    makespan: float
    waits: Sequence[float]

    @property
    def longest_over_median(self) -> float:
        return max(self.waits) / statistics.median(self.waits)


def schedule(number: int) -> ScheduleRef:
    return ScheduleRef("default", "bench", f"s{number}")


async def define(pool: asyncpg.Pool, load: Load) -> None:
    """Stores program and schedule of each group."""
    now = datetime.now(UTC)
    await pool.execute("INSERT INTO namespaces VALUES ('default', $1)", now)
    await pool.execute("INSERT INTO apps VALUES ('default.bench', 'default', $1, $1)", now)
    for number in range(load.groups):
        program = Program(ProgramRef("default", "bench", f"p{number}"), BashJob("true"))
        wanted = (Group(f"g{number}", load.limit),)
        known = Schedule(schedule(number), program.ref, CustomEvent(GO), wanted, overlap=Overlap.QUEUE)
        name, definition = str(program.ref), program_to_json(program)
        await pool.execute("INSERT INTO programs VALUES ($1, 'default.bench', $2, $3, $3)", name, definition, now)
        await pool.execute(
            "INSERT INTO schedules VALUES ($1, 'default.bench', $2, $3, 1, true, $4, $4)",
            *(str(known.ref), name, schedule_to_json(known), now),
        )


async def arrive(pool: asyncpg.Pool, load: Load) -> None:
    """Stores the ready jobs, as the intake does."""
    before, now = await pool.fetchval("SELECT count(*) FROM jobs") // load.groups, datetime.now(UTC)
    readies: list[ReadyJobRow] = []
    for number in range(load.groups):
        for sequence in range(before + 1, before + load.jobs // load.groups + 1):
            ready = ReadyJob(schedule(number), 1, sequence, now, ())
            raw = launch.encode(ready).decode()
            readies.append(ReadyJobRow(ready.id, str(ready.schedule), 1, sequence, now, raw))
    intake = PostgresIntake(pool)
    at = (await intake.positions(LAUNCH, 1))[0]
    await intake.take(LAUNCH, [IntakeBatch(0, at, at + len(readies), readies)], now=now)
    await pool.execute("TRUNCATE outbox")  # as the relay leaves it
    await pool.execute("VACUUM ANALYZE")


async def once(pool: asyncpg.Pool, bell: PostgresNotifier, load: Load) -> Round:
    """Stores the jobs, and runs a launcher until the last of them has ended."""
    await arrive(pool, load)
    clock, runs = SystemClock(), SleepingRuns(RunBatch(pool), load.seconds, load.jobs)
    monitor = RunMonitor(RunMonitorStore(pool), NoProcesses(), clock, RunTimeouts(), inline=runs)
    launcher = Launcher(DecisionStore(pool), monitor, bell, clock, inline=runs)
    started = time.perf_counter()
    task = asyncio.create_task(launcher.run())
    try:
        async with asyncio.timeout(120):
            ended = await runs.ended
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return Round(ended - started, [at - started for at in runs.started.values()])


async def measure(load: Load, rounds: int) -> dict[str, float]:
    """The rounds after a warm-up, and one with the peak trigger, which costs about as much as the scheduler."""
    pool, bell = await open_pool(load.url, min_size=8, max_size=8), PostgresNotifier(load.url)
    await define(pool, load)
    found = [await once(pool, bell, load) for _ in range(1 + rounds)][1:]
    await pool.execute(PEAK_TRIGGER)
    await once(pool, bell, load)
    peak = await pool.fetchval("SELECT max(most) FROM peak")
    await bell.close()
    await pool.close()
    spans = [each.makespan for each in found]
    middle = statistics.median(spans)
    print(f"makespan {middle:.3f} s   ({min(spans):.3f} – {max(spans):.3f}), ideal {load.ideal:.3f} s\n")
    return {
        "makespan_s": middle,
        "makespan_over_ideal": middle / load.ideal,
        "longest_over_median_wait": statistics.median(each.longest_over_median for each in found),
        "peak_taken": peak,
    }


async def prepare(url: str) -> str:
    """URL of a migrated database."""
    database = await fresh(url, "groups")
    await asyncio.to_thread(migrate, database)
    return database


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints; the last line is RESULT."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=50)
    parser.add_argument("--limit", type=int, default=2)
    parser.add_argument("--milliseconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args(argv)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    print(f"machine  {platform.machine()} {platform.system()}, streamsched {__version__}")
    print(f"jobs     {args.jobs} in {args.groups} groups of {args.limit} slots, {args.milliseconds:g} ms each\n")
    configure_memory()
    with server() as url:
        load = Load(uvloop.run(prepare(url)), args.jobs, args.groups, args.limit, args.milliseconds / 1000)
        found = uvloop.run(measure(load, args.rounds))
    print("RESULT " + orjson.dumps({name: round(value, 2) for name, value in found.items()}).decode())


if __name__ == "__main__":
    main()
