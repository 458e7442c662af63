"""Leases while the clock that judges them has jumped: none ends by it, and all go on by a clock that is steady."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from streamsched.ports.leases import LeaseHolder
from streamsched.store.runs.launchers import LauncherLeases
from streamsched.store.server.leases import PostgresLeases
from tests.support.world import StoredWorld
from tests.support.wrong_clock import WrongClock

pytestmark = pytest.mark.postgres

YEAR, TTL = timedelta(days=365), timedelta(seconds=30)
#: What a process expects the clock to say: it is right; a year ahead, and steady there; it has just jumped.
RIGHT, AHEAD, UNKNOWN = timedelta(0), YEAR, None


def expecting(off: timedelta | None) -> Any:
    return lambda: None if off is None else datetime.now(UTC) + off


@pytest.mark.parametrize("jump", [YEAR, -YEAR, timedelta(seconds=40)])
@pytest.mark.parametrize("expected", [RIGHT, UNKNOWN])
async def test_a_jump_gives_no_lease_and_no_member_away(
    wrong_clock: WrongClock, pool: asyncpg.Pool, jump: timedelta, expected: timedelta | None
) -> None:
    leases = PostgresLeases(pool, theirs=expecting(expected))
    await leases.heartbeat(LeaseHolder("a", "h", 1), {}, TTL)
    assert await leases.claim(["shard-0000"], "a", TTL) == {"shard-0000": 1}
    await wrong_clock.set(jump)

    assert await leases.claim(["shard-0000"], "b", TTL) == {}
    assert await leases.claim(["shard-0001"], "b", TTL) == {"shard-0001": 1}, "what no process ever had is free"
    assert await leases.claim(["shard-0000"], "a", TTL) == {"shard-0000": 2}, "the owner comes back"
    await leases.heartbeat(LeaseHolder("b", "h", 2), {}, TTL)
    assert await StoredWorld(pool).size("workers") == 2


async def test_leases_end_by_a_wrong_clock_that_is_steady(wrong_clock: WrongClock, pool: asyncpg.Pool) -> None:
    """Else the shards of a worker that died meanwhile would wait for a person."""
    await wrong_clock.set(YEAR)
    leases = PostgresLeases(pool, theirs=expecting(AHEAD))
    await leases.claim(["shard-0000"], "a", timedelta(milliseconds=1))

    assert await leases.claim(["shard-0000"], "b", TTL) == {"shard-0000": 2}


async def test_a_jump_takes_no_run_from_a_launcher(wrong_clock: WrongClock, pool: asyncpg.Pool) -> None:
    judging = LauncherLeases(pool, theirs=expecting(RIGHT))
    await judging.renew("me", TTL)
    await judging.renew("other", TTL)
    await pool.execute("UPDATE launchers SET since = pg_catalog.now() - interval '1 hour'")
    await wrong_clock.set(YEAR)
    await pool.execute("UPDATE launchers SET expires_at = expires_at + interval '1 year' WHERE runner = 'me'")

    assert await judging.list_expired("me", TTL) == []
    assert await LauncherLeases(pool, theirs=expecting(UNKNOWN)).list_expired("me", TTL) == []
    assert await judging.recover("other", TTL, gone=True, attempts=1, now=datetime.now(UTC)) is None
    assert await LauncherLeases(pool, theirs=expecting(AHEAD)).list_expired("me", TTL) == ["other"]
