"""The relay: every record once, whatever order rows become visible in and wherever a relay dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence

import asyncpg
import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog
from structlog.testing import capture_logs

from streamsched.catalog import relay as relay_module
from streamsched.domain.errors import FencedError, UnavailableError
from streamsched.domain.signals.home import home
from streamsched.log.drivers import open_broker
from streamsched.log.records import records as log_records
from streamsched.log.topics import RELAY_POSITION, SIGNALS
from streamsched.ports.broker import Broker, Outgoing, TopicPartition
from streamsched.ports.outbox import OutboxRecord, PendingRecord
from streamsched.store.catalog import outbox
from streamsched.store.catalog.outbox import PostgresOutbox
from streamsched.store.sql import queries

from .conftest import SHARDS, CatalogProcess, furnished


def records(*names: str, key: str = "schedule:a.b.c") -> list[OutboxRecord]:
    return [OutboxRecord(SIGNALS, key, name.encode()) for name in names]


@pytest.fixture(params=["memory", "postgres"])
async def broker(request: pytest.FixtureRequest, database: str) -> AsyncIterator[Broker]:
    broker = MemoryBroker(MemoryLog()) if request.param == "memory" else await open_broker(database)
    yield await furnished(broker)
    await broker.close()


async def values(broker: Broker, key: str = "schedule:a.b.c") -> list[str]:
    """The values at a key's home, in the log's order."""
    at = TopicPartition(SIGNALS, home(key, SHARDS))
    return [record.value.decode() async for record in log_records(broker, at) if record.value is not None]


@pytest.fixture
async def writer(database: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


async def test_records_go_to_the_home_of_their_key_in_the_order_they_were_written(
    scheduler: CatalogProcess, writer: asyncpg.Connection
) -> None:
    await outbox.write(writer, records("1", "2", "3"))

    assert await scheduler.relay().run_once() == 3

    assert await values(scheduler.broker) == ["1", "2", "3"]
    assert await scheduler.outbox.list_pending(limit=10) == []


async def test_a_row_that_shows_up_after_younger_ones_were_relayed_is_not_lost(
    scheduler: CatalogProcess, writer: asyncpg.Connection
) -> None:
    relay = scheduler.relay()
    slow = writer.transaction()
    await slow.start()
    first = await outbox.write(writer, records("slow"))
    second = await scheduler.write(records("quick"))
    assert first < second
    assert await relay.run_once() == 1
    await slow.commit()

    assert await relay.run_once() == 1
    assert await values(scheduler.broker) == ["quick", "slow"]


async def test_rows_of_a_transaction_that_rolls_back_are_never_relayed(
    scheduler: CatalogProcess, writer: asyncpg.Connection
) -> None:
    undone = writer.transaction()
    await undone.start()
    await outbox.write(writer, records("undone"))
    await undone.rollback()
    await outbox.write(writer, records("done"))

    await scheduler.relay().run_once()

    assert await values(scheduler.broker) == ["done"]


async def test_concurrent_transactions_of_any_length_lose_and_double_nothing(
    scheduler: CatalogProcess, database: str
) -> None:
    async def write_some(number: int) -> None:
        connection = await asyncpg.connect(database)
        for turn in range(10):
            async with connection.transaction():
                await outbox.write(connection, records(f"{number}.{turn}.a", key=f"schedule:a.b.{number}"))
                for _ in range((number * 7 + turn * 3) % 5):  # of different lengths, so that ids and commits cross
                    await connection.execute("SELECT 1")
                    await asyncio.sleep(0)
                await outbox.write(connection, records(f"{number}.{turn}.b", key=f"schedule:a.b.{number}"))
        await connection.close()

    async with scheduler.relaying():
        await asyncio.gather(*(write_some(number) for number in range(8)))
        await scheduler.relayed()

    expected = {number: [f"{number}.{turn}.{part}" for turn in range(10) for part in "ab"] for number in range(8)}
    for number, wanted in expected.items():
        at_home = await values(scheduler.broker, f"schedule:a.b.{number}")
        assert [value for value in at_home if value.startswith(f"{number}.")] == wanted


class DyingOutbox(PostgresOutbox):
    """Loses the connection when it is given to."""

    dies_before_forgetting = False

    async def forget(self, ids: Sequence[int]) -> None:
        if self.dies_before_forgetting:
            self.dies_before_forgetting = False
            raise UnavailableError("PostgreSQL: gone")
        await super().forget(ids)


async def test_a_relay_that_dies_between_the_log_and_the_deletion_appends_nothing_twice(
    scheduler: CatalogProcess,
) -> None:
    await scheduler.write(records("1", "2"))
    scheduler.outbox = DyingOutbox(scheduler.pool)
    scheduler.outbox.dies_before_forgetting = True
    with pytest.raises(UnavailableError):
        await scheduler.relay().run_once()
    assert len(await scheduler.outbox.list_pending(limit=10)) == 2
    await scheduler.write(records("3"))

    assert await scheduler.relay().run_once() == 1

    assert await values(scheduler.broker) == ["1", "2", "3"]


async def test_the_same_relay_goes_on_after_a_failure_it_survived(scheduler: CatalogProcess) -> None:
    await scheduler.write(records("1", "2"))
    scheduler.outbox = DyingOutbox(scheduler.pool)
    scheduler.outbox.dies_before_forgetting = True
    relay = scheduler.relay()
    with pytest.raises(UnavailableError):
        await relay.run_once()

    assert await relay.run_once() == 0
    assert await values(scheduler.broker) == ["1", "2"]


async def test_a_former_relay_that_wakes_up_is_fenced(scheduler: CatalogProcess) -> None:
    former, present = scheduler.relay(), scheduler.relay()
    await former.run_once()
    await present.run_once()
    await scheduler.write(records("1"))

    with pytest.raises(FencedError):
        await former.run_once()
    assert await values(scheduler.broker) == []

    assert await former.run_once() == 1
    assert await values(scheduler.broker) == ["1"]


class SlowOutbox(PostgresOutbox):
    """Holds a relay between what it read and what it appends."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        super().__init__(pool)
        self.read, self.go = asyncio.Event(), asyncio.Event()

    async def list_pending(self, *, limit: int, beside: Collection[int] = ()) -> Sequence[PendingRecord]:
        found = await super().list_pending(limit=limit, beside=beside)
        self.read.set()
        await self.go.wait()
        return found


