"""Runs claimed and ended in sets leave exactly what runs claimed and ended one by one leave."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from streamsched.domain.constraints.constraint import Concurrency
from streamsched.domain.constraints.group import Group
from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.retry import Retry
from streamsched.launcher.start import start
from streamsched.ports.runs import RunEnd, StopRequest
from streamsched.store.runs.run_batch import RunBatch

from .conftest import MINUTE, PROGRAM, World, schedule

pytestmark = pytest.mark.postgres

MANY = schedule(
    "many", constraints=(Group("w", 9), Concurrency(6, wait=True)), overlap=Overlap.QUEUE, retry=Retry(2, delay=MINUTE)
)


async def ready(world: World) -> list[str]:
    """Six PENDING runs of jobs, one by hand, and two jobs that wait for them; what befalls some of them."""
    await world.clear()
    world.__init__(world.dsn, world.pool, world.broker)  # type: ignore[misc]
    await world.define(MANY)
    await world.satisfy(*(world.ready(MANY, n) for n in range(1, 8)))
    await world.launcher.run_once()
    by_hand = await start(world.runs, world.clock, PROGRAM, {}, token="x")
    runs = [f"default.app.many.1.{n}.r1" for n in range(1, 7)]
    await world.request_stop(runs[5])
    return [*runs, by_hand]


def ends(world: World, runs: list[str]) -> dict[str, RunEnd]:
    now = world.clock.now()
    kinds = [
        RunEnd(RunState.COMPLETED, "", now, 0),
        RunEnd(RunState.FAILED, "exit code 1", now, 1),
        RunEnd(RunState.KILLED, "told", now, -15),
        RunEnd(RunState.COMPLETED, "", now, None),
    ]
    return {run: kinds[place % len(kinds)] for place, run in enumerate(runs)}


async def test_a_set_leaves_what_one_by_one_leaves(world: World) -> None:
    left: list[Any] = []
    for together in (False, True):
        runs = await ready(world)
        now = world.clock.now()
        if together:
            batch = RunBatch(world.pool)
            claimed = await batch.claim(runs, runner="h:1:1", log_path="/log", now=now)
            assert {each.run for each in claimed} == {*runs[:5], runs[6]}
            for each in claimed:
                assert each.program.ref == PROGRAM
                assert (each.ready is None) == (each.job is None) == (each.schedule is None)
            ended = await batch.finish(ends(world, runs), events={})
            assert set(ended) == {*runs[:5], runs[6]}
            assert list(await batch.finish(ends(world, runs), events={})) == []
        else:
            for run in runs:
                await world.run_store.claim(run, runner="h:1:1", log_path="/log", now=now)
            for run, ending in ends(world, runs).items():
                await world.run_store.finish(run, ending)
        left.append(await world.everything())

    assert left[0] == left[1]


async def test_each_run_is_claimed_and_ended_by_one_of_many(world: World) -> None:
    runs = await ready(world)
    batches = [RunBatch(world.pool) for _ in range(4)]
    now = world.clock.now()
    claims = await asyncio.gather(
        *(batch.claim(runs, runner=f"h:{pid}:1", log_path="", now=now) for pid, batch in enumerate(batches, 1))
    )
    assert sorted(each.run for claim in claims for each in claim) == sorted([*runs[:5], runs[6]])

    ended = await asyncio.gather(*(batch.finish(ends(world, runs), events={}) for batch in batches))
    assert sorted(run for some in ended for run in some) == sorted([*runs[:5], runs[6]])


async def test_a_stopped_run_ends_and_wakes_like_any_other(world: World) -> None:
    runs = await ready(world)
    batch = RunBatch(world.pool)
    now = world.clock.now()
    await batch.claim(runs[:1], runner="h:1:1", log_path="", now=now)
    await world.runs.stop(runs[0], StopRequest("ann"), now=now)
    await batch.finish({runs[0]: RunEnd(RunState.KILLED, "ann", now, -15)}, events={})
    await world.runs.stop(runs[6], StopRequest("ann"), now=now)
    await world.launcher.run_once()

    assert (await world.jobs.get("default.app.many.1.7")).state == "PENDING_LAUNCH"
