"""Leases in a real PostgreSQL: taken, renewed, handed over, run out, judged by the database's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import asyncpg
import pytest

from streamsched.domain.errors import UnavailableError
from streamsched.membership.broker_health import BrokerHealth
from streamsched.membership.member import Member
from streamsched.membership.singleton_role import SingletonRole
from streamsched.ports.leases import LeaseHolder
from streamsched.store.server.leases import PostgresLeases
from tests.support.world import StoredWorld

pytestmark = pytest.mark.postgres

LONG, SHORT = timedelta(seconds=60), timedelta(milliseconds=150)
NAMES = [f"shard-{n:04d}" for n in range(4)]


def member(leases: PostgresLeases, name: str, ttl: timedelta = LONG) -> Member:
    return Member(leases, LeaseHolder(name, "localhost", 1), NAMES, ttl=ttl)


async def run_out(pool: asyncpg.Pool, *, worker: str) -> None:
    """As if the worker had been silent for longer than its leases last."""
    await StoredWorld(pool).expire_worker(worker)


async def test_the_first_worker_takes_everything(leases: PostgresLeases) -> None:
    step = await member(leases, "a").step()

    assert step.taken == tuple(NAMES)
    assert (step.lost, step.hand_over) == ((), ())


async def test_a_second_worker_is_handed_its_half_and_then_nothing_moves(leases: PostgresLeases) -> None:
    a, b = member(leases, "a"), member(leases, "b")
    await a.step()

    asked = await b.step()
    given = await a.step()
    for name in given.hand_over:
        await a.release(name)
    got = await b.step()

    assert asked.taken == ()
    assert asked.again_in < timedelta(seconds=1)
    assert given.hand_over == got.taken == tuple(NAMES[2:])
    for _ in range(3):
        for each in (a, b):
            step = await each.step()
            assert (step.taken, step.lost, step.hand_over) == ((), (), ())


async def test_nothing_is_handed_over_that_was_not_requested(leases: PostgresLeases) -> None:
    a = member(leases, "a")
    await a.step()
    await leases.heartbeat(LeaseHolder("b", "localhost", 2), {}, LONG)

    step = await a.step()

    assert step.hand_over == ()


async def test_the_shards_of_a_silent_worker_go_to_the_other(leases: PostgresLeases, pool: asyncpg.Pool) -> None:
    a, b = member(leases, "a"), member(leases, "b")
    await a.step()
    await run_out(pool, worker="a")

    taken = await b.step()
    back = await a.step()

    assert taken.taken == tuple(NAMES)
    assert back.lost == tuple(NAMES)
    assert a.held_names == frozenset()


async def test_a_lease_that_ran_out_and_that_was_not_taken_is_kept(leases: PostgresLeases, pool: asyncpg.Pool) -> None:
    a = member(leases, "a")
    await a.step()
    await run_out(pool, worker="a")

    step = await a.step()

    assert (step.taken, step.lost) == ((), ())
    assert a.held_names == frozenset(NAMES)


async def test_a_worker_that_comes_back_under_its_name_gets_its_shards_at_once(leases: PostgresLeases) -> None:
    a, b = member(leases, "a"), member(leases, "b")
    first = await a.step()
    await b.step()

    again = await member(leases, "a").step()

    assert first.taken == tuple(NAMES)
    assert again.taken == tuple(NAMES[:2])


async def test_a_worker_cut_off_from_the_database_keeps_what_it_holds(pool: asyncpg.Pool) -> None:
    leases = PostgresLeases(pool)
    a = member(leases, "a")
    await a.step()
    await pool.close()

    with pytest.raises(UnavailableError):
        await a.step()

    assert a.held_names == frozenset(NAMES)


class Interrupted(PostgresLeases):
    """The connection breaks whenever a member requests a handover."""

    broken = True

    async def want(self, names: Sequence[str], worker: str) -> None:
        if self.broken:
            raise UnavailableError("the connection broke")
        await super().want(names, worker)


async def test_what_is_free_is_not_taken_unheard_when_asking_for_the_rest_fails(
    leases: PostgresLeases, pool: asyncpg.Pool
) -> None:
    interrupted = Interrupted(pool)
    a, b = member(leases, "a"), member(interrupted, "b")
    await a.step()
    interrupted.broken = False
    await b.step()
    interrupted.broken = True
    await a.step()
    await a.release(NAMES[2])

    with pytest.raises(UnavailableError):
        await b.step()
    interrupted.broken = False

    assert (await b.step()).taken == (NAMES[2],)
    assert b.held_names == {NAMES[2]}


async def test_what_was_lost_is_reported_when_the_beat_that_saw_it_failed(
    leases: PostgresLeases, pool: asyncpg.Pool
) -> None:
    interrupted = Interrupted(pool)
    a, b = member(interrupted, "a"), member(leases, "b")
    await a.step()
    await run_out(pool, worker="a")
    await b.step()

    with pytest.raises(UnavailableError):
        await a.step()
    interrupted.broken = False

    assert (await a.step()).lost == tuple(NAMES)


async def test_what_a_clock_that_was_set_back_left_in_the_future_delays_no_other(
    leases: PostgresLeases, pool: asyncpg.Pool
) -> None:
    a, b = member(leases, "a"), member(leases, "b")
    await a.step()
    await pool.execute("UPDATE leases SET expires_at = expires_at + interval '1 day'")  # as if it were yesterday again
    await pool.execute("UPDATE workers SET seen_at = seen_at + interval '1 day'")

    assert (await b.step()).taken == tuple(NAMES), "they were not renewed since"


async def test_a_worker_that_lives_keeps_its_shards_when_the_clock_is_set_back(
    leases: PostgresLeases, pool: asyncpg.Pool
) -> None:
    a, b = member(leases, "a"), member(leases, "b")
    await a.step()
    await pool.execute("UPDATE leases SET expires_at = expires_at + interval '1 day'")
    await pool.execute("UPDATE workers SET seen_at = seen_at + interval '1 day'")
    await a.step()

    assert (await b.step()).taken == ()
    assert (await a.step()).lost == ()


@pytest.mark.parametrize("call", ["beat", "renew", "allow", "want", "release"])
async def test_leases_are_locked_in_the_order_of_their_names(
    leases: PostgresLeases, pool: asyncpg.Pool, call: str
) -> None:
    names = [f"shard-{n:04d}" for n in range(20)]
    claimed = await leases.claim(names, "a", LONG)
    held = {name: claimed[name] for name in reversed(names)}
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "beat": lambda: leases.heartbeat(LeaseHolder("a", "localhost", 1), held, LONG),
        "renew": lambda: leases.renew(held, "a", LONG),
        "allow": lambda: leases.allow(held, "a", 99),
        "want": lambda: leases.want(list(held), "b"),
        "release": lambda: leases.release(held, "a"),
    }
    async with pool.acquire() as other:
        async with other.transaction():
            await other.execute("SELECT FROM leases WHERE name = $1 FOR UPDATE", names[0])
            waiting = asyncio.ensure_future(calls[call]())
            async with asyncio.timeout(20):
                while not await other.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110 - it has no callback
                    await asyncio.sleep(0.01)

            free = await other.fetch("SELECT name FROM leases ORDER BY name FOR UPDATE SKIP LOCKED")

        await waiting
    assert [row["name"] for row in free] == names, "who waits for the first holds none of the others"


async def test_who_leaves_gives_everything_back_at_once(leases: PostgresLeases) -> None:
    a, b = member(leases, "a"), member(leases, "b")
    await a.step()

    await a.leave()

    assert (await b.step()).taken == tuple(NAMES)


async def test_an_epoch_is_never_used_twice(leases: PostgresLeases) -> None:
    seen = []
    for owner in "abcab":
        (epoch,) = (await leases.claim(["x"], owner, LONG)).values()
        await leases.release({"x": epoch}, owner)
        seen.append(epoch)

    assert seen == sorted(set(seen))


async def test_of_many_who_claim_together_one_wins(leases: PostgresLeases) -> None:
    wins = await asyncio.gather(*(leases.claim(["x"], owner, LONG) for owner in "abcdefgh"))

    assert sum("x" in win for win in wins) == 1


async def test_the_database_judges_expiry(leases: PostgresLeases) -> None:
    await leases.claim(["x"], "a", SHORT)
    assert await leases.claim(["x"], "b", SHORT) == {}

    async with asyncio.timeout(10):
        while not (won := await leases.claim(["x"], "b", LONG)):  # noqa: ASYNC110 - the database is asked, it has no callback
            await asyncio.sleep(0.02)

    assert won == {"x": 2}
    assert await leases.renew({"x": 1}, "a", LONG) == frozenset()


async def test_a_part_is_one_process_s_until_it_gives_it_back(leases: PostgresLeases) -> None:
    first, second = SingletonRole(leases, "relay", "a", ttl=LONG), SingletonRole(leases, "relay", "b", ttl=LONG)

    assert [await first.hold(), await second.hold(), await first.hold()] == [True, False, True]
    await first.release()
    assert [await second.hold(), await first.hold()] == [True, False]


async def test_a_renewal_whose_caller_was_cancelled_holds_nothing_after_the_release(leases: PostgresLeases) -> None:
    held = await leases.claim(["x"], "a", LONG)
    renewing = asyncio.create_task(leases.renew(held, "a", LONG))
    await asyncio.sleep(0)
    renewing.cancel()
    await leases.release(held, "a")
    await leases.renew({"y": 1}, "a", LONG)  # and what is gathered with it

    assert await leases.claim(["x"], "b", LONG) == {"x": 2}


async def test_the_work_of_a_part_stops_when_another_takes_it(leases: PostgresLeases, pool: asyncpg.Pool) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    running = asyncio.create_task(SingletonRole(leases, "relay", "a", ttl=SHORT).run(work))
    await asyncio.wait_for(began.wait(), 10)
    await pool.execute("UPDATE leases SET owner = 'b', epoch = epoch + 1, expires_at = now() + interval '1 second'")
    await asyncio.wait_for(ended.wait(), 10)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_what_the_work_of_a_part_raises_is_raised_and_the_part_is_free(leases: PostgresLeases) -> None:
    async def work() -> None:
        raise ValueError("as it may happen")

    with pytest.raises(ValueError, match="as it may"):
        await SingletonRole(leases, "relay", "a", ttl=LONG).run(work)

    assert await SingletonRole(leases, "relay", "b", ttl=LONG).hold()


async def test_a_part_is_left_to_others_while_what_it_works_with_does_not_answer(leases: PostgresLeases) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def silence() -> None:
        await asyncio.Event().wait()

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    health = BrokerHealth(silence, every=SHORT, patience=timedelta(milliseconds=500))
    running = asyncio.create_task(SingletonRole(leases, "relay", "a", ttl=SHORT, health=health).run(work))
    await asyncio.wait_for(began.wait(), 10)
    await asyncio.wait_for(ended.wait(), 10)

    assert health.is_lost
    async with asyncio.timeout(10):
        while not await SingletonRole(leases, "relay", "b", ttl=LONG).hold():  # noqa: ASYNC110 - the database has no callback
            await asyncio.sleep(0.02)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_worker_asks_for_its_share_when_it_has_beaten_in_time_for_a_while(leases: PostgresLeases) -> None:
    first, eager = member(leases, "a"), Member(leases, LeaseHolder("b", "localhost", 2), NAMES, ttl=LONG, settle=LONG)
    await first.step()
    await eager.step()

    assert (await first.step()).hand_over == ()
    assert (await eager.step()).taken == ()

    await first.leave()

    assert set((await eager.step()).taken) == set(NAMES), "what is free is taken at once"
