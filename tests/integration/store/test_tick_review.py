"""Stored ticks are reviewed: after a clock that was wrong, after a change of zones, and by one who can read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from streamsched.domain.schedules.schedule import Misfire
from streamsched.domain.time.zone import tzdata_version
from streamsched.domain.triggers.trigger import Cron, Every, SinceLastRun
from streamsched.store.events.timers import PostgresTimers
from streamsched.timers import tick_review
from streamsched.timers.tick_review import TickReview

from . import wakeful
from .conftest import CatalogProcess, schedule
from .test_timers import deploy, ticks

pytestmark = pytest.mark.postgres

YEAR = timedelta(days=365)
SECONDS_10 = timedelta(seconds=10)


async def due(scheduler: CatalogProcess) -> dict[str, datetime]:
    rows = await scheduler.pool.fetch("SELECT schedule, due_at FROM timers")
    return {row["schedule"].rpartition(".")[2]: row["due_at"] for row in rows}


async def moved_lines(scheduler: CatalogProcess) -> list[str]:
    rows = await scheduler.pool.fetch("SELECT reason FROM decisions WHERE action = 'tick_moved' ORDER BY subject")
    return [row["reason"] for row in rows]


@pytest.fixture
def reviewing(scheduler: CatalogProcess) -> TickReview:
    return TickReview(PostgresTimers(scheduler.pool), scheduler.clock, batch=2)


async def test_a_year_of_silence_ends_with_the_review(scheduler: CatalogProcess, reviewing: TickReview) -> None:
    """What a clock a year ahead left behind before clocks were judged."""
    await deploy(
        scheduler,
        schedule("ten", trigger=Every(SECONDS_10)),
        schedule("minute", trigger=Cron("* * * * *")),
        schedule("rest", trigger=SinceLastRun(SECONDS_10)),
        schedule("spaced", trigger=Every(SECONDS_10), misfire=Misfire.ALL),
        schedule("yearly", trigger=Cron("0 0 1 1 *")),
    )
    now, before = scheduler.clock.now(), await due(scheduler)
    await scheduler.pool.execute("UPDATE timers SET due_at = due_at + $1 WHERE schedule NOT LIKE '%yearly'", YEAR)
    await scheduler.pool.execute("UPDATE timers SET tick_at = $1 WHERE schedule LIKE '%spaced'", now)

    assert await reviewing.run_once() == 4

    after = await due(scheduler)
    assert after == {**before, "rest": now + SECONDS_10, "spaced": now}
    reasons = await moved_lines(scheduler)
    assert len(reasons) == 4
    assert all("further ahead than the schedule can want" in each for each in reasons)
    scheduler.clock.advance(SECONDS_10)
    await wakeful.timers(scheduler).run_once()
    assert now + SECONDS_10 in await ticks(scheduler)


async def test_other_rules_of_zones_move_the_ticks(
    scheduler: CatalogProcess, reviewing: TickReview, monkeypatch: pytest.MonkeyPatch
) -> None:
    await deploy(scheduler, schedule("early", trigger=Cron("0 4 * * *", "Europe/Berlin")))
    assert await reviewing.run_once() == 0
    stored = await scheduler.pool.fetchval("SELECT due_at FROM timers")
    await scheduler.pool.execute("UPDATE timers SET due_at = due_at + interval '1 hour'")  # by other rules
    assert await reviewing.run_once() == 0, "nothing has changed that it knows of"

    monkeypatch.setattr(tick_review, "tzdata_version", lambda: "2099z")
    assert await reviewing.run_once() == 1

    assert await scheduler.pool.fetchval("SELECT due_at FROM timers") == stored
    assert (await moved_lines(scheduler))[0].endswith("zones have other rules")
    assert await scheduler.pool.fetchval("SELECT tzdata FROM ticks_reviewed") == "2099z"


async def test_a_judgement_about_the_clock_and_an_hour_are_reasons(scheduler: CatalogProcess) -> None:
    judgement = 0
    reviewing = TickReview(PostgresTimers(scheduler.pool), scheduler.clock, judgement=lambda: judgement)
    await deploy(scheduler, schedule("ten", trigger=Every(SECONDS_10)))
    await reviewing.run_once()

    async def silenced() -> int:
        await scheduler.pool.execute("UPDATE timers SET due_at = $1", datetime(2099, 1, 1, tzinfo=UTC))
        return await reviewing.run_once()

    assert await silenced() == 0
    judgement = 3
    assert await silenced() == 1
    assert await silenced() == 0
    scheduler.clock.advance(timedelta(hours=1))
    assert await silenced() == 1
    assert tuple(await scheduler.pool.fetchrow("SELECT tzdata, judgement FROM ticks_reviewed")) == (tzdata_version(), 3)


async def test_a_timer_that_cannot_be_read_leaves_the_others_reviewed(
    scheduler: CatalogProcess, reviewing: TickReview
) -> None:
    names = ["a", "b", "c", "d", "e"]
    await deploy(scheduler, *(schedule(name, trigger=Every(SECONDS_10)) for name in names))
    await scheduler.pool.execute("UPDATE timers SET due_at = due_at + interval '1 year'")
    broken = "UPDATE schedules SET definition = jsonb_set(definition, '{trigger,type}', '\"NEW\"') WHERE id LIKE '%.b'"
    await scheduler.pool.execute(broken)

    assert await reviewing.run_once() == 4
