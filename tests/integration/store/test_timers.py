"""Timers on a real PostgreSQL: never early, each tick once, any number of instances."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from streamsched.codec.records import signal as signal_codec
from streamsched.domain.errors import UnavailableError
from streamsched.domain.events.event import Ticked
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import Misfire
from streamsched.domain.signals.signal import Occurred
from streamsched.domain.triggers.trigger import At, Cron, Every
from streamsched.ports.outbox import OutboxRecord
from streamsched.ports.timers import DueTimer, Firing
from streamsched.store.events.timers import PostgresTimers
from streamsched.store.events.wakes import PostgresWakes
from streamsched.store.server.notifier import PostgresNotifier
from streamsched.store.sql import queries
from streamsched.timers.firing import Firings
from streamsched.timers.timers import Timers

from . import wakeful
from .conftest import FLIGHTS, CatalogProcess, app, explained, schedule

WEEKLY = schedule().ref
MINUTE = timedelta(minutes=1)


@pytest.fixture
def timers(scheduler: CatalogProcess) -> Timers:
    return wakeful.timers(scheduler)


async def deploy(scheduler: CatalogProcess, *schedules: object) -> None:
    async with scheduler.relaying():
        await scheduler.catalog.deploy(app(*schedules)).apply()  # type: ignore[arg-type]


async def ticks(scheduler: CatalogProcess) -> list[datetime]:
    """The due times of the ticks in the outbox, oldest first."""
    found: list[datetime] = []
    for record in await scheduler.outbox.list_pending(limit=1000):
        signal = signal_codec.decode(record.key.encode(), record.value)
        assert isinstance(signal, Occurred)
        assert isinstance(signal.event.fact, Ticked)
        assert record.key == f"schedule:{signal.event.fact.schedule}"
        assert signal.event.time == signal.event.fact.due_at
        found.append(signal.event.fact.due_at)
    return found


async def test_a_tick_is_never_early(scheduler: CatalogProcess, timers: Timers) -> None:
    await deploy(scheduler, schedule(trigger=Every(MINUTE)))
    start = scheduler.clock.now()

    scheduler.clock.set(start + MINUTE - timedelta(microseconds=1))
    assert await timers.run_once() == start + MINUTE
    assert await ticks(scheduler) == []

    scheduler.clock.set(start + MINUTE)
    assert await timers.run_once() == start + 2 * MINUTE
    assert await ticks(scheduler) == [start + MINUTE]


@pytest.mark.parametrize("wrong", [timedelta(days=1), timedelta(days=-1), None])
async def test_a_process_whose_clocks_are_wrong_fires_nothing_early(
    scheduler: CatalogProcess, wrong: timedelta | None
) -> None:
    """Until it has measured PostgreSQL's clock again, which says another time than it should."""
    await deploy(scheduler, schedule(trigger=Every(MINUTE)))
    scheduler.clock.advance(timedelta(days=1))
    store = PostgresTimers(scheduler.pool, theirs=lambda: None if wrong is None else datetime.now(UTC) + wrong)
    right = PostgresTimers(scheduler.pool, theirs=lambda: datetime.now(UTC))

    assert await store.fire(now=scheduler.clock.now(), limit=10, decide=Firings(scheduler.clock.now())) == 0
    assert await ticks(scheduler) == []
    assert await right.fire(now=scheduler.clock.now(), limit=10, decide=Firings(scheduler.clock.now())) == 1


async def test_a_jittered_tick_fires_later_and_says_its_own_time(scheduler: CatalogProcess, timers: Timers) -> None:
    await deploy(scheduler, schedule(trigger=Cron("0 4 * * *", jitter=timedelta(hours=1))))
    due = datetime(2026, 1, 1, 4, tzinfo=UTC)
    fires = await timers.run_once()
    assert fires is not None
    assert due < fires < due + timedelta(hours=1)

    scheduler.clock.set(fires - timedelta(microseconds=1))
    assert await timers.run_once() == fires
    assert await ticks(scheduler) == []

    scheduler.clock.set(fires)
    following = await timers.run_once()
    assert await ticks(scheduler) == [due]
    assert following is not None
    assert due + timedelta(days=1) < following < due + timedelta(days=1, hours=1)
    assert following - fires != timedelta(days=1)