async def test_a_relay_stopped_with_rows_in_its_hands_appends_none_of_them_later(scheduler: CatalogProcess) -> None:
    await scheduler.write(records("1", "2"))
    present = scheduler.relay()
    scheduler.outbox = slow = SlowOutbox(scheduler.pool)
    stopped = asyncio.create_task(scheduler.relay().run_once())
    await slow.read.wait()
    await present.run_once()
    slow.go.set()

    with pytest.raises(FencedError):
        await stopped

    assert await values(scheduler.broker) == ["1", "2"]


async def test_two_relays_that_fight_lose_and_double_nothing(
    scheduler: CatalogProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "_RETRY", 0.01)
    monkeypatch.setattr(relay_module, "_BATCH", 3)
    written = [str(number) for number in range(60)]

    async with scheduler.relaying(), scheduler.relaying():
        for name in written:
            await scheduler.write(records(name))
        await scheduler.relayed()

    assert await values(scheduler.broker) == written


async def test_a_backlog_is_relayed_batch_by_batch(scheduler: CatalogProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "_BATCH", 10)
    names = [str(number) for number in range(25)]
    await scheduler.write(records(*names))
    relay = scheduler.relay()

    assert [await relay.run_once() for _ in range(4)] == [10, 10, 5, 0]
    assert await values(scheduler.broker) == names


@pytest.mark.kafka
@pytest.mark.parametrize("broker", ["memory"], indirect=True)
async def test_a_record_larger_than_the_log_takes_stays_and_delays_no_other(
    scheduler: CatalogProcess, kafka_log: str
) -> None:
    """Nor do many that are too large only together."""
    scheduler.broker = await furnished(
        await open_broker(f"{kafka_log}&transaction_seconds=1&max_record_bytes={2 << 20}")
    )  # 16 MiB together
    names = [f"{number} " + "x" * (1 << 20) for number in range(20)]
    await scheduler.write(records("first", "y" * (3 << 20), *names, "last"))
    relay = scheduler.relay()
    with capture_logs() as reported:
        while await relay.run_once():
            pass

    assert await values(scheduler.broker) == ["first", *names, "last"]
    (left,) = await scheduler.outbox.list_pending(limit=10)
    assert left.value == b"y" * (3 << 20)
    assert await scheduler.outbox.list_pending(limit=10, beside=[left.id]) == []
    assert [line["key"] for line in reported if line["event"] == "outbox.too_large"] == ["schedule:a.b.c"]
    await relay.close()
    await scheduler.broker.close()


