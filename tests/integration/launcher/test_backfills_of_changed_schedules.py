"""Backfills of schedules that are disabled, draining or deleted, and preferences in a plan."""

from __future__ import annotations

import pytest

from streamsched.domain.backfills.backfill import BackfillFact, BackfillState
from streamsched.domain.errors import ConflictError

from .conftest import World
from .test_backfills import DAILY, PREFIX, WEEK, Backfills, request

pytestmark = pytest.mark.postgres


@pytest.fixture
def backfills(world: World) -> Backfills:
    return Backfills(world)


async def test_a_schedule_that_is_disabled_or_deleted_stops_its_backfill(world: World, backfills: Backfills) -> None:
    await world.define(DAILY)
    await backfills.start(DAILY, WEEK, max_active=1)
    await world.disable()
    await backfills.step()
    found = await backfills.store.get(PREFIX)
    assert (found.state, found.reason) == (
        BackfillState.PAUSED,
        "its schedule is disabled; enable it, then resume the backfill",
    )
    with pytest.raises(ConflictError, match="is disabled"):
        await backfills.start(DAILY, WEEK, "other")
    await world.enable()
    await backfills.change(BackfillFact.RESUMED)
    await world.delete_schedule()
    await backfills.step()
    found = await backfills.store.get(PREFIX)
    assert (found.state, found.reason) == (BackfillState.CANCELLED, "its schedule was deleted")
    assert await world.stored_jobs() == []


async def test_a_draining_schedule_gets_no_more_jobs_and_its_backfill_goes_on_afterwards(
    world: World, backfills: Backfills
) -> None:
    await world.define(DAILY)
    await backfills.start(DAILY, WEEK, max_active=1)
    await backfills.step()
    await world.drain()
    [run] = await backfills.pending()
    await backfills.end(run)
    await backfills.step()
    assert [job.id for job in await world.stored_jobs()] == [f"{PREFIX}.1"]
    assert (await backfills.store.get(PREFIX)).state is BackfillState.RUNNING

    await world.enable()
    await backfills.step()
    assert await backfills.pending() == [f"{PREFIX}.2.r1"]


async def test_the_plan_has_the_preferences_of_the_namespace(world: World, backfills: Backfills) -> None:
    await world.define(DAILY)
    await world.pool.execute("""INSERT INTO preferences VALUES ('default', '{"region": "EU"}')""")
    plan = await backfills.store.plan(request(DAILY, WEEK), now=world.clock.now(), limit=1)
    assert plan.jobs[0].arguments["region"] == "EU"
