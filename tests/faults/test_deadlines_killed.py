"""Two who watch over deadlines, killed again and again: each deadline is answered once, none early."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from streamsched.codec import event as event_codec
from streamsched.codec.schedules import deadline as codec
from streamsched.codec.schedules.schedule import program_to_json
from streamsched.domain.events.event import CustomHappened
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.deadline import Deadline, DeadlineKind, OnMiss
from streamsched.domain.schedules.schedule import BashJob, Program
from streamsched.store.connections import open_pool

ROOT = Path(__file__).parents[2]
JOBS = 200
KILLS = 6

FURNISH = """
INSERT INTO jobs (id, schedule, generation, sequence, program, state, satisfied_at, created_at, ready, next_check_at)
SELECT format('default.app.s.1.%s', n), 'default.app.s', 1, n, 'default.app.load', 'PENDING_CONSTRAINT', $1, $1, '{}',
    'infinity'
FROM generate_series(1, $2::integer) n
"""


async def furnish(pool: asyncpg.Pool, now: datetime) -> dict[str, datetime]:
    """Jobs that wait forever, and when each was to have started."""
    await pool.execute("INSERT INTO namespaces VALUES ('default', $1)", now)
    await pool.execute("INSERT INTO apps VALUES ('default.app', 'default', $1, $1)", now)
    for name in "load", "rescue":
        ref = ProgramRef("default", "app", name)
        program = program_to_json(Program(ref, BashJob("true")))
        await pool.execute("INSERT INTO programs VALUES ($1, 'default.app', $2, $3, $3)", str(ref), program, now)
    await pool.execute(FURNISH, now, JOBS)
    promised = Deadline(DeadlineKind.START, timedelta(minutes=1), then=OnMiss.START, program="rescue")
    due = {f"default.app.s.1.{n}": now + timedelta(seconds=1 + 4 * n / JOBS) for n in range(1, JOBS + 1)}
    await pool.executemany(
        "INSERT INTO deadlines VALUES ($1, '', 0, $2, $3)",
        [(job, at, codec.to_json(promised)) for job, at in due.items()],
    )
    return due


def start(url: str) -> subprocess.Popen[bytes]:
    command = (sys.executable, "-m", "tests.faults.processes.deadlines_process", url)
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)


async def left_are(pool: asyncpg.Pool, amount: int) -> None:
    """Until no more than that are still to come."""
    for _ in range(2000):
        if await pool.fetchval("SELECT count(*) FROM deadlines") <= amount:
            return
        await asyncio.sleep(0.05)


@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(180)
async def test_killing_those_who_watch_answers_each_deadline_once(database: str) -> None:
    rng, pool = random.Random(1), await open_pool(database)
    due = await furnish(pool, datetime.now(UTC))
    processes = [start(database), start(database)]
    try:
        async with asyncio.timeout(120):
            for left in range(JOBS - 1, 0, -JOBS // KILLS):
                await left_are(pool, left)
                place = rng.randrange(2)
                processes[place].kill()
                processes[place].wait()
                processes[place] = start(database)
            await left_are(pool, 0)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    reported: Counter[str] = Counter()
    for row in await pool.fetch("SELECT value, created_at FROM outbox"):
        fact = event_codec.decode(row["value"], fallback_id="", fallback_time=datetime.now(UTC)).fact
        assert isinstance(fact, CustomHappened)
        reported[fact.attributes["job"]] += 1
        assert row["created_at"] >= due[fact.attributes["job"]]
    runs = await pool.fetch("SELECT arguments FROM runs")
    missed = await pool.fetch("SELECT id, cardinality(missed) AS amount FROM jobs")
    await pool.close()

    once = dict.fromkeys(due, 1)
    assert reported == once
    assert Counter(row["arguments"]["deadline.job"] for row in runs) == once
    assert {row["id"]: row["amount"] for row in missed} == once
