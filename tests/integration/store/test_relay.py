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
from streamsched.domain.home import home
from streamsched.ports.broker import Broker, Outgoing, TopicPartition
from streamsched.ports.drivers import open_broker
from streamsched.ports.outbox import OutboxRecord, PendingRecord
from streamsched.ports.records import records as log_records
from streamsched.ports.topics import RELAY_POSITION, SIGNALS
from streamsched.store import outbox
from streamsched.store.outbox import PostgresOutbox
from streamsched.store.sql import queries

from .conftest import SHARDS, House, furnished


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
    house: House, writer: asyncpg.Connection
) -> None:
    await outbox.write(writer, records("1", "2", "3"))

    assert await house.relay().run_once() == 3

    assert await values(house.broker) == ["1", "2", "3"]
    assert await house.outbox.pending(limit=10) == []


async def test_a_row_that_shows_up_after_younger_ones_were_relayed_is_not_lost(
    house: House, writer: asyncpg.Connection
) -> None:
    relay = house.relay()
    slow = writer.transaction()
    await slow.start()
    first = await outbox.write(writer, records("slow"))
    second = await outbox.write(house.pool, records("quick"))
    assert first < second
    assert await relay.run_once() == 1
    await slow.commit()

    assert await relay.run_once() == 1
    assert await values(house.broker) == ["quick", "slow"]


async def test_rows_of_a_transaction_that_rolls_back_are_never_relayed(
    house: House, writer: asyncpg.Connection
) -> None:
    undone = writer.transaction()
    await undone.start()
    await outbox.write(writer, records("undone"))
    await undone.rollback()
    await outbox.write(writer, records("done"))

    await house.relay().run_once()

    assert await values(house.broker) == ["done"]


async def test_concurrent_transactions_of_any_length_lose_and_double_nothing(house: House, database: str) -> None:
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

    async with house.relaying():
        await asyncio.gather(*(write_some(number) for number in range(8)))
        await house.relayed()

    expected = {number: [f"{number}.{turn}.{part}" for turn in range(10) for part in "ab"] for number in range(8)}
    for number, wanted in expected.items():
        at_home = await values(house.broker, f"schedule:a.b.{number}")
        assert [value for value in at_home if value.startswith(f"{number}.")] == wanted


class DyingOutbox(PostgresOutbox):
    """Loses the connection when it is told to."""

    dies_before_forgetting = False

    async def forget(self, ids: Sequence[int]) -> None:
        if self.dies_before_forgetting:
            self.dies_before_forgetting = False
            raise UnavailableError("PostgreSQL: gone")
        await super().forget(ids)


async def test_a_relay_that_dies_between_the_log_and_the_deletion_appends_nothing_twice(house: House) -> None:
    await outbox.write(house.pool, records("1", "2"))
    house.outbox = DyingOutbox(house.pool)
    house.outbox.dies_before_forgetting = True
    with pytest.raises(UnavailableError):
        await house.relay().run_once()
    assert len(await house.outbox.pending(limit=10)) == 2
    await outbox.write(house.pool, records("3"))

    assert await house.relay().run_once() == 1

    assert await values(house.broker) == ["1", "2", "3"]


async def test_the_same_relay_goes_on_after_a_failure_it_survived(house: House) -> None:
    await outbox.write(house.pool, records("1", "2"))
    house.outbox = DyingOutbox(house.pool)
    house.outbox.dies_before_forgetting = True
    relay = house.relay()
    with pytest.raises(UnavailableError):
        await relay.run_once()

    assert await relay.run_once() == 0
    assert await values(house.broker) == ["1", "2"]


async def test_a_former_relay_that_wakes_up_is_fenced(house: House) -> None:
    former, present = house.relay(), house.relay()
    await former.run_once()
    await present.run_once()
    await outbox.write(house.pool, records("1"))

    with pytest.raises(FencedError):
        await former.run_once()
    assert await values(house.broker) == []

    assert await former.run_once() == 1
    assert await values(house.broker) == ["1"]


