"""Workers of two releases share shards: no worker is given what it cannot read (ADR 5)."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest

from streamsched.codec.records import formats
from streamsched.domain.errors import ConfigurationError
from streamsched.membership.member import Member
from streamsched.ports.leases import LeaseHolder
from streamsched.store.server.leases import PostgresLeases
from tests.support.world import StoredWorld

pytestmark = pytest.mark.postgres

LONG = timedelta(seconds=60)
NAMES = [f"shard-{n:04d}" for n in range(4)]
OLD, NEW = formats.NEWEST, formats.NEWEST + 1


def member(leases: PostgresLeases, name: str, reads: int) -> Member:
    return Member(leases, LeaseHolder(name, "localhost", 1, reads), NAMES, ttl=LONG)


async def shared(*members: Member) -> None:
    """Beats until each has its share."""
    for _ in range(3):
        for each in members:
            for name in (await each.step()).hand_over:
                await each.release(name)


async def test_a_new_release_writes_as_the_old_one_while_one_of_it_is_alive(leases: PostgresLeases) -> None:
    old, new = member(leases, "old", OLD), member(leases, "new", NEW)
    await shared(old, new)

    assert (len(old.held_names), len(new.held_names)) == (2, 2)
    assert (await new.step()).format == OLD

    await old.leave()
    await shared(new)

    assert len(new.held_names) == 4
    assert (await new.step()).format == NEW


async def test_an_old_release_that_comes_too_late_is_given_nothing(leases: PostgresLeases) -> None:
    new, old = member(leases, "new", NEW), member(leases, "old", OLD)
    await shared(new)
    await shared(new, old)

    assert (len(new.held_names), len(old.held_names)) == (4, 0)
    assert (await new.step()).format == NEW

    await new.leave()
    await shared(old)

    assert old.held_names == frozenset()  # they stand still, rather than be read by who cannot
    assert await leases.claim(NAMES, "old", LONG, reads=OLD) == {}
    assert len(await leases.claim(NAMES, "new", LONG, reads=NEW)) == 4


async def test_a_worker_that_lost_its_lease_cannot_allow_anything(leases: PostgresLeases) -> None:
    held = await leases.claim(NAMES[:1], "a", LONG)
    await leases.release(held, "a")
    await leases.claim(NAMES[:1], "b", LONG)

    assert await leases.allow(held, "a", NEW) == frozenset()
    assert len(await leases.claim(NAMES[:1], "b", LONG, reads=OLD)) == 1


async def test_of_two_old_ones_whose_shards_a_new_one_took_nothing_is_lost_on_the_way_back(
    leases: PostgresLeases, pool: asyncpg.Pool
) -> None:
    old, new = member(leases, "old", OLD), member(leases, "new", NEW)
    await shared(old, new)
    await StoredWorld(pool).expire_worker("new")

    await shared(old)

    assert len(old.held_names) == 4


def test_releases_too_far_apart_say_so() -> None:
    assert formats.format_for(NEW) == OLD
    with pytest.raises(ConfigurationError, match="upgrade through the releases between them"):
        formats.format_for(min(formats.WRITTEN) - 1)
