"""Lanes: of each key, or of each schedule, so many runs at a time, in the order of the satisfactions."""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import pytest

from streamsched.domain.constraints.constraint import Concurrency, ConcurrencyScope, Constraint
from streamsched.domain.constraints.plugin import PlugIn
from streamsched.domain.jobs.failure import Failure
from streamsched.domain.jobs.job import JobCommand, JobState, ReadyJob
from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.retry import Retry
from streamsched.domain.schedules.schedule import Schedule
from streamsched.launcher.why import explain_job
from streamsched.ports.runs import RunEnd
from streamsched.store.runs.run_batch import RunBatch
from streamsched.store.sql import queries

from .conftest import MINUTE, PROGRAM, World, schedule

pytestmark = pytest.mark.postgres

BY_KEY = Concurrency(1, wait=True, of=ConcurrencyScope.KEY)
BY_SCHEDULE = Concurrency(1, wait=True, of=ConcurrencyScope.SCHEDULE)
BLOCKED = "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted"
ACTIVE = "state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED')"


def serial(*constraints: Constraint, name: str = "s", **fields: Any) -> Schedule:
    return schedule(name, constraints=constraints or (BY_KEY,), overlap=Overlap.QUEUE, **fields)


def keyed(world: World, of: Schedule, keys: str, *, first: int = 1) -> list[ReadyJob]:
    """A job for each letter, satisfied one second after the other."""
    found: list[ReadyJob] = []
    for number, key in enumerate(keys, first):
        world.clock.advance(timedelta(seconds=1))
        found.append(replace(world.ready(of, number), key=key))
    return found


async def active(world: World) -> list[int]:
    """The sequences of the jobs whose runs are active."""
    jobs = {run.job for run in await world.active()}
    return [job.sequence for job in await world.stored_jobs() if job.id in jobs]


async def due(world: World) -> list[int]:
    """The sequences of the jobs that something woke."""
    return sorted(job.sequence for job in await world.waiting() if job.next_check_at == datetime.fromtimestamp(0, UTC))


async def end(world: World, number: int, state: RunState = RunState.COMPLETED, *, name: str = "s") -> None:
    """The run of a job ends."""
    run = f"default.app.{name}.1.{number}.r1"
    now = world.clock.now()
    assert await world.run_store.claim(run, runner=f"host:1:{run}", log_path="/log", now=now)
    await world.run_store.mark_started(run, runner=f"host:1:{run}", now=now)
    assert await world.run_store.finish(run, RunEnd(state, "", now, 0 if state is RunState.COMPLETED else 1))


async def rest(world: World) -> None:
    while await world.launcher.run_once():
        pass


async def test_one_run_of_each_key_at_a_time_in_order_and_other_keys_go_on(world: World) -> None:
    one = serial()
    await world.define(one)
    await world.satisfy(*keyed(world, one, "aabacb"))
    await rest(world)
    assert await active(world) == [1, 3, 5], "the first of each key"

    await end(world, 1)
    assert await due(world) == [2], "the end of a run wakes the first of its own lane alone"
    await rest(world)
    assert await active(world) == [2, 3, 5]

    await end(world, 3, RunState.FAILED)
    await end(world, 5)
    assert await due(world) == [6]
    await rest(world)
    await end(world, 2)
    await rest(world)
    assert await active(world) == [4, 6]


async def test_a_newer_satisfaction_does_not_overtake_one_that_waits(world: World) -> None:
    one = serial()
    await world.define(one)
    await world.satisfy(*keyed(world, one, "aa"))
    await rest(world)
    await end(world, 1)
    await world.check_jobs(None, "default.app.s.1.2")  # as if nothing had woken it

    await world.satisfy(*keyed(world, one, "a", first=3))
    await rest(world)

    assert await active(world) == [2], "and the newer one sees to it that it is woken"


async def test_a_schedule_is_one_lane_and_schedules_of_a_program_are_apart(world: World) -> None:
    one, other = serial(BY_SCHEDULE), serial(BY_SCHEDULE, name="t")
    await world.define(one, other)
    await world.satisfy(*keyed(world, one, "ab"), *keyed(world, other, "ab"))
    await rest(world)
    assert [job.schedule for job in await world.stored_jobs() if job.state != JobState.PENDING_CONSTRAINT] == [
        "default.app.s",
        "default.app.t",
    ]

    await end(world, 1, name="t")
    await rest(world)
    assert [job.id for job in await world.waiting()] == ["default.app.s.1.2"]