async def test_a_tick_names_its_leaf_and_its_generation_and_has_one_id_forever(
    scheduler: CatalogProcess, timers: Timers
) -> None:
    await deploy(scheduler, schedule(trigger=Cron("0 4 * * *") & FLIGHTS))
    due = datetime(2026, 1, 1, 4, tzinfo=UTC)
    scheduler.clock.set(due)

    await timers.run_once()

    (record,) = await scheduler.outbox.list_pending(limit=10)
    signal = signal_codec.decode(record.key.encode(), record.value)
    assert isinstance(signal, Occurred)
    assert signal.event.fact == Ticked(WEEKLY, 1, "cron:0 4 * * *@UTC", due)
    assert signal.event.id == "tick:default.flights.weekly:1:cron:0 4 * * *@UTC:2026-01-01T04:00:00+00:00"
    assert signal.event.source == "streamsched/timers"


@pytest.mark.parametrize(
    ("misfire", "fired", "skipped"), [(Misfire.ALL, 5, 0), (Misfire.ONE, 1, 4), (Misfire.SKIP, 0, 5)]
)
async def test_missed_ticks_follow_the_policy_and_history_knows_the_skipped(
    scheduler: CatalogProcess, timers: Timers, misfire: Misfire, fired: int, skipped: int
) -> None:
    await deploy(scheduler, schedule(trigger=Every(timedelta(hours=1)), misfire=misfire, overlap=Overlap.QUEUE))
    start = scheduler.clock.now()
    scheduler.clock.set(start + timedelta(hours=5, minutes=30))

    next_due = await timers.run_once()

    assert next_due == start + timedelta(hours=6)
    assert len(await ticks(scheduler)) == fired
    lines = [line for line in await scheduler.reader.history("schedule", str(WEEKLY)) if line.action == "ticks_skipped"]
    assert [(line.detail or {}).get("skipped") for line in lines] == ([skipped] if skipped else [])


async def test_a_leaf_that_never_ticks_again_has_no_timer(scheduler: CatalogProcess, timers: Timers) -> None:
    start = scheduler.clock.now()
    await deploy(scheduler, schedule(trigger=At(start + MINUTE)))
    scheduler.clock.set(start + MINUTE)

    assert await timers.run_once() is None

    assert await ticks(scheduler) == [start + MINUTE]
    assert await scheduler.pool.fetchval("SELECT count(*) FROM timers") == 0


async def test_a_tick_and_the_next_due_time_are_one_transaction(scheduler: CatalogProcess) -> None:
    await deploy(scheduler, schedule(trigger=Every(MINUTE)))
    scheduler.clock.advance(MINUTE)
    store = PostgresTimers(scheduler.pool)

    def decide(timer: DueTimer) -> Firing:
        raise UnavailableError(timer.leaf_id)

    with pytest.raises(UnavailableError, match="every:60s"):
        await store.fire(now=scheduler.clock.now(), limit=10, decide=decide)

    assert await store.next_due_at() == scheduler.clock.now()
    assert await ticks(scheduler) == []


