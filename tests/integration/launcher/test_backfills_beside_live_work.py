"""Live work goes before backfills, and its overlap policies do not see them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from streamsched.domain.constraints.constraint import Concurrency, ConcurrencyScope
from streamsched.domain.constraints.group import Group
from streamsched.domain.constraints.pool import Pool
from streamsched.domain.schedules.overlap import Overlap

from .conftest import World, sharing
from .test_backfills import DAILY, PREFIX, WEEK, Backfills

pytestmark = pytest.mark.postgres


@pytest.fixture
def backfills(world: World) -> Backfills:
    return Backfills(world)


@pytest.mark.parametrize(
    "constraint",
    [
        Concurrency(1, wait=True),
        Concurrency(1, wait=True, of=ConcurrencyScope.SCHEDULE),
        Group("g", 1),
        Pool("p", 1, 5),
    ],
    ids=str,
)
async def test_live_work_goes_first_however_late_it_comes(world: World, backfills: Backfills, constraint: Any) -> None:
    owner = replace(DAILY, constraints=(constraint,))
    await world.define(owner)
    await backfills.start(owner, WEEK, max_active=3)
    await backfills.step()
    (first,) = await backfills.pending()
    assert first == f"{PREFIX}.1.r1"
    for sequence in (1, 2):
        world.clock.advance(timedelta(hours=1))
        await world.satisfy(world.ready(owner, sequence))
        await backfills.step()

    order = [first]
    for _ in range(4):
        await backfills.end(order[-1])
        await world.decisions.recheck_all(before=world.clock.now())
        await backfills.step()
        order += await backfills.pending()

    live = ["default.app.daily.1.1.r1", "default.app.daily.1.2.r1"]
    assert order == [first, *live, f"{PREFIX}.2.r1", f"{PREFIX}.3.r1"]


async def test_live_work_of_another_schedule_of_the_pool_goes_first_though_its_priority_is_lower(
    world: World, backfills: Backfills
) -> None:
    high = replace(DAILY, constraints=(Pool("p", 1, 1000),))
    low = sharing("low", Pool("p", 1, -1000))
    await world.define(high, low)
    await backfills.start(high, WEEK, max_active=3)
    await backfills.step()
    await world.satisfy(world.ready(low, 1))
    await backfills.step()
    await backfills.end(f"{PREFIX}.1.r1")
    await backfills.step()

    assert await backfills.pending() == ["default.app.low.1.1.r1"]


async def test_a_live_job_ends_no_run_of_a_backfill(world: World, backfills: Backfills) -> None:
    owner = replace(DAILY, overlap=Overlap.KILL_RUNNING)
    await world.define(owner)
    await backfills.start(owner, WEEK, max_active=2)
    await backfills.step()
    await world.satisfy(world.ready(owner, 1))
    await backfills.step()

    states = await world.states()
    assert states["daily.1.1"] == "PENDING_LAUNCH"
    assert {states[name] for name in states if name.startswith("daily.backfill-")} == {"PENDING_LAUNCH"}
    stops = [run.id for run in await world.stored_runs() if run.stop_requested]
    assert not any(".backfill-" in run for run in stops)
