"""Backfills whose runs fail: they pause after so many in a row, and say so."""

from __future__ import annotations

import pytest

from streamsched.domain.backfills.backfill import BackfillFact, BackfillOrder, BackfillState, Only
from streamsched.domain.backfills.request import TickSpan
from streamsched.domain.jobs.run import RunState

from .conftest import World
from .test_backfills import DAILY, PREFIX, WEEK, Backfills

pytestmark = pytest.mark.postgres


@pytest.fixture
def backfills(world: World) -> Backfills:
    return Backfills(world)


async def end_next(backfills: Backfills, outcomes: str) -> BackfillState:
    """Ends one run after the other: `f` fails, `s` succeeds."""
    for outcome in outcomes:
        await backfills.step()
        (run,) = await backfills.pending()
        await backfills.end(run, RunState.FAILED if outcome == "f" else RunState.COMPLETED)
    await backfills.step()
    return (await backfills.store.get(PREFIX)).state


@pytest.mark.parametrize("order", BackfillOrder)
async def test_a_backfill_pauses_when_so_many_jobs_in_a_row_have_failed(
    world: World, backfills: Backfills, order: BackfillOrder
) -> None:
    await world.define(DAILY)
    month = TickSpan("2026-02-01", "2026-02-20")
    await backfills.start(DAILY, month, max_active=1, max_failures=3, order=order)

    assert await end_next(backfills, "ffsff") is BackfillState.RUNNING
    (held,) = await backfills.pending()
    await backfills.end(held, RunState.FAILED)
    await backfills.step()
    found = await backfills.store.get(PREFIX)
    assert found.state is BackfillState.PAUSED
    last = 6 if order is BackfillOrder.OLDEST else 15
    assert found.reason == f"3 jobs in a row failed, the last is job {last}; resume or cancel it"
    await backfills.step()
    assert await backfills.pending() == []
    history = await world.actions(PREFIX)
    assert history == ["backfill.started", "backfill.paused"]
    await backfills.change(BackfillFact.RESUMED)
    assert await end_next(backfills, "ff") is BackfillState.RUNNING
    assert await end_next(backfills, "f") is BackfillState.PAUSED


async def test_a_backfill_of_few_jobs_that_all_fail_completes_and_one_without_a_limit_goes_on(
    world: World, backfills: Backfills
) -> None:
    await world.define(DAILY)
    await backfills.start(DAILY, WEEK, max_active=1, max_failures=7)
    assert await end_next(backfills, "fffffff") is BackfillState.COMPLETED
    await backfills.start(DAILY, WEEK, "c", max_active=1, max_failures=0, only=Only.FAILED)
    for _ in range(4):
        await backfills.step()
        (run,) = await backfills.pending()
        await backfills.end(run, RunState.FAILED)
    assert (await backfills.store.get(f"{PREFIX[:-1]}c")).state is BackfillState.RUNNING