@pytest.mark.parametrize("bad", [None, "cannot be planned", "cannot be stored"])
async def test_a_timer_that_raises_holds_up_no_other_and_is_tried_again_later(
    scheduler: CatalogProcess, bad: str | None
) -> None:
    schedules = [schedule(f"s{number}", Every(MINUTE)) for number in range(5)]
    await deploy(scheduler, *schedules)
    scheduler.clock.advance(MINUTE)
    store, seen = PostgresTimers(scheduler.pool), list[str]()

    def decide(timer: DueTimer) -> Firing:
        seen.append(timer.schedule.name)
        if timer.schedule.name == "s2" and bad == "cannot be planned":
            raise OverflowError("date value out of range")
        if timer.schedule.name == "s2" and bad == "cannot be stored":
            return Firing((OutboxRecord("signals", "\0", b""),), timer.due_at + MINUTE)
        return Firing((), timer.due_at + MINUTE)

    now = scheduler.clock.now()
    assert await store.fire(now=now, limit=10, decide=decide) == 5

    due = {row["schedule"]: row["due_at"] for row in await scheduler.pool.fetch("SELECT schedule, due_at FROM timers")}
    late = [name.rpartition(".")[2] for name, at in due.items() if at == now]
    assert late == ([] if bad is None else ["s2"])
    assert await store.next_due_at() == now + MINUTE, "it causes no wake-up meanwhile"
    history = await scheduler.pool.fetch("SELECT reason FROM decisions WHERE action = 'ticks_failed'")
    assert len(history) == len(late)

    seen.clear()
    await store.fire(now=now + MINUTE / 2, limit=10, decide=decide)
    assert seen == []
    await store.fire(now=now + MINUTE, limit=10, decide=decide)
    assert "s2" in seen


async def test_instances_share_the_due_timers_and_fire_each_once(scheduler: CatalogProcess) -> None:
    schedules = [schedule(f"s{number:02}", Every(MINUTE)) for number in range(30)]
    await deploy(scheduler, *schedules)
    scheduler.clock.advance(MINUTE)
    store = PostgresTimers(scheduler.pool)
    fired: list[str] = []

    async def instance() -> None:
        while True:
            mine: list[str] = []

            def decide(timer: DueTimer, mine: list[str] = mine) -> Firing:
                mine.append(str(timer.schedule))
                return Firing((), timer.due_at + MINUTE)

            if not await store.fire(now=scheduler.clock.now(), limit=3, decide=decide):
                return
            fired.extend(mine)

    await asyncio.gather(*(instance() for _ in range(4)))

    assert sorted(fired) == [str(each.ref) for each in schedules]


async def test_a_schedule_that_cannot_be_read_delays_no_other_and_keeps_its_timer(
    scheduler: CatalogProcess, timers: Timers
) -> None:
    await deploy(scheduler, schedule("a", Every(MINUTE)), schedule("b", Every(2 * MINUTE)))
    await scheduler.pool.execute(
        "UPDATE schedules SET definition = jsonb_set(definition, '{trigger}', '{\"type\": \"OF_TOMORROW\"}')"
        " WHERE id = 'default.flights.a'"
    )
    start = scheduler.clock.now()
    scheduler.clock.advance(2 * MINUTE)

    assert await timers.run_once() == start + 4 * MINUTE

    assert await ticks(scheduler) == [start + 2 * MINUTE]
    assert await scheduler.pool.fetchval("SELECT min(due_at) FROM timers") == start + MINUTE


async def test_a_timer_another_instance_has_is_passed_over(scheduler: CatalogProcess, database: str) -> None:
    await deploy(scheduler, schedule("a", Every(MINUTE)), schedule("b", Every(MINUTE)))
    scheduler.clock.advance(MINUTE)
    other = await asyncpg.connect(database)
    async with other.transaction():
        await other.execute("SELECT * FROM timers WHERE schedule = 'default.flights.a' FOR UPDATE")
        store = PostgresTimers(scheduler.pool)

        assert (
            await store.fire(
                now=scheduler.clock.now(), limit=10, decide=lambda t: Firing((), t.due_at + MINUTE, t.due_at + MINUTE)
            )
            == 1
        )
    await other.close()


