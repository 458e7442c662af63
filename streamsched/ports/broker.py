"""The log: topics of partitions of records, read in chunks, written plainly or by a fenced transactional writer.

Kafka, PostgreSQL and a dictionary in memory implement it. `streamsched.testing.broker_contract` tests a driver; what it
cannot do it declares in `Capabilities`.

Terms: an *offset* numbers the records of one partition; it grows and may have gaps (compaction, transaction markers). A
*position* is the offset where the next read starts. The *end* is the position after the last visible record. Times are
milliseconds since the epoch, UTC, set by the log when the record is appended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from streamsched.ports.clock import Clock

#: The error for a log that a release before 0.1.0 made.
OLDER_LOG: Final = (
    "the log is older than release 0.1.0 and is left as it is: start with an empty log and an empty database; `dev`: "
    "in a new folder"
)


class Cleanup(StrEnum):
    """What a topic deletes: records older than its retention, or all but the newest record of each key."""

    DELETE = "delete"
    COMPACT = "compact"


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """The shape of a topic.

    Attributes:
        retention: None keeps everything. A compacted topic has none; its records have keys.
        tombstones: how long a compacted topic keeps a tombstone after the pass that removed what it deletes: longer
            than reading the topic from beginning to end takes.
    """

    name: str
    partitions: int
    cleanup: Cleanup = Cleanup.DELETE
    retention: timedelta | None = None
    tombstones: timedelta = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a driver guarantees beyond order within a partition.

    Attributes:
        fenced: after a newer writer of the same name is open, nothing of the older one becomes visible.
        transactional: the records of one `commit` become visible all or not at all. Partitions may follow one another:
            Kafka marks each in turn, so a reader of one partition may have to read another again; the rest comes before
            anything appended later. Once a newer writer of the name is open, all are visible or none ever is.
        durable: acknowledged records survive the death of every process.
        compaction: `Cleanup.COMPACT` is honoured.
        shared: several processes may use the same log.
        largest_record: most bytes of key and value of one record; None when there is no practical limit.
    """

    fenced: bool
    transactional: bool
    durable: bool
    compaction: bool
    shared: bool
    largest_record: int | None = None


class TopicPartition(NamedTuple):
    """A partition of a topic; they are numbered from 0."""

    topic: str
    partition: int


class Outgoing(NamedTuple):
    """A record to append. A `value` of None is a tombstone in a compacted topic."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: The last time of a record, in milliseconds.
LATEST_MS: Final = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)


def log_instant(time_ms: int) -> datetime:
    """The instant of a time of the log; of what is none, the first or last instant there is."""
    return _EPOCH + timedelta(milliseconds=max(0, min(time_ms, LATEST_MS)))


class Record(NamedTuple):
    """A record as read.

    Attributes:
        traceparent: header `traceparent` of the record, unchecked; None without one, and of a log without headers.
    """

    offset: int
    key: bytes | None
    value: bytes | None
    time_ms: int
    traceparent: bytes | None = None

    @property
    def at(self) -> datetime:
        """When the log appended it (UTC); of a record that is not stamped the first or last instant there is."""
        return log_instant(self.time_ms)

    @property
    def is_stamped(self) -> bool:
        """Whether its time is one: not before 1970, nor in microseconds, which is after the year 9999."""
        return 0 <= self.time_ms < LATEST_MS


class Chunk(NamedTuple):
    """Consecutive records of one partition, and the position after them (≥ last offset + 1).

    Without records there are only gaps (markers, deleted records) before `next_position`.

    Attributes:
        deleted: so many positions from that of the reader on are not in the log any more. Of a topic that is cleaned by
            age: their records were deleted before they were read.
    """

    topic: str
    partition: int
    records: Sequence[Record]
    next_position: int
    deleted: int = 0

    @property
    def at(self) -> TopicPartition:
        """The partition of the records."""
        return TopicPartition(self.topic, self.partition)

    def part(self, records: Sequence[Record]) -> Chunk:
        """Some consecutive records of this chunk, and the position after them; without records, that of the chunk."""
        last = not records or records[-1].offset == self.records[-1].offset
        return self._replace(records=records, next_position=self.next_position if last else records[-1].offset + 1)


class CatchUpRead(NamedTuple):
    """What `Reader.catch_up` has read: chunks of one partition in order, and whether nothing is missing."""

    chunks: Sequence[Chunk]
    complete: bool


class Reader(Protocol):
    """Reads partitions from explicit positions; belongs to one task at a time. It stores no positions."""

    async def read(self, *, max_records: int, timeout: float) -> list[Chunk]:
        """The next records of all partitions that have some, about `max_records` in all (a driver may return the whole
        of a stored batch, up to 1,000 records more), offsets ascending within each chunk, one chunk per partition;
        advances the positions past what it returns.

        Waits up to `timeout` seconds for a record, and returns an empty list only then; 0 does not wait. Only committed
        records are returned, in order of offset. A partition with a long backlog does not starve the others of the
        reader. Repeated reads reach any end returned before, even when records were deleted in between. A cancelled
        read moves no position.

        Raises:
            UnavailableError: the broker cannot be reached; positions are unchanged.
        """
        ...

    async def catch_up(self, partition: TopicPartition, *, max_records: int, timeout: float) -> CatchUpRead:
        """Reads one of its partitions on, about `max_records`, and advances its position past what it returns: until it
        has returned every record whose append was acknowledged before a record was appended that `read` has returned.
        What readers do not see yet because of an unfinished transaction before it counts too: for that it waits up to
        `timeout` seconds. A cancelled call moves no position.

        Raises:
            UnavailableError: the broker cannot be reached; positions are unchanged.
        """
        ...

    def seek(self, partition: TopicPartition, position: int) -> None:
        """The next `read` of this partition, one of the reader's, starts there."""
        ...

    async def close(self) -> None:
        """Ends its requests to the log. It must not be used again."""
        ...


