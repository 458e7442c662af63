"""Many jobs, many groups, little room: how near to the ideal, and how fair?

    make bench NAME=groups        python -m bench.groups --jobs 1000 --groups 50 --limit 2 --milliseconds 10

Every group has a program and a schedule of its own; its jobs queue for its slots. A run does nothing for so long,
inside the launcher. `makespan_over_ideal` is the time from the release to the last end, over jobs ÷ (groups × limit) ×
duration, which a scheduler that costs nothing would need; `longest_over_median_wait` compares the jobs' waits from the
release to the start of their runs. `peak_taken` is the most slots of one group that were ever taken, counted inside the
database in a round of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
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

from bench.launch_queue import GO, NoProcesses, fresh
from bench.town import server
from streamsched import __version__
from streamsched.codec import launch
from streamsched.codec.schedule import program_to_json, schedule_to_json
from streamsched.domain.group import Group
from streamsched.domain.job import ReadyJob
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.overlap import Overlap
from streamsched.domain.run import RunState
from streamsched.domain.schedule import BashJob, Program, Schedule
from streamsched.domain.trigger import CustomEvent
from streamsched.launcher.followup import FollowUp, Patience
from streamsched.launcher.loop import Launcher
from streamsched.ports.clock import SystemClock
from streamsched.ports.intake import Batch, Satisfaction
from streamsched.ports.runner import RunnerId
from streamsched.ports.runs import Assignment, Ending
from streamsched.ports.topics import LAUNCH
from streamsched.store.bell import PostgresBell
from streamsched.store.crowd import PostgresRunCrowd
from streamsched.store.docket import PostgresDecisions
from streamsched.store.followup import PostgresFollowUpBook
from streamsched.store.intake import PostgresIntake
from streamsched.store.migrate import migrate
from streamsched.store.pool import open_pool
from streamsched.stream.worker import GC_THRESHOLDS

WITNESS = """
CREATE TABLE peak (name text PRIMARY KEY, taken integer NOT NULL, most integer NOT NULL);
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO peak AS p VALUES (NEW.group_name, NEW.weight, NEW.weight) ON CONFLICT (name)
        DO UPDATE SET taken = p.taken + NEW.weight, most = greatest(p.most, p.taken + NEW.weight);
    ELSE UPDATE peak SET taken = taken - OLD.weight WHERE name = OLD.group_name;
    END IF; RETURN NULL; END $$;
