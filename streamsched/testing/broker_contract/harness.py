"""The log under test, opened as often as a test needs, and a reader that checks every chunk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from uuid import uuid4

import pytest
import pytest_asyncio

from streamsched.ports.broker import Broker, Chunk, Cleanup, Outgoing, Reader, Record, TopicPartition, TopicSpec, Writer

OpenBroker = Callable[[], Awaitable[Broker]]

#: The timeout of every wait in the suite.
PATIENCE_SECONDS = 30.0

#: By how many records one read may exceed `max_records`: the rest of one stored batch.
BATCH_RECORDS = 1000


class Harness:
    """Provides the fixture `log`."""

    pytestmark = pytest.mark.asyncio

    @pytest_asyncio.fixture
    async def log(self, broker: OpenBroker) -> AsyncIterator[Log]:
        """The log with a first broker; after the test, all its brokers are closed."""
        log = Log(broker, await broker())
        try:
            yield log
        finally:
            await log.close()


class Log:
    """One log, opened by any number of brokers; `broker` is the first."""

    def __init__(self, opens: OpenBroker, broker: Broker) -> None:
        self._opens = opens
        self._opened = [broker]

    @property
    def broker(self) -> Broker:
        return self._opened[0]

    def needs(self, capability: str) -> None:
        """Skips the test when the driver's capabilities deny this one."""
        if not getattr(self.broker.capabilities, capability):
            pytest.skip(f"the driver declares that it is not {capability}")

    async def another(self) -> Broker:
        """Another broker on the same log, as of another process."""
        self._opened.append(await self._opens())
        return self._opened[-1]

    async def reopen(self) -> None:
        """Closes all brokers and opens the log again."""
        await self.close()
        self._opened = [await self._opens()]

    async def close(self) -> None:
        for broker in self._opened:
            await broker.close()
        self._opened = []

    async def topic(
        self, partitions: int = 1, cleanup: Cleanup = Cleanup.DELETE, retention: timedelta | None = None
    ) -> list[TopicPartition]:
        """The partitions of a fresh topic."""
        name = fresh_name("topic")
        await self.broker.create_topics([TopicSpec(name, partitions, cleanup, retention)])
        return [TopicPartition(name, number) for number in range(partitions)]

    async def writer(self, name: str = "", broker: Broker | None = None) -> Writer:
        """Opens a writer, by default of a fresh name."""
        return await (broker or self.broker).writer(name or fresh_name("writer"))

    async def tail(self, *partitions: TopicPartition, position: int = 0, broker: Broker | None = None) -> Tail:
        """A checked reader of the partitions, all from `position`."""
        positions = dict.fromkeys(partitions, position)
        return Tail(await (broker or self.broker).reader(positions), positions)

    async def end(self, partition: TopicPartition, broker: Broker | None = None) -> int:
        """The end of one partition, as `Broker.ends` says it."""
        return (await (broker or self.broker).ends([partition]))[partition]

    async def all(self, partition: TopicPartition, *, position: int = 0, broker: Broker | None = None) -> list[Record]:
        """The records from `position` to the current end, read by a new reader."""
        end = await self.end(partition, broker)
        tail = await self.tail(partition, position=position, broker=broker)
        await tail.read_until(lambda: tail.positions[partition] >= end)
        await tail.reader.close()
        return tail.seen[partition]

    async def values(self, partition: TopicPartition, broker: Broker | None = None) -> list[bytes | None]:
        """The values of all records, in order."""
        return [record.value for record in await self.all(partition, broker=broker)]


class Tail:
    """A reader that keeps the records it read in `seen` and checks the invariants of every chunk."""

    def __init__(self, reader: Reader, positions: Mapping[TopicPartition, int]) -> None:
        self.reader = reader
        self.positions = dict(positions)
        self.seen: dict[TopicPartition, list[Record]] = {at: [] for at in positions}

    async def read(self, *, max_records: int = 1000, timeout: float = PATIENCE_SECONDS) -> int:
        """Reads and checks once; returns the number of records."""
        chunks = await self.reader.read(max_records=max_records, timeout=timeout)
        self._check(chunks, max_records)
        for chunk in chunks:
            at = TopicPartition(chunk.topic, chunk.partition)
            self.seen[at].extend(chunk.records)
            self.positions[at] = chunk.next_position
        return sum(len(chunk.records) for chunk in chunks)

    async def catch_up(self, at: TopicPartition, *, max_records: int) -> bool:
        """As `Reader.catch_up`: whether nothing is missing."""
        found = await self.reader.catch_up(at, max_records=max_records, timeout=PATIENCE_SECONDS)
        for chunk in found.chunks:
            self._check([chunk], max_records)
            self.seen[at].extend(chunk.records)
            self.positions[at] = chunk.next_position
        return found.complete

    async def read_until(self, enough: Callable[[], bool], *, max_records: int = 1000) -> None:
        """Reads until `enough`, or fails after `PATIENCE_SECONDS`."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not enough():
                await self.read(max_records=max_records, timeout=1.0)

    def seek(self, partition: TopicPartition, position: int) -> None:
        """As `Reader.seek`; `seen` keeps what was read before."""
        self.reader.seek(partition, position)
        self.positions[partition] = position

    def _check(self, chunks: list[Chunk], max_records: int) -> None:
        partitions = [TopicPartition(chunk.topic, chunk.partition) for chunk in chunks]

        assert set(partitions) <= self.positions.keys(), "a chunk of a partition that was not requested"
        assert len(set(partitions)) == len(partitions), "two chunks of one partition"
        assert sum(len(chunk.records) for chunk in chunks) <= max_records + BATCH_RECORDS, "far more than max_records"
        for at, chunk in zip(partitions, chunks, strict=True):
            offsets = [record.offset for record in chunk.records]

            assert offsets == sorted(set(offsets)), f"{at}: offsets do not ascend"
            assert chunk.next_position > self.positions[at], f"{at}: a chunk that does not advance the position"
            assert all(self.positions[at] <= offset < chunk.next_position for offset in offsets), f"{at}: wrong offsets"


def fresh_name(kind: str) -> str:
    """A unique name."""
    return f"{kind}-{uuid4().hex[:12]}"


def make_records(at: TopicPartition, *values: bytes | None, key: bytes | None = None) -> list[Outgoing]:
    """Records for one partition, all with the same key."""
    return [Outgoing(at.topic, at.partition, key, value) for value in values]


def numbers(start: int, stop: int) -> list[bytes]:
    """The numbers as values."""
    return [b"%d" % number for number in range(start, stop)]


def newest_values(records: Iterable[Record]) -> dict[bytes | None, bytes]:
    """The table that a changelog describes: the newest value of each key, without tombstones."""
    table = {record.key: record.value for record in records}
    return {key: value for key, value in table.items() if value is not None}
