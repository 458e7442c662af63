"""Why a schedule started nothing: reported from its history, its jobs, its progress and the verdicts of events."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from streamsched.domain.constraints.constraint import Concurrency, Delay
from streamsched.launcher.whynot import WhyNot, explain_no_run
from streamsched.store.catalog.catalog_reader import CatalogReader

from .conftest import MINUTE, World, schedule

pytestmark = pytest.mark.postgres

PLAIN = schedule("plain")
STRICT = schedule("plain", constraints=(Concurrency(1),))
SLOW = schedule("plain", constraints=(Delay(60 * MINUTE),))


async def asked(world: World, *, ago: timedelta = timedelta(days=1), until: timedelta = timedelta(0)) -> WhyNot:
    end = world.clock.now() - until
    begin = end - ago
    status = await CatalogReader(world.pool).schedule(PLAIN.ref)
    return explain_no_run(status, await world.jobs.span(PLAIN.ref, since=begin, until=end), since=begin, until=end)


async def changed(world: World, action: str, reason: str, *, enabled: bool) -> None:
    detail: dict[str, Any] = {"enabled": enabled}
    await world.add_line("schedule", str(PLAIN.ref), action, world.clock.now(), reason=reason, detail=detail)


async def test_what_it_waits_for_has_not_come(world: World) -> None:
    await world.define(PLAIN)
    assert (
        await asked(world)
    ).summary == f"nothing satisfied it: no event for its trigger has arrived ({PLAIN.trigger})"

    progress = {"text": "both", "children": [{"text": "flights", "have": 3, "need": 7, "holds": False}]}
    await world.add_progress(str(PLAIN.ref), progress, world.clock.now(), sequence=1)
    assert (await asked(world)).summary == "nothing satisfied it: flights: 3 of 7"


async def test_it_did_not_exist_yet(world: World) -> None:
    await world.define(PLAIN)

    answer = await asked(world, until=MINUTE)

    assert answer.summary == "it did not exist yet: it was created at 2026-03-01 12:00:00Z"


async def test_it_was_disabled_all_the_time(world: World) -> None:
    await world.define(PLAIN)
    await changed(world, "disabled", "ann: broken input", enabled=False)
    world.clock.advance(10 * MINUTE)

    answer = await asked(world, ago=5 * MINUTE)
    assert answer.summary == "it was disabled all the time, since 2026-03-01 12:00:00Z: ann: broken input"
    assert answer.lines == ()

    await changed(world, "enabled", "", enabled=True)
    assert (await asked(world, ago=5 * MINUTE)).summary.startswith("nothing satisfied it")


async def test_it_was_satisfied_and_its_constraints_ended_it(world: World) -> None:
    await world.define(PLAIN)
    await world.satisfy(world.ready(PLAIN, 1))
    await world.launcher.run_once()
    world.clock.advance(60 * MINUTE)
    await world.define(STRICT)
    await world.satisfy(world.ready(STRICT, 2), world.ready(STRICT, 3))
    await world.launcher.run_once()

    answer = await asked(world, ago=MINUTE)

    assert answer.summary == (
        "it was satisfied 2 times and started nothing; default.app.plain.1.3 ended as ABORTED: "
        "1 of 1 runs of default.app.load are active: default.app.plain.1.1.r1"
    )
    assert [line.subject for line in answer.lines] == ["default.app.plain.1.2", "default.app.plain.1.3"]


async def test_its_job_waits(world: World) -> None:
    await world.define(SLOW)
    await world.satisfy(world.ready(SLOW, 1))
    await world.launcher.run_once()

    assert "started nothing; default.app.plain.1.1 waits: 1h after the trigger" in (await asked(world)).summary


async def test_it_did_start(world: World) -> None:
    await world.define(PLAIN)
    await world.satisfy(world.ready(PLAIN, 1))
    await world.launcher.run_once()

    assert (await asked(world)).summary == "it did start default.app.load once, the last time by default.app.plain.1.1"


async def test_what_became_of_its_events_is_reported_beside(world: World) -> None:
    await world.define(PLAIN)
    await world.pool.execute(
        "INSERT INTO verdict_totals VALUES ($1, 'late', 'drop', 4, $2)", str(PLAIN.ref), world.clock.now()
    )

    assert (await asked(world)).events == ("4 late drop, the last at 2026-03-01 12:00:00Z",)


async def test_it_was_paused_for_a_part_of_the_span(world: World) -> None:
    await world.define(PLAIN)
    world.clock.advance(MINUTE)
    await changed(world, "paused", "paused by itself, for 3 runs in a row failed", enabled=False)
    world.clock.advance(5 * MINUTE)
    await changed(world, "updated", "", enabled=False)
    world.clock.advance(5 * MINUTE)
    await changed(world, "resumed", "its pause ended", enabled=True)
    world.clock.advance(MINUTE)
    await changed(world, "disabled", "ann: broken input", enabled=False)
    world.clock.advance(MINUTE)

    answer = await asked(world, ago=8 * MINUTE)

    assert answer.summary.endswith(
        "; it was paused from 2026-03-01 12:05:00Z to 2026-03-01 12:11:00Z "
        "(paused by itself, for 3 runs in a row failed); it was disabled since 2026-03-01 12:12:00Z (ann: broken input)"
    )
    assert [line.text.partition(":")[0] for line in answer.lines] == ["updated", "resumed", "disabled"]


async def test_it_was_paused_all_the_time_though_it_was_updated_meanwhile(world: World) -> None:
    await world.define(PLAIN)
    await changed(world, "paused", "ann", enabled=False)
    await changed(world, "updated", "", enabled=False)
    world.clock.advance(10 * MINUTE)

    assert (await asked(world, ago=MINUTE)).summary == "it was paused all the time, since 2026-03-01 12:00:00Z: ann"


async def test_skipped_ticks_are_in_the_summary(world: World) -> None:
    await world.define(PLAIN)

    async def recorded(action: str, reason: str, **detail: int) -> None:
        world.clock.advance(MINUTE)
        await world.add_line("schedule", str(PLAIN.ref), action, world.clock.now(), reason=reason, detail=detail)

    assert "missed" not in (await asked(world)).summary
    await recorded("ticks_skipped", "34 missed ticks were skipped, as misfire 'all' and its catch-up say", skipped=34)
    assert (await asked(world)).summary.endswith(
        "; at 2026-03-01 12:01:00Z 34 missed ticks were skipped, as misfire 'all' and its catch-up say"
    )
    await recorded("ticks_joined", "5 missed ticks joined the job of the newest, as overlap says", joined=5)
    answer = await asked(world)

    assert answer.summary.endswith(
        "; at 2026-03-01 12:02:00Z 5 missed ticks joined the job of the newest, as overlap says, and 34 before that"
    )
    assert len(answer.lines) == 2
    world.clock.advance(MINUTE)
    assert "missed" not in (await asked(world, ago=timedelta(seconds=30))).summary