class SlowOutbox(PostgresOutbox):
    """Holds a relay between what it read and what it appends."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        super().__init__(pool)
        self.read, self.go = asyncio.Event(), asyncio.Event()

    async def pending(self, *, limit: int, beside: Collection[int] = ()) -> Sequence[PendingRecord]:
        found = await super().pending(limit=limit, beside=beside)
        self.read.set()
        await self.go.wait()
        return found


async def test_a_relay_stopped_with_rows_in_its_hands_appends_none_of_them_later(house: House) -> None:
    await outbox.write(house.pool, records("1", "2"))
    present = house.relay()
    house.outbox = slow = SlowOutbox(house.pool)
    stopped = asyncio.create_task(house.relay().run_once())
    await slow.read.wait()
    await present.run_once()
    slow.go.set()

    with pytest.raises(FencedError):
        await stopped

    assert await values(house.broker) == ["1", "2"]


async def test_two_relays_that_fight_lose_and_double_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "_AGAIN", 0.01)
    monkeypatch.setattr(relay_module, "_BATCH", 3)
    written = [str(number) for number in range(60)]

    async with house.relaying(), house.relaying():
        for name in written:
            await outbox.write(house.pool, records(name))
        await house.relayed()

    assert await values(house.broker) == written


async def test_a_backlog_is_relayed_batch_by_batch(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "_BATCH", 10)
    names = [str(number) for number in range(25)]
    await outbox.write(house.pool, records(*names))
    relay = house.relay()

    assert [await relay.run_once() for _ in range(4)] == [10, 10, 5, 0]
    assert await values(house.broker) == names


@pytest.mark.kafka
@pytest.mark.parametrize("broker", ["memory"], indirect=True)
async def test_a_record_larger_than_the_log_takes_stays_and_holds_up_nobody(house: House, kafka_log: str) -> None:
    """Nor do many that are too large only together."""
    house.broker = await furnished(
        await open_broker(f"{kafka_log}&transaction_seconds=1&max_record_bytes={2 << 20}")
    )  # 16 MiB together
    names = [f"{number} " + "x" * (1 << 20) for number in range(20)]
    await outbox.write(house.pool, records("first", "y" * (3 << 20), *names, "last"))
    relay = house.relay()
    with capture_logs() as told:
        while await relay.run_once():
            pass

    assert await values(house.broker) == ["first", *names, "last"]
    (left,) = await house.outbox.pending(limit=10)
    assert left.value == b"y" * (3 << 20)
    assert await house.outbox.pending(limit=10, beside=[left.id]) == []
    assert [line["key"] for line in told if line["event"] == "outbox.too_large"] == ["schedule:a.b.c"]
    await relay.close()
    await house.broker.close()


async def test_the_newest_position_is_found_behind_a_long_tail_of_other_records(house: House) -> None:
    await outbox.write(house.pool, records("1"))
    house.outbox = DyingOutbox(house.pool)
    house.outbox.dies_before_forgetting = True
    with pytest.raises(UnavailableError):
        await house.relay().run_once()
    await house.broker.append([Outgoing(RELAY_POSITION, 0, b"other", b"{}")] * 1000)

    assert await house.relay().run_once() == 0
    assert await values(house.broker) == ["1"]


async def test_the_read_of_the_relay_walks_the_index_whatever_the_backlog(pool: asyncpg.Pool) -> None:
    await pool.execute("INSERT INTO outbox (topic, key) SELECT 'signals', 'k' FROM generate_series(1, 20000)")
    await pool.execute("ANALYZE outbox")

    for beside in ([], [1, 2]):
        plan = await pool.fetch("EXPLAIN " + queries("outbox")["pending"], 500, beside)

        text = "\n".join(row[0] for row in plan)
        assert "outbox_pkey" in text
        assert "Sort" not in text
