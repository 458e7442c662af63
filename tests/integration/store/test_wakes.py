"""Wake-ups on a real PostgreSQL: from the log into the table, and at their time back into the log."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import orjson
import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.domain.effect import Wake
from streamsched.domain.event import schedule_key
from streamsched.domain.home import home
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signal import Woken
from streamsched.domain.trigger import Every
from streamsched.ports.broker import Outgoing, TopicPartition
from streamsched.ports.topics import DEAD_LETTER, WAKEUPS
from streamsched.store.bell import PostgresBell
from streamsched.store.sql import queries
from streamsched.store.timers import PostgresTimers
from streamsched.store.wakes import PostgresWakes
from streamsched.testing.clock import SettableClock
from streamsched.timers.loop import Timers

from .conftest import SHARDS, House, explained, furnished, schedule
from .wakeful import MINUTE, WEEKLY, ask, held, intake, sent, taken, timers, wake

pytestmark = pytest.mark.postgres


@pytest.fixture
def house(house_of_one_clock: House) -> House:
    return house_of_one_clock


async def test_a_wake_up_is_sent_at_its_time_never_before_and_once(house: House) -> None:
    asked = wake(house, MINUTE, "day=2026-01-01")
    await ask(house, asked)
    assert await taken(house) == 1

    house.clock.advance(MINUTE - timedelta(microseconds=1))
    assert await timers(house).run_once() == asked.at
    assert await sent(house) == []

    house.clock.set(house.clock.now() + timedelta(microseconds=1))
    assert await timers(house).run_once() is None
    assert asked.at is not None
    assert await sent(house) == [Woken(WEEKLY, 1, "day=2026-01-01", asked.at)]
    assert await held(house) == 0


async def test_of_one_accumulation_the_newest_request_stands_alone(house: House) -> None:
    later, sooner, other = wake(house, 2 * MINUTE, "a"), wake(house, MINUTE, "a"), wake(house, 3 * MINUTE, "b")
    await ask(house, wake(house, 5 * MINUTE, "a"))
    await taken(house)
    await ask(house, other, sooner, later)
    await taken(house)

    house.clock.advance(10 * MINUTE)
    await timers(house).run_once()

    assert [(woken.cell, woken.due_at) for woken in await sent(house)] == [("a", later.at), ("b", other.at)]


@pytest.mark.parametrize("together", [True, False])
async def test_a_cancelled_one_is_never_sent(house: House, together: bool) -> None:
    await ask(house, wake(house, MINUTE, "a"), wake(house, MINUTE, "b"))
    if not together:
        await taken(house)
    await ask(house, wake(house, None, "a"), wake(house, None, "never asked for"))
    await taken(house)

    house.clock.advance(MINUTE)
    await timers(house).run_once()

    assert [woken.cell for woken in await sent(house)] == ["b"]


async def test_asked_for_again_after_it_was_cancelled_it_is_sent(house: House) -> None:
    await ask(house, wake(house, MINUTE), wake(house, None), wake(house, 2 * MINUTE))
    await taken(house)

    house.clock.advance(2 * MINUTE)
    await timers(house).run_once()

    assert len(await sent(house)) == 1


async def test_a_request_that_is_repeated_word_for_word_is_sent_once(house: House) -> None:
    asked = wake(house, MINUTE)
    for _ in range(3):
        await ask(house, asked)
        await taken(house)

    house.clock.advance(MINUTE)
    await timers(house).run_once()

    assert len(await sent(house)) == 1


async def test_a_request_that_comes_when_it_is_due_is_sent_at_once(house: House) -> None:
    await ask(house, wake(house, timedelta(0)))
    await taken(house)
    await timers(house).run_once()

    assert len(await sent(house)) == 1


@pytest.mark.parametrize("cell", ["", "x" * 50_000, "nul\0and ␟ and 日", "day=2026-01-01,region=EU"])
async def test_a_cell_is_any_text(house: House, cell: str) -> None:
    await ask(house, wake(house, MINUTE, cell), wake(house, 2 * MINUTE, cell))
    await taken(house)

    house.clock.advance(2 * MINUTE)
    await timers(house).run_once()

    assert [woken.cell for woken in await sent(house)] == [cell]


async def test_what_nobody_can_read_goes_to_the_dead_letters_and_blocks_nobody(house: House) -> None:
    shard = home(schedule_key(WEEKLY), SHARDS)
    await house.broker.append([Outgoing(WAKEUPS, shard, b"x", b'{"cell": 7}'), Outgoing(WAKEUPS, shard, b"x", None)])
    await ask(house, wake(house, MINUTE))

    assert await taken(house) == 1

    reader = await house.broker.reader({TopicPartition(DEAD_LETTER, shard): 0})
    [chunk] = await reader.read(max_records=10, timeout=1)
    letters = [orjson.loads(record.value or b"") for record in chunk.records]
    assert [(each["topic"], each["offset"], each["path"]) for each in letters] == [
        (WAKEUPS, 0, "$.cell"),
        (WAKEUPS, 1, "$"),
    ]


async def test_a_deleted_schedule_wakes_nobody_not_even_by_what_was_still_on_its_way(house: House) -> None:
    await ask(house, wake(house, MINUTE, "stored"))
    await taken(house)
    await ask(house, wake(house, MINUTE, "on its way"))
    async with house.relaying():
        await house.catalog.delete(WEEKLY)

    assert await held(house) == 0
    assert await taken(house) == 0
    house.clock.advance(MINUTE)
    assert await timers(house).run_once() is None
    assert await sent(house) == []


async def test_a_schedule_nobody_knows_wakes_nobody(house: House) -> None:
    await ask(house, wake(house, MINUTE, ref=ScheduleRef("default", "flights", "stranger")))

    assert await taken(house) == 0
    assert await held(house) == 0


async def test_a_change_leaves_requests_to_the_fold_which_knows_what_it_kept(house: House) -> None:
    await ask(house, wake(house, MINUTE, generation=1))
    await taken(house)
    async with house.relaying():
        await house.catalog.update(schedule(trigger=Every(MINUTE * 60)))
        await house.catalog.disable(WEEKLY)

    house.clock.advance(MINUTE)
    await timers(house).run_once()

    assert [woken.generation for woken in await sent(house)] == [1]


@pytest.mark.parametrize("behind", [timedelta(milliseconds=3), timedelta(seconds=2), timedelta(hours=2)])
async def test_where_the_logs_clock_is_behind_the_fold_asks_again_a_few_times_and_is_never_left_waiting(
    house: House, behind: timedelta
) -> None:
    logs_clock = SettableClock(house.clock.now())
    log = House(house.pool, house.bell, await furnished(MemoryBroker(MemoryLog(logs_clock))), house.clock)
    await house.pool.execute("DELETE FROM intake_positions")
    deadline = logs_clock.now() + MINUTE
    house.clock.advance(behind)
    reading, rounds = intake(log), 0
    while logs_clock.now() < deadline:  # woken too early, the fold asks for the same again, at once
        await ask(log, Wake(WEEKLY, 1, "", deadline))
        await reading.run_once(timeout=1)
        due = await timers(log).run_once()
        if due is not None:
            logs_clock.advance(due - house.clock.now())
            house.clock.set(due)
            assert await timers(log).run_once() is None
        rounds += 1
        assert len(await sent(log)) == rounds

    assert rounds <= 15
    assert logs_clock.now() == deadline or behind > MINUTE


async def test_a_request_that_is_due_soon_wakes_a_sleeping_instance(house: House, database: str) -> None:
    bell = PostgresBell(database)
    house.clock.advance(MINUTE)
    sleeping = asyncio.create_task(
        Timers(store=PostgresTimers(house.pool), wakes=PostgresWakes(house.pool), bell=bell, clock=house.clock).run()
    )
    try:
        async with bell.listen("timers") as ring:
            await ask(house, wake(house, timedelta(0)))
            await taken(house)
            assert await ring.wait(5)
            async with asyncio.timeout(4):  # before the sweep
                await house.written()

            await ask(house, wake(house, 60 * MINUTE))
            await taken(house)
            assert not await ring.wait(0.2), "what is far away needs no bell"
    finally:
        sleeping.cancel()
        await asyncio.wait([sleeping])
        await bell.close()

    assert len(await sent(house)) == 1


async def many(house: House) -> None:
    """5,000 requests over a day, and statistics that know them."""
    await house.pool.execute(
        "INSERT INTO wakes (schedule, cell, generation, at, due_at) SELECT $1, n::text::bytea, 1, due, due"
        " FROM (SELECT n, $2::timestamptz + n * interval '17 s' AS due FROM generate_series(1, 5000) n) AS given",
        str(WEEKLY),
        house.clock.now(),
    )
    await house.pool.execute("ANALYZE wakes, schedules, intake_positions")


async def test_the_claim_reads_the_due_index_and_only_what_is_due(house: House) -> None:
    await many(house)

    plan = await explained(house.pool, queries("wakes")["claim"], house.clock.now() + MINUTE, 200)

    assert any(node.get("Index Name") == "wakes_due" for node in plan)
    read = sum(node["Actual Rows"] * node["Actual Loops"] for node in plan if node.get("Relation Name") == "wakes")
    assert read < 30, "rows read grow with what is held"


async def test_how_long_to_sleep_is_one_step_in_the_index(house: House) -> None:
    await many(house)

    plan = await explained(house.pool, queries("wakes")["next_due"])

    assert any(node.get("Index Name") == "wakes_due" for node in plan)


async def test_a_take_finds_what_it_replaces_by_the_index(house: House) -> None:
    await many(house)
    await PostgresWakes(house.pool).positions(WAKEUPS, SHARDS)
    at = house.clock.now()

    plan = await explained(
        house.pool,
        queries("wakes")["take"],
        *(WAKEUPS, [0], [0], [9]),
        *([0, 0], [str(WEEKLY)] * 2, [b"17", b"18"], [1, 1], [None, at], [None, at], at),
    )

    read = sum(node["Actual Rows"] * node["Actual Loops"] for node in plan if node.get("Relation Name") == "wakes")
    assert any(node.get("Index Name") == "wakes_of_cell" for node in plan)
    assert read < 30, "rows read grow with what is held"