async def test_a_change_during_the_firing_waits_and_the_old_tick_is_of_the_old_generation(
    scheduler: CatalogProcess, timers: Timers
) -> None:
    await deploy(scheduler, schedule(trigger=Every(MINUTE)))
    scheduler.clock.advance(MINUTE)
    async with scheduler.relaying():
        changing = asyncio.create_task(scheduler.catalog.update(schedule(trigger=Every(2 * MINUTE))).apply())
        await timers.run_once()
        await changing
        await scheduler.relayed()

    facts = [signal.event.fact for signal in await scheduler.signals() if isinstance(signal, Occurred)]
    assert all(isinstance(fact, Ticked) and fact.generation == 1 for fact in facts)
    assert await scheduler.pool.fetchval("SELECT generation FROM timers") == 2


async def test_a_timer_that_becomes_due_sooner_wakes_a_sleeping_instance(
    scheduler: CatalogProcess, database: str
) -> None:
    notifier = PostgresNotifier(database)
    looked = Looked()
    sleeping = asyncio.create_task(
        Timers(
            store=looked.over(scheduler), wakes=PostgresWakes(scheduler.pool), notifier=notifier, clock=scheduler.clock
        ).run()
    )
    try:
        await looked.times(1)
        await deploy(scheduler, schedule(trigger=Every(MINUTE)))
        await looked.times(2)  # long before the sweep
        scheduler.clock.advance(MINUTE)
        await scheduler.pool.execute("SELECT pg_notify('timers', '')")
        async with asyncio.timeout(10):
            await scheduler.written()
    finally:
        sleeping.cancel()
        await asyncio.wait([sleeping])
        await notifier.close()

    assert len(await ticks(scheduler)) == 1


class Looked:
    """Counts how often a store was asked when the next timer is due."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = asyncio.Condition()

    def over(self, scheduler: CatalogProcess) -> PostgresTimers:
        looked = self

        class Store(PostgresTimers):
            async def next_due_at(self) -> datetime | None:
                found = await super().next_due_at()
                async with looked._changed:
                    looked._count += 1
                    looked._changed.notify_all()
                return found

        return Store(scheduler.pool)

    async def times(self, count: int) -> None:
        async with asyncio.timeout(4), self._changed:
            await self._changed.wait_for(lambda: self._count >= count)


@pytest.mark.parametrize("theirs", [None, "now"])
async def test_the_claim_reads_the_due_index_and_only_what_is_due(
    scheduler: CatalogProcess, theirs: str | None
) -> None:
    await deploy(scheduler, schedule(trigger=Every(MINUTE)))
    await scheduler.pool.execute(
        "INSERT INTO schedules SELECT id || n, app, program, definition, 1, true, created_at, updated_at"
        " FROM schedules, generate_series(1, 5000) n"
    )
    await scheduler.pool.execute(
        "INSERT INTO timers SELECT id, 'every:60s', 1, $1::timestamptz + random() * interval '1 day' FROM schedules"
        " ON CONFLICT DO NOTHING",
        scheduler.clock.now() + MINUTE,
    )
    await scheduler.pool.execute("ANALYZE timers, schedules")

    expected = None if theirs is None else datetime.now(UTC)
    plan = await explained(
        scheduler.pool, queries("events/timers")["claim"], scheduler.clock.now() + 2 * MINUTE, 200, [], expected
    )

    assert any(node.get("Index Name") == "timers_due" for node in plan)
    scanned = sum(node["Actual Rows"] * node["Actual Loops"] for node in plan if node.get("Relation Name") == "timers")
    assert scanned < 100, "rows read grow with the backlog"


async def test_how_long_to_sleep_is_one_step_in_the_index(scheduler: CatalogProcess) -> None:
    await deploy(scheduler, schedule(trigger=Every(MINUTE)))
    async with scheduler.pool.acquire() as connection:
        await connection.execute("SET enable_seqscan = off")
        plan = await explained(connection, queries("events/timers")["next_due"], [])
        await connection.execute("RESET enable_seqscan")

    assert any(node.get("Index Name") == "timers_due" for node in plan)
