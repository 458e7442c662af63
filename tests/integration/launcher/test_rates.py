"""Rates: so many runs of a program in any stretch of time, and the exact time of the next."""

from __future__ import annotations

import pytest

from streamsched.domain.constraint import Rate
from streamsched.domain.overlap import Overlap
from streamsched.launcher.start import start
from streamsched.launcher.why import why

from .conftest import MINUTE, PROGRAM, World, schedule

pytestmark = pytest.mark.postgres

TWO = schedule("two", constraints=(Rate(2, 10 * MINUTE),), overlap=Overlap.QUEUE)


async def test_a_burst_is_let_through_as_the_window_slides_and_runs_by_hand_count(world: World) -> None:
    await world.define(TWO)
    await start(world.runs, world.clock, PROGRAM, {}, token="x")
    world.clock.advance(4 * MINUTE)
    begun = world.clock.now()
    await world.satisfy(*(world.ready(TWO, n) for n in (1, 2, 3)))
    await world.launcher.run_once()
    assert list((await world.states()).values()) == ["PENDING_LAUNCH", "PENDING_CONSTRAINT", "PENDING_CONSTRAINT"]

    answer = await why("default.app.two.1.2", jobs=world.jobs, clock=world.clock)
    assert answer.earliest == begun + 6 * MINUTE == await world.decisions.next_due()
    assert answer.summary == (
        f"it waits: 2 of 2 runs of {PROGRAM} were made in the last 10m, there is room at 2026-03-01 12:10:00Z"
    )

    world.clock.set(answer.earliest)
    await world.launcher.run_once()
    assert list((await world.states()).values()) == ["PENDING_LAUNCH", "PENDING_LAUNCH", "PENDING_CONSTRAINT"]
    assert await world.decisions.next_due() == begun + 10 * MINUTE


async def test_a_job_that_does_not_wait_for_room_ends_with_the_reason(world: World) -> None:
    strict = schedule("strict", constraints=(Rate(1, MINUTE, wait=False),), overlap=Overlap.QUEUE)
    await world.define(strict)
    await world.satisfy(world.ready(strict, 1), world.ready(strict, 2))
    await world.launcher.run_once()

    assert await world.states() == {"strict.1.1": "PENDING_LAUNCH", "strict.1.2": "ABORTED"}