async def test_a_busy_key_takes_no_place_of_its_schedule_from_others(world: World) -> None:
    two = serial(replace(BY_KEY, limit=2), replace(BY_SCHEDULE, limit=3))
    await world.define(two)
    await world.satisfy(*keyed(world, two, "aaaabb"))
    await rest(world)
    assert await active(world) == [1, 2, 5], "two of key a, and the third place of the schedule for key b"

    for ended, then in ((1, [2, 3, 5]), (2, [3, 4, 5]), (5, [3, 4, 6]), (3, [4, 6])):
        await end(world, ended)
        await rest(world)
        assert await active(world) == then, "of both lanes the job that was satisfied first"


async def test_a_job_that_ends_or_is_held_lets_the_next_one_start(world: World) -> None:
    one = serial()
    await world.define(one)
    await world.satisfy(*keyed(world, one, "aaaa"))
    await rest(world)
    await world.jobs.command("default.app.s.1.2", JobCommand.HOLD, "ann", now=world.clock.now())
    await rest(world)
    await end(world, 1)
    await rest(world)
    assert await active(world) == [3], "the held one is passed over"

    await world.jobs.command("default.app.s.1.2", None, "ann", now=world.clock.now())
    await rest(world)
    await end(world, 3)
    await rest(world)
    assert await active(world) == [2], "released, it is first again"

    await end(world, 2)
    await world.jobs.command("default.app.s.1.4", JobCommand.CANCEL, "ann", now=world.clock.now())
    await world.satisfy(*keyed(world, one, "a", first=5))
    await rest(world)
    assert await active(world) == [5]


async def test_a_job_that_cannot_be_decided_holds_up_nobody(world: World) -> None:
    one = serial()
    await world.define(one)
    await world.satisfy(*keyed(world, one, "aaa"))
    await rest(world)
    await world.put_text("jobs", {"v": 0}, "default.app.s.1.2")

    await end(world, 1)
    await rest(world)

    assert await active(world) == [3]


async def test_a_run_that_is_repeated_keeps_its_place(world: World) -> None:
    again = serial(BY_KEY, retry=Retry(2, frozenset({Failure.ERROR}), delay=MINUTE))
    await world.define(again)
    await world.satisfy(*keyed(world, again, "aa"))
    await rest(world)

    await end(world, 1, RunState.FAILED)
    await rest(world)

    assert [run.id for run in await world.active()] == ["default.app.s.1.1.r2"]


async def test_ends_that_are_stored_together_wake_the_head_of_each_lane(world: World) -> None:
    one = serial()
    await world.define(one)
    await world.satisfy(*keyed(world, one, "abcabcabc"))
    await rest(world)
    batch, now = RunBatch(world.pool), world.clock.now()
    runs = [f"default.app.s.1.{number}.r1" for number in (1, 2)]
    await batch.claim(runs, runner="h:1:1", log_path=None, now=now)

    await batch.finish({run: RunEnd(RunState.COMPLETED, "", now, 0) for run in runs}, events={})

    assert await due(world) == [4, 5]


async def test_without_wait_a_job_ends_while_a_run_of_its_key_is_active(world: World) -> None:
    strict = serial(replace(BY_KEY, wait=False))
    await world.define(strict)
    await world.satisfy(*keyed(world, strict, "aab"))
    await rest(world)

    assert [*(await world.states()).values()] == ["PENDING_LAUNCH", "ABORTED", "PENDING_LAUNCH"]
    reason = (await world.job("default.app.s.1.2")).reason
    assert reason == "1 of 1 runs of key a of default.app.s are active: default.app.s.1.1.r1"


async def test_a_job_forced_past_its_lane_counts_in_it(world: World) -> None:
    one = serial()
    await world.define(one)
    await world.satisfy(*keyed(world, one, "aaa"))
    await rest(world)
    await world.jobs.command("default.app.s.1.2", JobCommand.FORCE, "ann", now=world.clock.now())
    await rest(world)
    await end(world, 1)
    await rest(world)
    assert await active(world) == [2]
    await end(world, 2)
    await rest(world)
    assert await active(world) == [3]


