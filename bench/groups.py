"""Many jobs, many groups, little room: how near to the ideal, and how fair?

    make bench NAME=groups        python -m bench.groups --jobs 1000 --groups 50 --limit 2 --milliseconds 10

Every group has a program and a schedule of its own; its jobs queue for its slots. A run does nothing for so long,
inside the launcher. `makespan_over_ideal` is the time from the release to the last end, over jobs ÷ (groups × limit) ×
duration, which a scheduler that costs nothing would need; `longest_over_median_wait` compares the jobs' waits from the
release to the start of their runs. `peak_taken` is the most slots of one group that were ever taken, counted inside the
database.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import platform
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime

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

    def __init__(self, crowd: PostgresRunCrowd, seconds: float) -> None:
        self._crowd = crowd
        self._seconds = seconds
        self._begun: list[str] = []
        self.started: dict[str, datetime] = {}

    def fits(self, program: Program) -> bool:
        return True

    def room(self) -> int:
        return 2048

    def holds(self, run: str) -> bool:
        return run in self.started

    def take(self, runs: Sequence[str]) -> None:
        raise AssertionError(f"{runs} did not begin with their admission")

    def begin(self, runs: Sequence[Assignment]) -> None:
        now = datetime.now(UTC)
        self._begun += [each.run for each in runs]
        self.started |= {each.run: now for each in runs}

    async def execute(self) -> int:
        begun, self._begun = self._begun, []
        if not begun:
            return 0
        await asyncio.sleep(self._seconds)
        at = datetime.now(UTC)
        ends = {run: Ending(RunState.COMPLETED, "", at, 0) for run in begun}
        return len(await self._crowd.finish(ends, said={}))


async def measure(url: str, *, jobs: int, groups: int, limit: int, seconds: float) -> dict[str, float]:
    """Releases the jobs and waits for the last of them."""
    pool = await open_pool(url, min_size=2, max_size=8)
    await pool.execute(WITNESS)
    now = datetime.now(UTC)
    await pool.execute("INSERT INTO namespaces VALUES ('default', $1)", now)
    await pool.execute("INSERT INTO apps VALUES ('default.bench', 'default', $1, $1)", now)
    readies: list[Satisfaction] = []
    for place in range(groups):
        program = Program(ProgramRef("default", "bench", f"p{place}"), BashJob("true"))
        ref = ScheduleRef("default", "bench", f"s{place}")
        wanted = (Group(f"g{place}", limit),)
        known = Schedule(ref, program.ref, CustomEvent(GO), wanted, overlap=Overlap.QUEUE)
        name, definition = str(program.ref), program_to_json(program)
        await pool.execute("INSERT INTO programs VALUES ($1, 'default.bench', $2, $3, $3)", name, definition, now)
        await pool.execute(
            "INSERT INTO schedules VALUES ($1, 'default.bench', $2, $3, 1, true, $4, $4)",
            *(str(ref), name, schedule_to_json(known), now),
        )
        for sequence in range(1, jobs // groups + 1):
            ready = ReadyJob(ref, 1, sequence, now, ())
            readies.append(Satisfaction(ready.id, str(ref), 1, sequence, now, launch.encode(ready).decode()))
    intake = PostgresIntake(pool)
    await intake.positions(LAUNCH, 1)
    await intake.take(LAUNCH, [Batch(0, 0, len(readies), readies)], now=now)
    await pool.execute("ANALYZE")

    clock, bell, dozing = SystemClock(), PostgresBell(url), Dozing(PostgresRunCrowd(pool), seconds)
    followup = FollowUp(PostgresFollowUpBook(pool), NoProcesses(), clock, Patience(), hands=dozing)
    made = Launcher(PostgresDecisions(pool), followup, bell, clock, hands=dozing)
    begun = datetime.now(UTC)
    executing: set[asyncio.Task[int]] = set()
    while len(dozing.started) < jobs or executing:
        ruled = await made.run_once()
        executing.add(asyncio.create_task(dozing.execute()))
        if not ruled:
            await asyncio.wait(executing, return_when=asyncio.FIRST_COMPLETED)
        executing = {task for task in executing if not task.done()}
    makespan = (await pool.fetchval("SELECT max(ended_at) FROM runs") - begun).total_seconds()
    waits = sorted((at - begun).total_seconds() for at in dozing.started.values())
    peak = await pool.fetchval("SELECT max(most) FROM peak")
    await bell.close()
    await pool.close()
    ideal = jobs / (groups * limit) * seconds
    return {
        "makespan_s": makespan,
        "makespan_over_ideal": makespan / ideal,
        "longest_over_median_wait": waits[-1] / statistics.median(waits),
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
    asked = parser.parse_args(argv)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    print(f"machine  {platform.machine()} {platform.system()}, streamsched {__version__}")
    print(f"jobs     {asked.jobs} in {asked.groups} groups of {asked.limit} slots, {asked.milliseconds:g} ms each\n")
    seconds = asked.milliseconds / 1000
    with server() as url:
        database = uvloop.run(prepared(url))
        found = uvloop.run(measure(database, jobs=asked.jobs, groups=asked.groups, limit=asked.limit, seconds=seconds))
    print("RESULT " + orjson.dumps({name: round(value, 2) for name, value in found.items()}).decode())


if __name__ == "__main__":
    main()
