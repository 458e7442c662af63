"""The log in lists: the reference driver, complete and short; a template for new drivers.

A `MemoryLog` corresponds to the server, each `MemoryBroker` on it to a process. Every change of the log happens without
an await in between, so it is atomic on one event loop. Not thread-safe.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter

from streamsched.domain.errors import ConfigurationError, FencedError, NotFoundError
from streamsched.ports.broker import (
    NOTHING_UNREAD,
    Capabilities,
    CatchUpRead,
    Chunk,
    Cleanup,
    Outgoing,
    Record,
    TopicPartition,
    TopicSpec,
)
from streamsched.ports.clock import Clock, SystemClock

CAPABILITIES = Capabilities(fenced=True, transactional=True, durable=False, compaction=True, shared=False)


async def open_broker(url: str) -> MemoryBroker:
    """A new log per call with a `memory://` URL. To share one, pass a `MemoryLog` to several `MemoryBroker`s."""
    if not url.startswith("memory://"):
        raise ConfigurationError(f"not a memory:// URL: '{url}'")
    return MemoryBroker(MemoryLog())


@dataclass(slots=True)
class MemoryPartition:
    """Records with ascending offsets, and the end. An offset is never reused.

    Attributes:
        cleaned: by offset of a tombstone, the time (ms) of the pass that first removed everything it covers. Its grace
            starts then, so that a reader that has read a covered value still reads the tombstone.
    """

    records: list[Record] = field(default_factory=list)
    end: int = 0
    cleaned: dict[int, int] = field(default_factory=dict)

    def append(self, key: bytes | None, value: bytes | None, time_ms: int) -> None:
        """Adds a record at the end, with the next offset."""
        self.records.append(Record(self.end, key, value, time_ms))
        self.end += 1

    def after(self, position: int) -> int:
        """Index of the first record at or after `position`."""
        return bisect_left(self.records, position, key=attrgetter("offset"))

    # Neither of the next two methods removes the last record, so that a reader can reach the end.

    def expire(self, oldest: datetime, unread: int) -> None:
        """Removes the records appended up to `oldest`, before the position `unread`."""
        last, at = self.records[-1:], milliseconds(oldest)
        self.records = [r for r in self.records if r.time_ms > at or r.offset >= unread or r is last[0]]

    def compact(self, now: datetime, grace: timedelta) -> None:
        """Keeps the newest record of each key, in order, and removes tombstones after their grace."""
        newest = {record.key: record.offset for record in self.records}
        kept = [r for r in self.records if r.key is None or newest[r.key] == r.offset]
        at = milliseconds(now)
        self.cleaned = {r.offset: self.cleaned.get(r.offset, at) for r in kept if r.value is None}
        grace_end = milliseconds(now - grace)
        self.records = [r for r in kept if r is kept[-1] or self.cleaned.get(r.offset, at + 1) > grace_end]


class MemoryLog:
    """Topics, fences and time: the state that all brokers on one log share. Times are those of `clock`."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self.specs: dict[str, TopicSpec] = {}
        self.topics: dict[str, list[MemoryPartition]] = {}
        self.epochs: dict[str, int] = {}
        self.grown = asyncio.Event()

    def partition(self, topic: str, partition: int) -> MemoryPartition:
        """A partition of a topic.

        Raises:
            NotFoundError: no such topic or partition.
        """
        partitions = self.topics.get(topic)
        if partitions is None:
            raise NotFoundError("topic", topic)
        if not 0 <= partition < len(partitions):
            raise NotFoundError("partition", f"{topic}/{partition}")
        return partitions[partition]

    def append(self, records: Sequence[Outgoing]) -> None:
        """Appends all records, or none when one names an unknown partition."""
        time_ms = milliseconds(self.clock.now())
        targets = [self.partition(record.topic, record.partition) for record in records]
        for target, record in zip(targets, records, strict=True):
            target.append(record.key, record.value, time_ms)
        self.grown.set()
        self.grown = asyncio.Event()


