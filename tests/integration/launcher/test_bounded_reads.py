"""What lists and answers read of jobs: never the events that a job was made of, however many."""

from __future__ import annotations

import tracemalloc
from collections.abc import Awaitable
from datetime import timedelta
from typing import TypeVar

import pytest

from .conftest import World, schedule
from .test_retention import launch, retirement

pytestmark = pytest.mark.postgres

PLAIN = schedule("plain")
#: Bytes of Python's for a row, with a margin; a job's thousand events take more than a thousand times as much.
MOST = 20_000
JOBS = 20

_T = TypeVar("_T")


async def peak(answer: Awaitable[_T]) -> tuple[_T, int]:
    """The answer, and how many bytes Python held for it at most."""
    tracemalloc.start()
    try:
        return await answer, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("archived", [False, True])
async def test_lists_and_why_not_read_no_events(world: World, archived: bool) -> None:
    await world.define(PLAIN)
    for number in range(1, JOBS + 1):
        await world.satisfy(world.ready(PLAIN, number, events=1000))
        await launch(world)
    begun = world.clock.now()
    if archived:
        world.clock.advance(timedelta(hours=2))
        await retirement(world).run_once()

    span, of_span = await peak(world.jobs.span(PLAIN.ref, since=begun, until=begun))
    newest, of_list = await peak(world.jobs.list_recent())

    assert len(span.jobs) == len(newest) == JOBS
    assert of_span < JOBS * MOST, f"{of_span} bytes"
    assert of_list < JOBS * MOST, f"{of_list} bytes"