async def test_why_names_the_key_the_run_and_the_jobs_ahead(world: World) -> None:
    one = serial()
    await world.define(one)
    await world.satisfy(*keyed(world, one, "aaa"))
    await rest(world)

    answers = [await explain_job(f"default.app.s.1.{number}", jobs=world.jobs, clock=world.clock) for number in (2, 3)]

    said = "it waits: 1 of 1 runs of key a of default.app.s are active: default.app.s.1.1.r1"
    assert [each.summary for each in answers] == [said, f"{said}; 1 job is ahead of this one: default.app.s.1.2"]
    assert [clause.needs for clause in answers[0].clauses] == ["fewer than 1 active runs of its key"]
    assert [holder.run for holder in answers[0].clauses[0].holders] == ["default.app.s.1.1.r1"]
    stored = [job.reason for job in await world.waiting()]
    assert [f"it waits: {each}" for each in stored] == [each.summary for each in answers], "what decided it"


async def test_a_key_of_any_length_and_text_is_a_lane(world: World) -> None:
    one = serial()
    await world.define(one)
    keys = ["x" * 100_000, "x" * 100_000, "日 '%\\ \U0001f600", "日 '%\\ \U0001f600"]
    await world.satisfy(*(replace(world.ready(one, n), key=key) for n, key in enumerate(keys, 1)))
    await rest(world)
    assert await active(world) == [1, 3]

    await end(world, 3)
    await rest(world)
    assert await active(world) == [1, 4]


async def test_a_lost_wake_up_is_mended_and_rows_of_ended_jobs_are_forgotten(world: World) -> None:
    one = serial()
    await world.define(one)
    await world.satisfy(*keyed(world, one, "aa"))
    await rest(world)
    await end(world, 1)
    await world.check_jobs(None, "default.app.s.1.2")
    await world.pool.execute("INSERT INTO lane_waits VALUES ('gone', 'default.app.s', 'key', 'x', now(), 1)")
    world.clock.advance(10 * MINUTE)

    await world.decisions.recheck_all(before=world.clock.now())
    await rest(world)

    assert await active(world) == [2]
    assert await world.lane_waits() == []


async def test_jobs_behind_one_that_something_else_holds_wait_for_it(world: World) -> None:
    asked = serial(BY_KEY, PlugIn("quiet", "{}"))
    await world.define(asked)
    await world.satisfy(*keyed(world, asked, "aab"))

    await world.launcher.run_once()

    reasons = [job.reason for job in await world.stored_jobs()]
    assert ["ahead of this one: default.app.s.1.1" in each for each in reasons] == [False, True, False]


@pytest.mark.parametrize("seed", range(3))
async def test_any_order_of_satisfactions_ends_and_commands_does_what_a_list_for_each_lane_does(
    world: World, seed: int
) -> None:
    rng = random.Random(seed)
    limit = rng.randint(1, 2)
    of = serial(Concurrency(limit, wait=True, of=rng.choice([ConcurrencyScope.KEY, ConcurrencyScope.SCHEDULE])))
    await world.define(of)
    lanes: dict[str, list[int]] = defaultdict(list)
    runs: dict[str, list[int]] = defaultdict(list)
    number = 0
    for _ in range(25):
        keys = "".join(rng.choices("abc", k=rng.randint(0, 4)))
        await world.satisfy(*keyed(world, of, keys, first=number + 1))
        for key in keys:
            number += 1
            lanes[key if of.lanes[0].of is ConcurrencyScope.KEY else ""].append(number)
        waiting = [each for lane in lanes.values() for each in lane if each not in chain.from_iterable(runs.values())]
        if waiting and rng.random() < 0.2:
            (gone,) = rng.sample(waiting, 1)
            started = await world.stored_runs(f"default.app.s.1.{gone}")
            if not started:
                await world.jobs.command(f"default.app.s.1.{gone}", JobCommand.CANCEL, "ann", now=world.clock.now())
                for lane in lanes.values():
                    if gone in lane:
                        lane.remove(gone)
        await rest(world)
        for key, lane in lanes.items():
            runs[key] = lane[:limit]
        assert await active(world) == sorted(chain.from_iterable(runs.values()))
        for key in [key for key, some in runs.items() if some and rng.random() < 0.5]:
            ended = rng.choice(runs[key])
            await end(world, ended, rng.choice([RunState.COMPLETED, RunState.FAILED]))
            lanes[key].remove(ended)
            runs[key].remove(ended)


