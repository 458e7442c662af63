"""Timers on a real PostgreSQL: never early, each tick once, any number of instances."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from streamsched.codec import signal as signal_codec
from streamsched.domain.event import Ticked
from streamsched.domain.schedule import Misfire
from streamsched.domain.signal import Occurred
from streamsched.domain.trigger import At, Cron, Every
from streamsched.ports.timers import DueTimer, Firing
from streamsched.store.bell import PostgresBell
from streamsched.store.sql import queries
from streamsched.store.timers import PostgresTimers
from streamsched.store.wakes import PostgresWakes
from streamsched.timers.loop import Timers

from . import wakeful
from .conftest import FLIGHTS, House, app, explained, schedule

WEEKLY = schedule().ref
MINUTE = timedelta(minutes=1)


@pytest.fixture
def timers(house: House) -> Timers:
    return wakeful.timers(house)


async def deploy(house: House, *schedules: object) -> None:
    async with house.relaying():
        await house.catalog.deploy(app(*schedules))  # type: ignore[arg-type]


async def ticks(house: House) -> list[datetime]:
    """The due times of the ticks in the outbox, oldest first."""
    found: list[datetime] = []
    for record in await house.outbox.pending(limit=1000):
        signal = signal_codec.decode(record.key.encode(), record.value)
        assert isinstance(signal, Occurred)
        assert isinstance(signal.event.fact, Ticked)
        assert record.key == f"schedule:{signal.event.fact.schedule}"
        assert signal.event.time == signal.event.fact.due_at
        found.append(signal.event.fact.due_at)
    return found


async def test_a_tick_is_never_early(house: House, timers: Timers) -> None:
    await deploy(house, schedule(trigger=Every(MINUTE)))
    start = house.clock.now()

    house.clock.set(start + MINUTE - timedelta(microseconds=1))
    assert await timers.run_once() == start + MINUTE
    assert await ticks(house) == []

    house.clock.set(start + MINUTE)
    assert await timers.run_once() == start + 2 * MINUTE
    assert await ticks(house) == [start + MINUTE]


async def test_a_jittered_tick_fires_later_and_says_its_own_time(house: House, timers: Timers) -> None:
    await deploy(house, schedule(trigger=Cron("0 4 * * *", jitter=timedelta(hours=1))))
    due = datetime(2026, 1, 1, 4, tzinfo=UTC)
    fires = await timers.run_once()
    assert fires is not None
    assert due < fires < due + timedelta(hours=1)

    house.clock.set(fires - timedelta(microseconds=1))
    assert await timers.run_once() == fires
    assert await ticks(house) == []

    house.clock.set(fires)
    following = await timers.run_once()
    assert await ticks(house) == [due]
    assert following is not None
    assert due + timedelta(days=1) < following < due + timedelta(days=1, hours=1)
    assert following - fires != timedelta(days=1)


async def test_a_tick_names_its_leaf_and_its_generation_and_has_one_id_for_ever(house: House, timers: Timers) -> None:
    await deploy(house, schedule(trigger=Cron("0 4 * * *") & FLIGHTS))
    due = datetime(2026, 1, 1, 4, tzinfo=UTC)
    house.clock.set(due)

    await timers.run_once()

    (record,) = await house.outbox.pending(limit=10)
    signal = signal_codec.decode(record.key.encode(), record.value)
    assert isinstance(signal, Occurred)
    assert signal.event.fact == Ticked(WEEKLY, 1, "cron:0 4 * * *@UTC", due)
    assert signal.event.id == "tick:default.flights.weekly:1:cron:0 4 * * *@UTC:2026-01-01T04:00:00+00:00"
    assert signal.event.source == "streamsched/timers"


@pytest.mark.parametrize(
    ("misfire", "fired", "skipped"), [(Misfire.ALL, 5, 0), (Misfire.ONE, 1, 4), (Misfire.SKIP, 0, 5)]
)
async def test_missed_ticks_follow_the_policy_and_history_knows_the_skipped(
    house: House, timers: Timers, misfire: Misfire, fired: int, skipped: int
) -> None:
    await deploy(house, schedule(trigger=Every(timedelta(hours=1)), misfire=misfire))
    start = house.clock.now()
    house.clock.set(start + timedelta(hours=5, minutes=30))

    next_due = await timers.run_once()

    assert next_due == start + timedelta(hours=6)
    assert len(await ticks(house)) == fired
    lines = [line for line in await house.reader.history("schedule", str(WEEKLY)) if line.action == "ticks_skipped"]
    assert [(line.detail or {}).get("skipped") for line in lines] == ([skipped] if skipped else [])


async def test_a_leaf_that_never_ticks_again_has_no_timer(house: House, timers: Timers) -> None:
    start = house.clock.now()
    await deploy(house, schedule(trigger=At(start + MINUTE)))
    house.clock.set(start + MINUTE)

    assert await timers.run_once() is None

    assert await ticks(house) == [start + MINUTE]
    assert await house.pool.fetchval("SELECT count(*) FROM timers") == 0


async def test_a_tick_and_the_next_due_time_are_one_transaction(house: House) -> None:
    await deploy(house, schedule(trigger=Every(MINUTE)))
    house.clock.advance(MINUTE)
    store = PostgresTimers(house.pool)

    def decide(timer: DueTimer) -> Firing:
        raise ValueError(timer.leaf_id)

    with pytest.raises(ValueError, match="every:60s"):
        await store.fire(now=house.clock.now(), limit=10, decide=decide)

    assert await store.next_due() == house.clock.now()
    assert await ticks(house) == []


async def test_instances_share_the_due_timers_and_fire_each_once(house: House) -> None:
    schedules = [schedule(f"s{number:02}", Every(MINUTE)) for number in range(30)]
    await deploy(house, *schedules)
    house.clock.advance(MINUTE)
    store = PostgresTimers(house.pool)
    fired: list[str] = []

    async def instance() -> None:
        while True:
            mine: list[str] = []

            def decide(timer: DueTimer, mine: list[str] = mine) -> Firing:
                mine.append(str(timer.schedule))
                return Firing((), timer.due_at + MINUTE)

            if not await store.fire(now=house.clock.now(), limit=3, decide=decide):
                return
            fired.extend(mine)

    await asyncio.gather(*(instance() for _ in range(4)))

    assert sorted(fired) == [str(each.ref) for each in schedules]


async def test_a_schedule_that_cannot_be_read_holds_up_nobody_and_keeps_its_timer(house: House, timers: Timers) -> None:
    await deploy(house, schedule("a", Every(MINUTE)), schedule("b", Every(2 * MINUTE)))
    await house.pool.execute(
        "UPDATE schedules SET definition = jsonb_set(definition, '{trigger}', '{\"type\": \"OF_TOMORROW\"}')"
        " WHERE id = 'default.flights.a'"
    )
    start = house.clock.now()
    house.clock.advance(2 * MINUTE)

    assert await timers.run_once() == start + 4 * MINUTE

    assert await ticks(house) == [start + 2 * MINUTE]
    assert await house.pool.fetchval("SELECT min(due_at) FROM timers") == start + MINUTE


async def test_a_timer_another_instance_has_is_passed_over(house: House, database: str) -> None:
    await deploy(house, schedule("a", Every(MINUTE)), schedule("b", Every(MINUTE)))
    house.clock.advance(MINUTE)
    other = await asyncpg.connect(database)
    async with other.transaction():
        await other.execute("SELECT * FROM timers WHERE schedule = 'default.flights.a' FOR UPDATE")
        store = PostgresTimers(house.pool)

        assert (
            await store.fire(
                now=house.clock.now(), limit=10, decide=lambda t: Firing((), t.due_at + MINUTE, t.due_at + MINUTE)
            )
            == 1
        )
    await other.close()


async def test_a_change_during_the_firing_waits_and_the_old_tick_is_of_the_old_generation(
    house: House, timers: Timers
) -> None:
    await deploy(house, schedule(trigger=Every(MINUTE)))
    house.clock.advance(MINUTE)
    async with house.relaying():
        changing = asyncio.create_task(house.catalog.update(schedule(trigger=Every(2 * MINUTE))))
        await timers.run_once()
        await changing
        await house.relayed()

    facts = [signal.event.fact for signal in await house.signals() if isinstance(signal, Occurred)]
    assert all(isinstance(fact, Ticked) and fact.generation == 1 for fact in facts)
    assert await house.pool.fetchval("SELECT generation FROM timers") == 2


async def test_a_timer_that_becomes_due_sooner_wakes_a_sleeping_instance(house: House, database: str) -> None:
    bell = PostgresBell(database)
    looked = Looked()
    sleeping = asyncio.create_task(
        Timers(store=looked.over(house), wakes=PostgresWakes(house.pool), bell=bell, clock=house.clock).run()
    )
    try:
        await looked.times(1)
        await deploy(house, schedule(trigger=Every(MINUTE)))
        await looked.times(2)  # long before the sweep
        house.clock.advance(MINUTE)
        await house.pool.execute("SELECT pg_notify('timers', '')")
        async with asyncio.timeout(10):
            await house.written()
    finally:
        sleeping.cancel()
        await asyncio.wait([sleeping])
        await bell.close()

    assert len(await ticks(house)) == 1


class Looked:
    """Counts how often a store was asked when the next timer is due."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = asyncio.Condition()

    def over(self, house: House) -> PostgresTimers:
        looked = self

        class Store(PostgresTimers):
            async def next_due(self) -> datetime | None:
                found = await super().next_due()
                async with looked._changed:
                    looked._count += 1
                    looked._changed.notify_all()
                return found

        return Store(house.pool)

    async def times(self, count: int) -> None:
        async with asyncio.timeout(4), self._changed:
            await self._changed.wait_for(lambda: self._count >= count)


