"""PostgreSQL's clock, on machines whose own is wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from streamsched.store.server.clock import PostgresClock
from streamsched.testing.clock import SettableClock

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize("off", [timedelta(0), timedelta(hours=3), timedelta(days=-2)])
async def test_a_wrong_clock_is_corrected_and_is_never_ahead(pool: asyncpg.Pool, off: timedelta) -> None:
    own = SettableClock(datetime.now(UTC) + off)
    clock = PostgresClock(pool, own)
    begun = await pool.fetchval("SELECT clock_timestamp()")

    await clock.compare()

    assert begun <= clock.now() <= await pool.fetchval("SELECT clock_timestamp()")


async def test_between_two_looks_time_goes_on_as_the_machine_says(pool: asyncpg.Pool) -> None:
    own = SettableClock()
    clock = PostgresClock(pool, own)
    await clock.compare()
    before = clock.now()

    own.advance(timedelta(seconds=2))

    assert clock.now() == before + timedelta(seconds=2)


async def test_a_clock_that_is_put_forward_is_found_out_at_the_next_look(pool: asyncpg.Pool) -> None:
    own = SettableClock()
    clock = PostgresClock(pool, own)
    await clock.compare()
    own.advance(timedelta(days=1))

    await clock.compare()

    assert clock.now() <= await pool.fetchval("SELECT clock_timestamp()")
