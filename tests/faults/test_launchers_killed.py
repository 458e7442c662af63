"""Two launchers, killed and paused while they send requests: each job completes once, and only requests that may have
left are sent twice.
"""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest

from streamsched.codec.records import launch
from streamsched.codec.schedules.schedule import program_to_json, schedule_to_json
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.jobs.job import Contribution, ReadyJob
from streamsched.domain.names import EventName, ProgramRef, ScheduleRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import HttpJob, Program, Schedule
from streamsched.domain.triggers.trigger import CustomEvent, leaf_id
from streamsched.log.topics import LAUNCH
from streamsched.ports.intake import IntakeBatch, ReadyJobRow
from streamsched.store.connections import open_pool
from streamsched.store.jobs.intake import PostgresIntake
from tests.faults.sites.counting_server import CountingServer, url_of

ROOT = Path(__file__).parents[2]
JOBS = 3000
LEASE_S = 1.0
LIVE = "state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')"


class LauncherProcesses:
    """The two processes."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._running = [self._start(), self._start()]

    def _start(self) -> subprocess.Popen[bytes]:
        command = (sys.executable, "-m", "tests.faults.launcher_process", self._url, str(LEASE_S))
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)

    def kill(self, place: int) -> int:
        """Kills one and starts another; returns the process id of the killed one."""
        killed = self._running[place]
        killed.kill()
        killed.wait()
        self._running[place] = self._start()
        return killed.pid

    def pause(self, place: int) -> None:
        self._running[place].send_signal(signal.SIGSTOP)

    def go_on(self, place: int) -> None:
        self._running[place].send_signal(signal.SIGCONT)

    def stop(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()


async def furnish(pool: asyncpg.Pool, url: str) -> None:
    """A program that sends a request, its schedule, and ready jobs as the intake stores them."""
    now, leaf = datetime.now(UTC), CustomEvent(EventName("default", "go"))
    program = Program(ProgramRef("default", "app", "p"), HttpJob(url))
    known = Schedule(ScheduleRef("default", "app", "s"), program.ref, leaf, overlap=Overlap.QUEUE)
    await pool.execute("INSERT INTO namespaces VALUES ('default', $1)", now)
    await pool.execute("INSERT INTO apps VALUES ('default.app', 'default', $1, $1)", now)
    await pool.execute(
        "INSERT INTO programs VALUES ($1, 'default.app', $2, $3, $3)", str(program.ref), program_to_json(program), now
    )
    await pool.execute(
        "INSERT INTO schedules VALUES ($1, 'default.app', $2, $3, 1, true, $4, $4)",
        *(str(known.ref), str(program.ref), schedule_to_json(known), now),
    )
    readies: list[ReadyJobRow] = []
    for sequence in range(1, JOBS + 1):
        event = Event(str(sequence), "test", now, CustomHappened(leaf.name))
        ready = ReadyJob(known.ref, 1, sequence, now, (Contribution(leaf_id(leaf), 1, (event,)),))
        readies.append(ReadyJobRow(ready.id, str(known.ref), 1, sequence, now, launch.encode(ready).decode()))
    intake = PostgresIntake(pool)
    at = (await intake.positions(LAUNCH, 1))[0]
    taken = await intake.take(LAUNCH, [IntakeBatch(0, at, at + len(readies), readies)], now=now)
    assert taken.stored == len(readies)


async def until(pool: asyncpg.Pool, question: str, *arguments: object) -> None:
    """Until the answer is true, at most a minute."""
    for _ in range(1200):
        if await pool.fetchval(question, *arguments):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"not within a minute: {question}")


@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(180)
async def test_killing_launchers_repeats_only_what_was_on_the_wire_and_completes_each_job_once(database: str) -> None:
    rng, pool, far = random.Random(1), await open_pool(database), CountingServer()
    server = await far.listen()
    await furnish(pool, url_of(server))
    running = LauncherProcesses(database)
    in_flight = kills = 0
    try:
        for share in (0.1, 0.3, 0.5, 0.7):
            await until(pool, "SELECT count(*) >= $1 FROM runs WHERE state = 'COMPLETED'", int(share * JOBS))
            place = rng.randrange(2)
            if kills % 2:
                running.pause(1 - place)
                await asyncio.sleep(1.5 * LEASE_S)
                running.go_on(1 - place)
            pid = running.kill(place)
            killed = time.monotonic()
            kills += 1
            mine = f"FROM runs WHERE runner LIKE '%:' || $1::text || ':%' AND {LIVE}"
            in_flight += await pool.fetchval(f"SELECT count(*) {mine} AND state = 'RUNNING'", str(pid))
            await until(pool, f"SELECT NOT EXISTS (SELECT {mine})", str(pid))
            # One lease time and 2 s; the rest is the start of the other process, which may have been killed before.
            assert time.monotonic() - killed < 10
        await until(pool, f"SELECT NOT EXISTS (SELECT FROM runs WHERE {LIVE})")
        await until(pool, "SELECT NOT EXISTS (SELECT FROM jobs WHERE state = 'PENDING_CONSTRAINT')")
    finally:
        running.stop()
        server.close()
    completed = Counter(row["job"] for row in await pool.fetch("SELECT job FROM runs WHERE state = 'COMPLETED'"))
    lost = await pool.fetchval("SELECT count(*) FROM runs WHERE state = 'LOST'")
    states = await pool.fetch("SELECT DISTINCT state FROM runs ORDER BY state")
    await pool.close()

    jobs = [f"default.app.s.1.{n}" for n in range(1, JOBS + 1)]
    assert completed == Counter(jobs)
    assert {row["state"] for row in states} <= {"COMPLETED", "LOST"}
    assert far.seen.keys() == set(jobs)
    assert lost <= in_flight
    assert far.seen.total() - JOBS <= in_flight