class Writer(Protocol):
    """The only transactional writer of its name. Not safe for concurrent calls."""

    async def commit(self, records: Sequence[Outgoing]) -> None:
        """Appends all records, in order within each partition, atomically and durably. They are visible when it
        returns; on a log whose readers stop before an unfinished transaction, at the latest when the transactions that
        other writers began before in the same partitions have ended.

        An empty commit does nothing, and may not detect a fence.

        After any exception the outcome is unknown and the writer must be closed: open a new one, which fences this one,
        and start over from the log.

        Raises:
            FencedError: a newer writer of this name was opened; nothing of this call becomes visible.
            NotFoundError: no such topic or partition; nothing of this call becomes visible.
            TooLargeError: a record is larger than the log accepts; nothing of this call becomes visible.
            UnavailableError: no usable answer of the broker; possible while a newer writer is being opened.
        """
        ...

    async def close(self) -> None:
        """Aborts what a cancelled commit has left, so that it blocks no reader. It must not be used again; its fence
        stays.
        """
        ...


#: No reader is behind.
NOTHING_UNREAD: Final[Mapping[TopicPartition, int]] = MappingProxyType({})


class Broker(Protocol):
    """A log. Made by `open_broker(url, **options)`, an entry point of group `streamsched.brokers`."""

    @property
    def capabilities(self) -> Capabilities: ...

    def keep_time(self, clock: Clock) -> None:
        """From now on records that this object appends have the time of `clock` where that of the log itself differs by
        more than 5 s, and what is deleted by age is old by both. A log whose time its clients cannot say ignores it.
        """
        ...

    async def create_topics(self, specs: Sequence[TopicSpec]) -> None:
        """Creates missing topics and updates the retention of existing ones. Idempotent; several processes may call it
        at a time.

        Raises:
            ConfigurationError: a topic exists with other partitions or cleanup; the message names both.
        """
        ...

    async def append(self, records: Sequence[Outgoing]) -> None:
        """Appends without a transaction: durable when it returns, in order within each partition. A failure may have
        appended any prefix; the caller retries, and downstream deduplicates by event id.

        Raises:
            NotFoundError: no such topic or partition.
            TooLargeError: a record is larger than the log accepts; nothing was appended.
            UnavailableError: the broker did not answer.
        """
        ...

    async def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The end of each partition, at some moment during the call.

        Raises:
            NotFoundError: no such topic or partition.
            UnavailableError: the broker did not answer.
        """
        ...

    async def partitions(self, topic: str) -> int:
        """How many partitions the topic has.

        Raises:
            NotFoundError: no such topic.
        """
        ...

    async def reader(self, positions: Mapping[TopicPartition, int]) -> Reader:
        """A reader of these partitions from these positions; a position before the oldest record starts at that one.

        Raises:
            NotFoundError: no such topic or partition.
            UnavailableError: the broker did not answer.
        """
        ...

    async def writer(self, name: str) -> Writer:
        """Opens the writer of this name and fences every older one: when it returns, what older writers committed is
        visible, and nothing else of them ever becomes visible.

        Raises:
            UnavailableError: the broker did not answer.
        """
        ...

    async def report(self, name: str, positions: Mapping[TopicPartition, int]) -> None:
        """Shows the positions of reader `name` to the log's own tools (Kafka: a consumer group's offsets). Best effort:
        it may be dropped, is not read back, and raises nothing.
        """
        ...

    async def maintain(self, unread: Mapping[TopicPartition, int] = NOTHING_UNREAD) -> None:
        """One pass of compaction and retention. Idempotent; several processes may call it at a time. Records of these
        partitions at and after their position in `unread` are kept, however old; a log that cleans by itself, as Kafka
        does, deletes them all the same (`Chunk.deleted`).

        In a compacted topic the newest record of each key stays, in order and at its offset. A tombstone stays long
        enough for readers of the records it deletes to read it too.

        Raises:
            UnavailableError: the broker did not answer.
        """
        ...

    async def close(self) -> None:
        """Closes its connections. Its readers and writers must not be used again."""
        ...
