"""Two launchers, killed and paused while they send requests: each job completes once, and only requests that may have
left are sent twice.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import HttpJob, Program, Schedule
from streamsched.store.connections import open_pool
from tests.faults.load.stored import GO, store_app, take_ready, until
from tests.faults.processes.command import environ, module
from tests.faults.processes.placed import PlacedProcesses
from tests.faults.sites.counting_server import CountingServer, url_of

PLACES = ("one", "two")
JOBS = 3000
LEASE_S = 1.0
LIVE = "state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')"


@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(180)
async def test_killing_launchers_repeats_only_what_was_on_the_wire_and_completes_each_job_once(
    database: str, tmp_path: Path
) -> None:
    rng, pool, far, now = random.Random(1), await open_pool(database), CountingServer(), datetime.now(UTC)
    server = await far.listen()
    program = Program(ProgramRef("default", "app", "p"), HttpJob(url_of(server)))
    known = Schedule(ScheduleRef("default", "app", "s"), program.ref, GO, overlap=Overlap.QUEUE)
    await store_app(pool, now, [program], [known])
    await take_ready(pool, known, range(1, JOBS + 1), now)
    in_flight = kills = 0
    with PlacedProcesses(tmp_path, environ()) as running:
        for place in PLACES:
            running.start(place, module("tests.faults.processes.launcher_process", database, str(LEASE_S)))
        for share in (0.1, 0.3, 0.5, 0.7):
            await until(pool, "SELECT count(*) >= $1 FROM runs WHERE state = 'COMPLETED'", int(share * JOBS))
            place = rng.randrange(2)
            if kills % 2:
                await running.pause(PLACES[1 - place], 1.5 * LEASE_S)
            pid = running.replace(PLACES[place])
            killed = time.monotonic()
            kills += 1
            mine = f"FROM runs WHERE runner LIKE '%:' || $1::text || ':%' AND {LIVE}"
            in_flight += await pool.fetchval(f"SELECT count(*) {mine} AND state = 'RUNNING'", str(pid))
            await until(pool, f"SELECT NOT EXISTS (SELECT {mine})", str(pid))
            # One lease time and 2 s; the rest is the start of the other process, which may have been killed before.
            assert time.monotonic() - killed < 10
        await until(pool, f"SELECT NOT EXISTS (SELECT FROM runs WHERE {LIVE})")
        await until(pool, "SELECT NOT EXISTS (SELECT FROM jobs WHERE state = 'PENDING_CONSTRAINT')")
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
