"""Two who watch over deadlines, killed again and again: each deadline is answered once, none early."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from streamsched.codec import event as event_codec
from streamsched.codec.schedules import deadline as codec
from streamsched.domain.events.event import CustomHappened
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.deadline import Deadline, DeadlineKind, OnMiss
from streamsched.domain.schedules.schedule import BashJob, Program
from streamsched.store.connections import open_pool
from tests.faults.load.stored import store_app, until
from tests.faults.processes.command import environ, module
from tests.faults.processes.placed import PlacedProcesses

PLACES = ("one", "two")
PROGRAMS = ("load", "rescue")
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
    await store_app(pool, now, [Program(ProgramRef("default", "app", each), BashJob("true")) for each in PROGRAMS])
    await pool.execute(FURNISH, now, JOBS)
    promised = Deadline(DeadlineKind.START, timedelta(minutes=1), then=OnMiss.START, program="rescue")
    due = {f"default.app.s.1.{n}": now + timedelta(seconds=1 + 4 * n / JOBS) for n in range(1, JOBS + 1)}
    await pool.executemany(
        "INSERT INTO deadlines VALUES ($1, '', 0, $2, $3)",
        [(job, at, codec.to_json(promised)) for job, at in due.items()],
    )
    return due


@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(180)
async def test_killing_those_who_watch_answers_each_deadline_once(database: str, tmp_path: Path) -> None:
    rng, pool = random.Random(1), await open_pool(database)
    due = await furnish(pool, datetime.now(UTC))
    with PlacedProcesses(tmp_path, environ()) as processes:
        for place in PLACES:
            processes.start(place, module("tests.faults.processes.deadlines_process", database))
        for left in (*range(JOBS - 1, 0, -JOBS // KILLS), 0):
            await until(pool, "SELECT count(*) <= $1 FROM deadlines", left, within_s=120)
            if left:
                processes.replace(PLACES[rng.randrange(2)])
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