CREATE TRIGGER see AFTER INSERT OR DELETE ON group_slots FOR EACH ROW EXECUTE FUNCTION see();
"""


class Dozing:
    """`ports.runner.Hands` whose runs take their time, all at once."""

    runner = RunnerId("bench", 1, 1)

    def __init__(self, crowd: PostgresRunCrowd, seconds: float, jobs: int) -> None:
        self._crowd = crowd
        self._seconds = seconds
        self._left = jobs
        self._working: set[asyncio.Task[None]] = set()
        self.started: dict[str, float] = {}
        self.ended: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def fits(self, program: Program) -> bool:
        return True

    def room(self) -> int:
        return 2048

    def holds(self, run: str) -> bool:
        return run in self.started

    def take(self, runs: Sequence[str]) -> None:
        assert not runs, f"{runs} did not begin with their admission"

    def begin(self, runs: Sequence[Assignment]) -> None:
        self.started |= dict.fromkeys((each.run for each in runs), time.perf_counter())
        working = asyncio.create_task(self._execute([each.run for each in runs]))
        self._working.add(working)
        working.add_done_callback(self._done)

    async def _execute(self, runs: Sequence[str]) -> None:
        await asyncio.sleep(self._seconds)
        at = datetime.now(UTC)
        await self._crowd.finish({run: Ending(RunState.COMPLETED, "", at, 0) for run in runs}, said={})
        self._left -= len(runs)
        if not self._left:
            self.ended.set_result(time.perf_counter())

    def _done(self, task: asyncio.Task[None]) -> None:
        self._working.discard(task)
        if (wrong := task.exception()) is not None:
            self.ended.set_exception(wrong)


@dataclass(frozen=True, slots=True)
class Town:
    """What is measured: so many jobs in so many groups."""

    url: str
    jobs: int
    groups: int
    limit: int
    seconds: float

    @property
    def ideal(self) -> float:
        """Seconds it takes a scheduler that costs nothing."""
        return self.jobs / (self.groups * self.limit) * self.seconds


class Round(NamedTuple):
    makespan: float
    waits: Sequence[float]

    @property
    def longest_over_median(self) -> float:
        return max(self.waits) / statistics.median(self.waits)


def schedule(place: int) -> ScheduleRef:
    return ScheduleRef("default", "bench", f"s{place}")


async def define(pool: asyncpg.Pool, town: Town) -> None:
    """Of each group its program and its schedule."""
    now = datetime.now(UTC)
    await pool.execute("INSERT INTO namespaces VALUES ('default', $1)", now)
    await pool.execute("INSERT INTO apps VALUES ('default.bench', 'default', $1, $1)", now)
    for place in range(town.groups):
        program = Program(ProgramRef("default", "bench", f"p{place}"), BashJob("true"))
        wanted = (Group(f"g{place}", town.limit),)
        known = Schedule(schedule(place), program.ref, CustomEvent(GO), wanted, overlap=Overlap.QUEUE)
        name, definition = str(program.ref), program_to_json(program)
        await pool.execute("INSERT INTO programs VALUES ($1, 'default.bench', $2, $3, $3)", name, definition, now)
        await pool.execute(
            "INSERT INTO schedules VALUES ($1, 'default.bench', $2, $3, 1, true, $4, $4)",
            *(str(known.ref), name, schedule_to_json(known), now),
        )


async def arrive(pool: asyncpg.Pool, town: Town) -> None:
    """The jobs, as the intake leaves them."""
    before, now = await pool.fetchval("SELECT count(*) FROM jobs") // town.groups, datetime.now(UTC)
    readies: list[Satisfaction] = []
    for place in range(town.groups):
        for sequence in range(before + 1, before + town.jobs // town.groups + 1):
            ready = ReadyJob(schedule(place), 1, sequence, now, ())
            raw = launch.encode(ready).decode()
            readies.append(Satisfaction(ready.id, str(ready.schedule), 1, sequence, now, raw))
    intake = PostgresIntake(pool)
    at = (await intake.positions(LAUNCH, 1))[0]
    await intake.take(LAUNCH, [Batch(0, at, at + len(readies), readies)], now=now)
    await pool.execute("TRUNCATE outbox")  # as the relay leaves it
    await pool.execute("VACUUM ANALYZE")


async def once(pool: asyncpg.Pool, bell: PostgresBell, town: Town) -> Round:
    """The jobs come, and a launcher works until the last of them has ended."""
    await arrive(pool, town)
    clock, dozing = SystemClock(), Dozing(PostgresRunCrowd(pool), town.seconds, town.jobs)
    followup = FollowUp(PostgresFollowUpBook(pool), NoProcesses(), clock, Patience(), hands=dozing)
    made = Launcher(PostgresDecisions(pool), followup, bell, clock, hands=dozing)
    begun = time.perf_counter()
    working = asyncio.create_task(made.run())
    try:
        async with asyncio.timeout(120):
            ended = await dozing.ended
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    return Round(ended - begun, [at - begun for at in dozing.started.values()])


async def measure(town: Town, rounds: int) -> dict[str, float]:
    """Rounds, after one that warms up: launchers work for weeks. Then one more with a witness, whose triggers cost
    about as much as the scheduler does.
    """
    pool, bell = await open_pool(town.url, min_size=8, max_size=8), PostgresBell(town.url)
    await define(pool, town)
    found = [await once(pool, bell, town) for _ in range(1 + rounds)][1:]
    await pool.execute(WITNESS)
    await once(pool, bell, town)
    peak = await pool.fetchval("SELECT max(most) FROM peak")
    await bell.close()
    await pool.close()
    spans = [each.makespan for each in found]
    middle = statistics.median(spans)
    print(f"makespan {middle:.3f} s   ({min(spans):.3f} – {max(spans):.3f}), ideal {town.ideal:.3f} s\n")
    return {
        "makespan_s": middle,
        "makespan_over_ideal": middle / town.ideal,
        "longest_over_median_wait": statistics.median(each.longest_over_median for each in found),
        "peak_taken": peak,
    }


async def prepared(url: str) -> str:
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
    asked = parser.parse_args(argv)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    print(f"machine  {platform.machine()} {platform.system()}, streamsched {__version__}")
    print(f"jobs     {asked.jobs} in {asked.groups} groups of {asked.limit} slots, {asked.milliseconds:g} ms each\n")
    gc.set_threshold(*GC_THRESHOLDS)
    with server() as url:
        town = Town(uvloop.run(prepared(url)), asked.jobs, asked.groups, asked.limit, asked.milliseconds / 1000)
        found = uvloop.run(measure(town, asked.rounds))
    print("RESULT " + orjson.dumps({name: round(value, 2) for name, value in found.items()}).decode())


if __name__ == "__main__":
    main()