async def test_the_claim_reads_the_due_index_and_only_what_is_due(house: House) -> None:
    await deploy(house, schedule(trigger=Every(MINUTE)))
    await house.pool.execute(
        "INSERT INTO schedules SELECT id || n, app, program, definition, 1, true, created_at, updated_at"
        " FROM schedules, generate_series(1, 5000) n"
    )
    await house.pool.execute(
        "INSERT INTO timers SELECT id, 'every:60s', 1, $1::timestamptz + random() * interval '1 day' FROM schedules"
        " ON CONFLICT DO NOTHING",
        house.clock.now() + MINUTE,
    )
    await house.pool.execute("ANALYZE timers, schedules")

    plan = await explained(house.pool, queries("timers")["claim"], house.clock.now() + 2 * MINUTE, 200, [])

    assert any(node.get("Index Name") == "timers_due" for node in plan)
    scanned = sum(node["Actual Rows"] * node["Actual Loops"] for node in plan if node.get("Relation Name") == "timers")
    assert scanned < 100, "rows read grow with the backlog"


async def test_how_long_to_sleep_is_one_step_in_the_index(house: House) -> None:
    await deploy(house, schedule(trigger=Every(MINUTE)))
    async with house.pool.acquire() as connection:
        await connection.execute("SET enable_seqscan = off")
        plan = await explained(connection, queries("timers")["next_due"], [])
        await connection.execute("RESET enable_seqscan")

    assert any(node.get("Index Name") == "timers_due" for node in plan)
