"""Relays as real processes on the postgres broker: killed and stopped at any moment, they lose and double nothing."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from streamsched.domain.signals.home import home
from streamsched.log.drivers import open_broker
from streamsched.log.records import records
from streamsched.log.topics import SIGNALS
from streamsched.ports.broker import Broker, TopicPartition
from streamsched.ports.outbox import OutboxRecord

from .conftest import SHARDS, CatalogProcess, furnished

KEYS = [f"schedule:a.b.{number}" for number in range(6)]
ROUNDS = 6
ROWS = 60

RELAY = """
import asyncio, sys
from streamsched.catalog import relay
from streamsched.log.drivers import open_broker
from streamsched.store.server.notifier import PostgresNotifier
from streamsched.store.catalog.outbox import PostgresOutbox
from streamsched.store.connections import open_pool

async def main(dsn):
    relay._BATCH, relay._AGAIN = 7, 0.05
    broker = await open_broker(dsn)
    print("ready", flush=True)
    await relay.Relay(broker=broker, outbox=PostgresOutbox(await open_pool(dsn)), notifier=PostgresNotifier(dsn)).run()

asyncio.run(main(sys.argv[1]))
"""


@pytest.fixture
async def broker(database: str) -> AsyncIterator[Broker]:
    broker = await open_broker(database)
    yield await furnished(broker)
    await broker.close()


@pytest.fixture
async def processes() -> AsyncIterator[list[Process]]:
    started: list[Process] = []
    yield started
    for process in started:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def start(processes: list[Process], dsn: str) -> Process:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", RELAY, dsn, stdout=PIPE, stderr=PIPE)
    processes.append(process)
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), 30) == b"ready\n"
    return process


async def write(scheduler: CatalogProcess, round_: int) -> None:
    """Every key gets its rows in order, each in a transaction of its own, all keys at once."""

    async def of(key: str) -> None:
        for number in range(ROWS):
            await scheduler.write([OutboxRecord(SIGNALS, key, f"{round_}.{number:03}".encode())])

    await asyncio.gather(*(of(key) for key in KEYS))


async def appended(scheduler: CatalogProcess) -> int:
    places = [TopicPartition(SIGNALS, partition) for partition in range(SHARDS)]
    return sum((await scheduler.broker.ends(places)).values())


async def grown(scheduler: CatalogProcess, beyond: int) -> None:
    """Until the log has more records than that."""
    places = {TopicPartition(SIGNALS, p): end for p, end in (await ends(scheduler)).items()}
    reader = await scheduler.broker.reader(places)
    async with asyncio.timeout(30):
        while await appended(scheduler) <= beyond:
            await reader.read(max_records=10, timeout=1)
    await reader.close()


async def ends(scheduler: CatalogProcess) -> dict[int, int]:
    places = [TopicPartition(SIGNALS, partition) for partition in range(SHARDS)]
    return {place.partition: end for place, end in (await scheduler.broker.ends(places)).items()}


async def by_key(scheduler: CatalogProcess) -> dict[str, list[str]]:
    """The values of each key in the log's order."""
    found: dict[str, list[str]] = {key: [] for key in KEYS}
    for partition in range(SHARDS):
        async for record in records(scheduler.broker, TopicPartition(SIGNALS, partition)):
            assert record.key is not None
            assert record.value is not None
            assert home(record.key, SHARDS) == partition
            found[record.key.decode()].append(record.value.decode())
    return found


@pytest.mark.torture
async def test_relays_killed_in_the_middle_of_their_work_lose_and_double_nothing(
    scheduler: CatalogProcess, database: str, processes: list[Process]
) -> None:
    for round_ in range(ROUNDS):
        before = await appended(scheduler)
        process = await start(processes, database)
        writing = asyncio.create_task(write(scheduler, round_))
        await grown(scheduler, before + 25 * round_)  # at another point of the work each time
        process.kill()
        await process.wait()
        await writing
    assert await scheduler.outbox.list_pending(limit=1), "every relay was done before it was killed: nothing was tested"
    await start(processes, database)
    await scheduler.relayed()

    expected = [f"{round_}.{number:03}" for round_ in range(ROUNDS) for number in range(ROWS)]
    assert await by_key(scheduler) == dict.fromkeys(KEYS, expected)


@pytest.mark.torture
async def test_a_relay_that_was_stopped_and_goes_on_beside_its_successor_doubles_nothing(
    scheduler: CatalogProcess, database: str, processes: list[Process]
) -> None:
    former = await start(processes, database)
    for round_ in range(ROUNDS // 2):
        writing = asyncio.create_task(write(scheduler, round_))
        await grown(scheduler, await appended(scheduler))
        former.send_signal(signal.SIGSTOP)
        present = await start(processes, database)
        await writing
        await scheduler.relayed()
        former.send_signal(signal.SIGCONT)
        former = present
    await scheduler.relayed()

    found = await by_key(scheduler)
    expected = [f"{round_}.{number:03}" for round_ in range(ROUNDS // 2) for number in range(ROWS)]
    assert [value for key in KEYS for value, times in Counter(found[key]).items() if times > 1] == []
    assert found == dict.fromkeys(KEYS, expected)