async def test_the_newest_position_is_found_behind_a_long_tail_of_other_records(scheduler: CatalogProcess) -> None:
    await scheduler.write(records("1"))
    scheduler.outbox = DyingOutbox(scheduler.pool)
    scheduler.outbox.dies_before_forgetting = True
    with pytest.raises(UnavailableError):
        await scheduler.relay().run_once()
    await scheduler.broker.append([Outgoing(RELAY_POSITION, 0, b"other", b"{}")] * 1000)

    assert await scheduler.relay().run_once() == 0
    assert await values(scheduler.broker) == ["1"]


async def test_the_read_of_the_relay_walks_the_index_whatever_the_backlog(pool: asyncpg.Pool) -> None:
    await pool.execute("INSERT INTO outbox (topic, key) SELECT 'signals', 'k' FROM generate_series(1, 20000)")
    await pool.execute("ANALYZE outbox")

    for beside in ([], [1, 2]):
        plan = await pool.fetch("EXPLAIN " + queries("catalog/outbox")["pending"], 500, beside, 1 << 20)

        text = "\n".join(row[0] for row in plan)
        assert "outbox_pkey" in text
        assert "Sort" not in text


async def test_a_record_for_a_topic_that_the_log_does_not_have_holds_up_no_other(
    scheduler: CatalogProcess, writer: asyncpg.Connection
) -> None:
    await outbox.write(writer, [*records("1"), OutboxRecord("nowhere", "k", b"lost"), *records("2")])
    relay = scheduler.relay()

    with capture_logs() as logs:
        assert await relay.run_once() == 2
        assert await relay.run_once() == 0

    assert await values(scheduler.broker) == ["1", "2"]
    assert [row.topic for row in await scheduler.outbox.list_pending(limit=10)] == ["nowhere"]
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["outbox.no_topic"]


async def test_a_batch_is_bounded_in_bytes_and_holds_one_record_at_least(
    scheduler: CatalogProcess, writer: asyncpg.Connection
) -> None:
    large = [OutboxRecord("signals", f"k{number}", b"v" * 5_000_000) for number in range(3)]
    ids = await outbox.write(writer, [*large, OutboxRecord("signals", "huge", b"v" * 9_000_000)])

    assert [len(await scheduler.outbox.list_pending(limit=100, beside=ids[:skipped])) for skipped in range(4)] == [
        1,
        1,
        1,
        1,
    ]
    assert len(await scheduler.outbox.list_pending(limit=100)) == 1


async def test_after_a_restored_backup_no_new_row_is_taken_for_one_that_was_sent(scheduler: CatalogProcess) -> None:
    """The backup is from before rows 1 and 2, whose ids are given away again."""
    await scheduler.write(records("1", "2"))
    before = scheduler.relay()
    await before.run_once()
    await before.close()
    await scheduler.pool.execute("SELECT setval('outbox_id_seq', 1, false)")
    await scheduler.write(records("3"))  # with the id of "1"

    with capture_logs() as logs:
        relay = scheduler.relay()
        assert await relay.run_once() == 1
    await scheduler.write(records("4"))
    await relay.run_once()
    await relay.close()

    assert await values(scheduler.broker) == ["1", "2", "3", "4"]
    assert [line for line in logs if line["event"] == "relay.database_restored"]
    assert (await scheduler.pool.fetchval("SELECT last_value FROM outbox_id_seq")) == 3


async def test_a_database_that_was_not_restored_keeps_its_ids(scheduler: CatalogProcess) -> None:
    await scheduler.write(records("1", "2"))

    assert not await scheduler.outbox.advance(2)
    assert await scheduler.write(records("3")) == [3]
