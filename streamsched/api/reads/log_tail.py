"""The newest records of partitions of the log: a bounded read from each end backwards."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Final, NamedTuple

from streamsched.domain.errors import InvalidError, NotFoundError, UnavailableError
from streamsched.ports.broker import Broker, Record, TopicPartition

#: Seconds without a record, before the end, after which the log counts as unavailable.
_STALLED_S: Final = 5.0
_BATCH: Final = 10_000
#: Bytes of records that one search keeps: a record may have megabytes.
_MOST_BYTES: Final = 4 << 20
#: Searches that run at a time.
_AT_ONCE: Final = 2


class TailRecord(NamedTuple):
    """A record and where it is."""

    at: TopicPartition
    record: Record

    @property
    def name(self) -> str:
        """`topic/partition/offset`."""
        return f"{self.at.topic}/{self.at.partition}/{self.record.offset}"

    @property
    def appended(self) -> datetime:
        """When the log appended it, UTC."""
        return self.record.at


class LogTail(NamedTuple):
    """Records, newest first. `searched`: how many were read; `whole`: there are no older ones in these partitions."""

    records: tuple[TailRecord, ...]
    searched: int
    whole: bool


class _Newest:
    """The newest records of a partition, and their bytes."""

    def __init__(self) -> None:
        self.records = deque[Record]()
        self.bytes = 0

    def add(self, records: Sequence[Record], most: int | None) -> None:
        """Keeps `records` too, and of all the last `most`."""
        self.records.extend(records)
        self.bytes += sum(map(_size, records))
        while most is not None and len(self.records) > most:
            self.drop_oldest()

    def drop_oldest(self) -> None:
        """Keeps all but the oldest."""
        self.bytes -= _size(self.records.popleft())


class LogSearch:
    """Searches of the newest records of a log. Few run at a time, the others wait: each holds what one read of the log
    returns, which may be 16 MB.
    """

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._running = asyncio.Semaphore(_AT_ONCE)

    async def tail(
        self,
        partitions: Sequence[TopicPartition],
        *,
        depth: int,
        wanted: Callable[[Record], bool] | None = None,
        most: int | None = None,
        most_bytes: int = _MOST_BYTES,
    ) -> LogTail:
        """The records of the last `depth` offsets of each partition that are `wanted`, which runs in a thread; the last
        `most` of each partition, and of the partition with the most bytes only the newest while all have more than
        `most_bytes`. Others are not kept: a deep search holds a chunk and what it found.

        Raises:
            NotFoundError: no such topic or partition.
            UnavailableError: the log is unavailable, or returns no records before an end.
        """
        async with self._running:
            return await self._search(partitions, depth, wanted, most, most_bytes)

    async def _search(
        self,
        partitions: Sequence[TopicPartition],
        depth: int,
        wanted: Callable[[Record], bool] | None,
        most: int | None,
        most_bytes: int,
    ) -> LogTail:
        ends = await self.broker.ends(partitions)
        starts = {at: max(0, end - depth) for at, end in ends.items()}
        left = {at: end for at, end in ends.items() if end > starts[at]}
        whole = all(start == 0 for start in starts.values())
        if not left:
            return LogTail((), 0, whole)
        found = {at: _Newest() for at in left}
        searched = 0
        reader = await self.broker.reader({at: starts[at] for at in left})
        try:
            while left:
                chunks = await reader.read(max_records=_BATCH, timeout=_STALLED_S)
                if not chunks:
                    raise UnavailableError(f"the log has no records before the ends of {sorted(left)[0].topic}")
                for chunk in chunks:
                    at = TopicPartition(chunk.topic, chunk.partition)
                    if at not in left:
                        continue
                    end, records = left[at], chunk.records
                    if records and records[-1].offset >= end:
                        records = [record for record in records if record.offset < end]
                    searched += len(records)
                    if wanted is not None:
                        records = await asyncio.to_thread(list, filter(wanted, records))
                    found[at].add(records, most)
                    while sum(each.bytes for each in found.values()) > most_bytes:
                        whole = False
                        max(found.values(), key=attrgetter("bytes")).drop_oldest()
                    if chunk.next_position >= end:
                        del left[at]
        finally:
            await reader.close()
        kept = [TailRecord(at, record) for at, newest in found.items() for record in newest.records]
        kept.sort(key=lambda each: (each.record.time_ms, each.at, each.record.offset), reverse=True)
        return LogTail(tuple(kept), searched, whole)


async def log_record(broker: Broker, name: str, topics: Sequence[str]) -> TailRecord:
    """The record at `topic/partition/offset` of one of these topics.

    Raises:
        InvalidError: the name is malformed, or of another topic.
        NotFoundError: there is no such record, or retention deleted it.
        UnavailableError: the log is unavailable.
    """
    topic, _, place = name.partition("/")
    number, _, offset = place.partition("/")
    if topic not in topics or not (number + offset).isdecimal() or not (number and offset) or len(place) > 40:
        raise InvalidError("$.at", f"'{name[:200]}' is not a position topic/partition/offset of {', '.join(topics)}")
    at, wanted = TopicPartition(topic, int(number)), int(offset)
    if at.partition >= await broker.partitions(topic) or wanted >= (await broker.ends([at]))[at]:
        raise NotFoundError("record", name)
    reader = await broker.reader({at: wanted})
    try:
        for chunk in await reader.read(max_records=1, timeout=_STALLED_S):
            for record in chunk.records:
                if record.offset == wanted:
                    return TailRecord(at, record)
    finally:
        await reader.close()
    raise NotFoundError("record", name)


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")
