"""Wake-ups on a real PostgreSQL: from the log into the table, and at their time back into the log."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.domain.events.event import schedule_key
from streamsched.domain.fold.effect import Wake
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Woken
from streamsched.domain.triggers.trigger import Every
from streamsched.log.topics import DEAD_LETTER, WAKEUPS
from streamsched.ports.broker import Outgoing, TopicPartition
from streamsched.store.events.timers import PostgresTimers
from streamsched.store.events.wakes import PostgresWakes
from streamsched.store.server.notifier import PostgresNotifier
from streamsched.store.sql import queries
from streamsched.testing.clock import SettableClock
from streamsched.timers.timers import Timers

from .conftest import SHARDS, CatalogProcess, explained, furnished, schedule
from .wakeful import MINUTE, WEEKLY, ask, held, intake, sent, taken, timers, wake

pytestmark = pytest.mark.postgres


@pytest.fixture
def scheduler(scheduler_on_one_clock: CatalogProcess) -> CatalogProcess:
    return scheduler_on_one_clock


async def test_a_wake_up_is_sent_at_its_time_never_before_and_once(scheduler: CatalogProcess) -> None:
    asked = wake(scheduler, MINUTE, "day=2026-01-01")
    await ask(scheduler, asked)
    assert await taken(scheduler) == 1

    scheduler.clock.advance(MINUTE - timedelta(microseconds=1))
    assert await timers(scheduler).run_once() == asked.at
    assert await sent(scheduler) == []

    scheduler.clock.set(scheduler.clock.now() + timedelta(microseconds=1))
    assert await timers(scheduler).run_once() is None
    assert asked.at is not None
    assert await sent(scheduler) == [Woken(WEEKLY, 1, "day=2026-01-01", asked.at)]
    assert await held(scheduler) == 0


async def test_of_one_accumulation_the_newest_request_stands_alone(scheduler: CatalogProcess) -> None:
    later, sooner, other = (
        wake(scheduler, 2 * MINUTE, "a"),
        wake(scheduler, MINUTE, "a"),
        wake(scheduler, 3 * MINUTE, "b"),
    )
    await ask(scheduler, wake(scheduler, 5 * MINUTE, "a"))
    await taken(scheduler)
    await ask(scheduler, other, sooner, later)
    await taken(scheduler)

    scheduler.clock.advance(10 * MINUTE)
    await timers(scheduler).run_once()

    assert [(woken.cell, woken.due_at) for woken in await sent(scheduler)] == [("a", later.at), ("b", other.at)]


async def test_a_row_that_cannot_be_read_is_put_off_and_others_are_sent(scheduler: CatalogProcess) -> None:
    await ask(scheduler, wake(scheduler, MINUTE, "a"), wake(scheduler, MINUTE, "b"))
    await taken(scheduler)
    await scheduler.pool.execute("UPDATE wakes SET cell = '\\xff00fe' WHERE cell = 'a'")

    scheduler.clock.advance(MINUTE)
    await timers(scheduler).run_once()

    assert [woken.cell for woken in await sent(scheduler)] == ["b"]
    assert await held(scheduler) == 1
    assert await scheduler.pool.fetchval("SELECT due_at FROM wakes") == scheduler.clock.now() + timedelta(hours=1)


@pytest.mark.parametrize("together", [True, False])
async def test_a_cancelled_one_is_never_sent(scheduler: CatalogProcess, together: bool) -> None:
    await ask(scheduler, wake(scheduler, MINUTE, "a"), wake(scheduler, MINUTE, "b"))
    if not together:
        await taken(scheduler)
    await ask(scheduler, wake(scheduler, None, "a"), wake(scheduler, None, "never asked for"))
    await taken(scheduler)

    scheduler.clock.advance(MINUTE)
    await timers(scheduler).run_once()

    assert [woken.cell for woken in await sent(scheduler)] == ["b"]


async def test_asked_for_again_after_it_was_cancelled_it_is_sent(scheduler: CatalogProcess) -> None:
    await ask(scheduler, wake(scheduler, MINUTE), wake(scheduler, None), wake(scheduler, 2 * MINUTE))
    await taken(scheduler)

    scheduler.clock.advance(2 * MINUTE)
    await timers(scheduler).run_once()

    assert len(await sent(scheduler)) == 1


async def test_a_request_that_is_repeated_word_for_word_is_sent_once(scheduler: CatalogProcess) -> None:
    asked = wake(scheduler, MINUTE)
    for _ in range(3):
        await ask(scheduler, asked)
        await taken(scheduler)

    scheduler.clock.advance(MINUTE)
    await timers(scheduler).run_once()

    assert len(await sent(scheduler)) == 1


async def test_a_request_that_comes_when_it_is_due_is_sent_at_once(scheduler: CatalogProcess) -> None:
    await ask(scheduler, wake(scheduler, timedelta(0)))
    await taken(scheduler)
    await timers(scheduler).run_once()

    assert len(await sent(scheduler)) == 1


@pytest.mark.parametrize("cell", ["", "x" * 50_000, "nul\0and ␟ and 日", "day=2026-01-01,region=EU"])
async def test_a_cell_is_any_text(scheduler: CatalogProcess, cell: str) -> None:
    await ask(scheduler, wake(scheduler, MINUTE, cell), wake(scheduler, 2 * MINUTE, cell))
    await taken(scheduler)

    scheduler.clock.advance(2 * MINUTE)
    await timers(scheduler).run_once()

    assert [woken.cell for woken in await sent(scheduler)] == [cell]


async def test_what_cannot_be_read_goes_to_the_dead_letters_and_blocks_no_other(scheduler: CatalogProcess) -> None:
    shard = home(schedule_key(WEEKLY), SHARDS)
    await scheduler.broker.append(
        [Outgoing(WAKEUPS, shard, b"x", b'{"cell": 7}'), Outgoing(WAKEUPS, shard, b"x", None)]
    )
    await ask(scheduler, wake(scheduler, MINUTE))

    assert await taken(scheduler) == 1

    reader = await scheduler.broker.reader({TopicPartition(DEAD_LETTER, shard): 0})
    [chunk] = await reader.read(max_records=10, timeout=1)
    letters = [orjson.loads(record.value or b"") for record in chunk.records]
    assert [(each["topic"], each["offset"], each["path"]) for each in letters] == [
        (WAKEUPS, 0, "$.cell"),
        (WAKEUPS, 1, "$"),
    ]


async def test_a_deleted_schedule_wakes_no_schedule_not_even_by_what_was_still_on_its_way(
    scheduler: CatalogProcess,
) -> None:
    await ask(scheduler, wake(scheduler, MINUTE, "stored"))
    await taken(scheduler)
    await ask(scheduler, wake(scheduler, MINUTE, "on its way"))
    async with scheduler.relaying():
        await scheduler.catalog.delete(WEEKLY).apply()

    assert await held(scheduler) == 0
    assert await taken(scheduler) == 0
    scheduler.clock.advance(MINUTE)
    assert await timers(scheduler).run_once() is None
    assert await sent(scheduler) == []


async def test_a_schedule_that_is_unknown_wakes_no_schedule(scheduler: CatalogProcess) -> None:
    await ask(scheduler, wake(scheduler, MINUTE, ref=ScheduleRef("default", "flights", "stranger")))

    assert await taken(scheduler) == 0
    assert await held(scheduler) == 0


async def test_a_change_leaves_requests_to_the_fold_which_knows_what_it_kept(scheduler: CatalogProcess) -> None:
    await ask(scheduler, wake(scheduler, MINUTE, generation=1))
    await taken(scheduler)
    async with scheduler.relaying():
        await scheduler.catalog.update(schedule(trigger=Every(MINUTE * 60))).apply()
        await scheduler.catalog.disable(WEEKLY).apply()

    scheduler.clock.advance(MINUTE)
    await timers(scheduler).run_once()

    assert [woken.generation for woken in await sent(scheduler)] == [1]


@pytest.mark.parametrize("behind", [timedelta(milliseconds=3), timedelta(seconds=2), timedelta(hours=2)])
async def test_where_the_logs_clock_is_behind_the_fold_asks_again_a_few_times_and_is_never_left_waiting(
    scheduler: CatalogProcess, behind: timedelta
) -> None:
    logs_clock = SettableClock(scheduler.clock.now())
    log = CatalogProcess(
        scheduler.pool, scheduler.notifier, await furnished(MemoryBroker(MemoryLog(logs_clock))), scheduler.clock
    )
    await scheduler.pool.execute("DELETE FROM intake_positions")
    deadline = logs_clock.now() + MINUTE
    scheduler.clock.advance(behind)
    reading, rounds = intake(log), 0
    while logs_clock.now() < deadline:  # woken too early, the fold asks for the same again, at once
        await ask(log, Wake(WEEKLY, 1, "", deadline))
        await reading.run_once(timeout=1)
        due = await timers(log).run_once()
        if due is not None:
            logs_clock.advance(due - scheduler.clock.now())
            scheduler.clock.set(due)
            assert await timers(log).run_once() is None
        rounds += 1
        assert len(await sent(log)) == rounds

    assert rounds <= 15
    assert logs_clock.now() == deadline or behind > MINUTE


async def test_a_request_that_is_due_soon_wakes_a_sleeping_instance(scheduler: CatalogProcess, database: str) -> None:
    notifier = PostgresNotifier(database)
    scheduler.clock.advance(MINUTE)
    sleeping = asyncio.create_task(
        Timers(
            store=PostgresTimers(scheduler.pool),
            wakes=PostgresWakes(scheduler.pool),
            notifier=notifier,
            clock=scheduler.clock,
        ).run()
    )
    try:
        async with notifier.listen("timers") as subscription:
            await ask(scheduler, wake(scheduler, timedelta(0)))
            await taken(scheduler)
            assert await subscription.wait(5)
            async with asyncio.timeout(4):  # before the sweep
                await scheduler.written()

            await ask(scheduler, wake(scheduler, 60 * MINUTE))
            await taken(scheduler)
            assert not await subscription.wait(0.2), "what is far away notifies no process"
    finally:
        sleeping.cancel()
        await asyncio.wait([sleeping])
        await notifier.close()

    assert len(await sent(scheduler)) == 1


async def many(scheduler: CatalogProcess) -> None:
    """5,000 requests over a day, and statistics that know them."""
    await scheduler.pool.execute(
        "INSERT INTO wakes (schedule, cell, generation, at, due_at) SELECT $1, n::text::bytea, 1, due, due"
        " FROM (SELECT n, $2::timestamptz + n * interval '17 s' AS due FROM generate_series(1, 5000) n) AS given",
        str(WEEKLY),
        scheduler.clock.now(),
    )
    await scheduler.pool.execute("ANALYZE wakes, schedules, intake_positions")


@pytest.mark.parametrize("theirs", [None, "now"])
async def test_the_claim_reads_the_due_index_and_only_what_is_due(
    scheduler: CatalogProcess, theirs: str | None
) -> None:
    await many(scheduler)

    expected, due = None if theirs is None else datetime.now(UTC), scheduler.clock.now() + MINUTE
    plan = await explained(scheduler.pool, queries("events/wakes")["claim"], due, 200, expected)

    assert any(node.get("Index Name") == "wakes_due" for node in plan)
    read = sum(node["Actual Rows"] * node["Actual Loops"] for node in plan if node.get("Relation Name") == "wakes")
    assert read < 30, "rows read grow with what is held"


async def test_how_long_to_sleep_is_one_step_in_the_index(scheduler: CatalogProcess) -> None:
    await many(scheduler)

    plan = await explained(scheduler.pool, queries("events/wakes")["next_due"])

    assert any(node.get("Index Name") == "wakes_due" for node in plan)


async def test_a_take_finds_what_it_replaces_by_the_index(scheduler: CatalogProcess) -> None:
    await many(scheduler)
    await PostgresWakes(scheduler.pool).positions(WAKEUPS, SHARDS)
    at = scheduler.clock.now()

    plan = await explained(
        scheduler.pool,
        queries("events/wakes")["take"],
        *(WAKEUPS, [0], [0], [9]),
        *([0, 0], [str(WEEKLY)] * 2, [b"17", b"18"], [1, 1], [None, at], [None, at], at),
    )

    read = sum(node["Actual Rows"] * node["Actual Loops"] for node in plan if node.get("Relation Name") == "wakes")
    assert any(node.get("Index Name") == "wakes_of_cell" for node in plan)
    assert read < 30, "rows read grow with what is held"