class MemoryReader:
    """Reads from positions, which it keeps."""

    def __init__(self, log: MemoryLog, positions: Mapping[TopicPartition, int]) -> None:
        self._log = log
        self._positions = dict(positions)

    async def read(self, *, max_records: int, timeout: float) -> list[Chunk]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        await asyncio.sleep(0)
        while not (chunks := self._take(max_records)):
            try:
                async with asyncio.timeout_at(deadline):
                    await self._log.grown.wait()
            except TimeoutError:
                return self._take(max_records)
        return chunks

    def _take(self, max_records: int) -> list[Chunk]:
        ready = [(at, part) for at in self._positions if (part := self._log.partition(*at)).end > self._positions[at]]
        share = max(1, max_records // max(1, len(ready)))
        chunks: list[Chunk] = []
        for at, part in ready:
            start = part.after(self._positions[at])
            records = part.records[start : start + share]
            if not records:
                continue
            deleted = records[0].offset - self._positions[at]
            chunks.append(Chunk(at.topic, at.partition, records, records[-1].offset + 1, deleted))
            self._positions[at] = records[-1].offset + 1
        return chunks

    async def catch_up(self, partition: TopicPartition, *, max_records: int, timeout: float) -> CatchUpRead:
        await asyncio.sleep(0)
        part = self._log.partition(*partition)
        position = self._positions[partition]
        start = part.after(position)
        records = part.records[start : start + max_records]
        if not records:
            return CatchUpRead((), True)
        self._positions[partition] = to = records[-1].offset + 1
        chunk = Chunk(partition.topic, partition.partition, records, to, records[0].offset - position)
        return CatchUpRead((chunk,), to == part.end)

    def seek(self, partition: TopicPartition, position: int) -> None:
        self._positions[partition] = position

    async def close(self) -> None: ...


class MemoryWriter:
    """Commits as long as its epoch is the newest of its name."""

    def __init__(self, log: MemoryLog, name: str) -> None:
        self._log = log
        self._name = name
        self._epoch = log.epochs[name] = log.epochs.get(name, 0) + 1

    async def commit(self, records: Sequence[Outgoing]) -> None:
        await asyncio.sleep(0)
        if self._log.epochs[self._name] != self._epoch:
            raise FencedError(self._name)
        self._log.append(records)

    async def close(self) -> None: ...


class MemoryBroker:
    """One process's view of a `MemoryLog`."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    def keep_time(self, clock: Clock) -> None:
        """Does nothing: its log has a clock of its own."""

    async def create_topics(self, specs: Sequence[TopicSpec]) -> None:
        for spec in specs:
            there = self._log.specs.setdefault(spec.name, spec)
            if (there.partitions, there.cleanup) != (spec.partitions, spec.cleanup):
                raise ConfigurationError(
                    f"topic '{spec.name}' exists with {there.partitions} partitions, cleanup '{there.cleanup}';"
                    f" wanted {spec.partitions} partitions, cleanup '{spec.cleanup}'"
                )
            self._log.specs[spec.name] = spec
            self._log.topics.setdefault(spec.name, [MemoryPartition() for _ in range(spec.partitions)])

    async def append(self, records: Sequence[Outgoing]) -> None:
        await asyncio.sleep(0)
        self._log.append(records)

    async def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {at: self._log.partition(*at).end for at in partitions}

    async def partitions(self, topic: str) -> int:
        if topic not in self._log.topics:
            raise NotFoundError("topic", topic)
        return len(self._log.topics[topic])

    async def reader(self, positions: Mapping[TopicPartition, int]) -> MemoryReader:
        for at in positions:
            self._log.partition(*at)
        return MemoryReader(self._log, positions)

    async def writer(self, name: str) -> MemoryWriter:
        return MemoryWriter(self._log, name)

    async def report(self, name: str, positions: Mapping[TopicPartition, int]) -> None: ...

    async def maintain(self, unread: Mapping[TopicPartition, int] = NOTHING_UNREAD) -> None:
        now = self._log.clock.now()
        for name, spec in self._log.specs.items():
            for number, part in enumerate(self._log.topics[name]):
                if spec.cleanup is Cleanup.COMPACT:
                    part.compact(now, spec.tombstones)
                elif spec.retention is not None:
                    part.expire(now - spec.retention, unread.get(TopicPartition(name, number), part.end))

    async def close(self) -> None: ...


def milliseconds(moment: datetime) -> int:
    """Since the epoch, UTC."""
    return int(moment.timestamp() * 1000)