#: 100,000 jobs of 1,000 keys wait, and a run of each key is active; both in one program, of which nothing else waits.
MANY = f"""
INSERT INTO jobs (id, schedule, generation, sequence, program, state, satisfied_at, created_at, ready, waiting,
    checked_at, spared_at, ended_at)
SELECT format('default.app.s.1.%s', n), 'default.app.s', 1, n, '{PROGRAM}',
    CASE WHEN n <= 1000 THEN 'LAUNCHED' ELSE 'PENDING_CONSTRAINT' END, now() - interval '1 day' + n * interval '1 ms',
    now(), jsonb_build_object('key', format('k%s', n % 1000)), '[]', now(), now(), CASE WHEN n <= 1000 THEN now() END
FROM generate_series(1, 101000) n;
INSERT INTO runs (id, job, attempt, program, executable, arguments, state, created_at, runner, heartbeat_at)
SELECT id || '.r1', id, 1, program, '{{}}', '{{}}', 'RUNNING', now(), 'h:1:1', now() FROM jobs WHERE sequence <= 1000;
INSERT INTO lane_waits SELECT id, schedule, 'key', md5(ready ->> 'key'), satisfied_at, sequence FROM jobs
    WHERE state = 'PENDING_CONSTRAINT';
ANALYZE;
"""
COLUMNS = "ARRAY['default.app.s'], ARRAY['key'], ARRAY[md5('k7')], ARRAY[2::bigint]"
HOT = [
    ("limits/lanes", "first", COLUMNS),
    ("limits/lanes", "wake", COLUMNS),
    ("limits/lanes", "wake_after", "ARRAY['default.app.s.1.7.r1']"),
    ("limits/lanes", "leave", "ARRAY['default.app.s.1.1007']"),
    ("runs/ending", "wake", f"ARRAY['{PROGRAM}']"),
    ("jobs/decisions", "due_of_programs", f"ARRAY['{PROGRAM}'], now(), 128"),
    ("jobs/decisions", "due", "now(), 10"),
]


async def test_an_end_among_100_000_waiters_of_1_000_keys_reads_its_own_lane(world: World) -> None:
    await world.pool.execute(MANY, timeout=120)
    seen: dict[str, float] = {}
    async with world.pool.acquire() as connection:
        for file, name, arguments in HOT:
            prepared = f"{file.replace('/', '_')}_{name}"
            await connection.execute(f"PREPARE {prepared} AS {queries(file)[name]}")
            rolled_back = connection.transaction()
            await rolled_back.start()
            try:
                answer = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE {prepared}({arguments})")
                plan = json.loads(answer) if isinstance(answer, str) else answer
                seen[f"{file}.{name}"] = rows_read(plan[0]["Plan"])
            finally:
                await rolled_back.rollback()

    assert {name: rows for name, rows in seen.items() if rows > 20} == {}

    await end_one(world, "default.app.s.1.7.r1")
    assert await due(world) == [1007]


async def end_one(world: World, run: str) -> None:
    """The run of a runner ends as runners end it."""
    assert await world.run_store.finish(run, RunEnd(RunState.COMPLETED, "", world.clock.now(), 0))


def rows_read(plan: dict[str, Any]) -> float:
    """The rows that its nodes read of tables and indexes, with those they threw away."""
    own = (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    read = own if "Scan" in plan["Node Type"] and ("Relation Name" in plan or "Index Name" in plan) else 0
    return read + sum(rows_read(child) for child in plan.get("Plans", ()))


async def test_what_is_decided_while_its_schedule_is_resumed_waits_behind_what_the_pause_held(world: World) -> None:
    """The launcher has found the newest job due, and waits for the change that ends the pause and wakes the others."""
    await world.define(serial(BY_SCHEDULE))
    await world.pool.execute("UPDATE schedules SET enabled = false, kept_in = generation, kept_from = generation")
    await world.satisfy(*keyed(world, serial(), "aa"))
    await rest(world)
    await world.satisfy(*keyed(world, serial(), "a", first=3))
    async with world.pool.acquire() as changing:
        async with changing.transaction():
            await changing.execute("UPDATE schedules SET enabled = true")
            await changing.execute("UPDATE jobs SET next_check_at = timestamptz 'epoch' WHERE sequence < 3")
            deciding = asyncio.create_task(world.launcher.run_once())
            while not await changing.fetchval(BLOCKED):  # noqa: ASYNC110 - another session is at it
                await asyncio.sleep(0.01)
        await deciding
    await rest(world)
    assert await active(world) == [1]
