"""The log: topics of partitions of records, read in chunks, written plainly or by a fenced transactional writer.

Cut so that Kafka, PostgreSQL and a dictionary fit alike. What a driver must hold is tested by
`streamsched.testing.broker_contract`; what it cannot do it declares in `Capabilities`.

Words: an *offset* numbers the records of one partition, growing, not necessarily dense (compaction and transaction
markers leave holes). A *position* is the offset where the next read starts. The *end* is the position after the last
visible record. Times are milliseconds since the epoch, UTC, stamped by the log when the record is appended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple, Protocol


class Cleanup(StrEnum):
    """What a topic forgets: records older than its retention, or all but the newest record of each key."""

    DELETE = "delete"
    COMPACT = "compact"


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """The shape of a topic. `retention` None keeps everything. A compacted topic has none; its records have keys."""

    name: str
    partitions: int
    cleanup: Cleanup = Cleanup.DELETE
    retention: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a driver promises beyond plain order within a partition.

    Attributes:
        fenced: a writer that lost its name to a newer one can make nothing visible any more.
        transactional: what one `commit` carries becomes visible whole or not at all. Perhaps partition after partition:
            Kafka marks each in turn, so who meets a part of it may have to look again for the rest, which is certain
            and comes before whatever is appended from then on. Once a newer writer of its name is open, all of it is
            visible or never will be.
        durable: what was acknowledged survives the death of every process.
        compaction: `Cleanup.COMPACT` is honoured.
        shared: several processes may use the same log.
        largest_record: most bytes of key and value of one record; None when nobody need mind.
    """

    fenced: bool
    transactional: bool
    durable: bool
    compaction: bool
    shared: bool
    largest_record: int | None = None


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class Outgoing(NamedTuple):
    """A record to append. A `value` of None is a tombstone in a compacted topic."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None


class Record(NamedTuple):
    """A record as read."""

    offset: int
    key: bytes | None
    value: bytes | None
    time_ms: int


class Chunk(NamedTuple):
    """Consecutive records of one partition, and the position after them (≥ last offset + 1).

    Without records it says that only holes (markers, cleaned away records) stood before `next_position`.
    """

    topic: str
    partition: int
    records: Sequence[Record]
    next_position: int


class Reader(Protocol):
    """Reads some partitions from explicit positions; it belongs to one task at a time. It commits nothing anywhere."""

    async def read(self, *, max_records: int, timeout: float) -> list[Chunk]:
        """The next records of all partitions that have some, at most about `max_records` in all (a driver may return
        the whole of a stored batch, up to 1,000 records more), offsets ascending within each chunk, one chunk per
        partition; advances the positions past what it returns.

        Waits up to `timeout` seconds when nothing is there; then, and only then, returns an empty list; 0 looks once.
        Only committed records are ever returned, and never one before an earlier offset of its partition. A partition
        with a long backlog never starves the others of the same reader. Who reads on gets to any end asked for
        before, whatever was cleaned away meanwhile. A read that is cancelled moves no position.

        Raises:
            UnavailableError: the broker cannot be reached; positions are unchanged.
        """
        ...

    def seek(self, partition: TopicPartition, position: int) -> None:
        """The next `read` starts there for this partition, one of the reader's own."""
        ...

    async def close(self) -> None: ...


class Writer(Protocol):
    """The one transactional writer of its name. Not safe for concurrent calls."""

    async def commit(self, records: Sequence[Outgoing]) -> None:
        """Appends all records, in order within each partition, atomically and durably; visible when it returns (on a
        log whose readers stop before an unfinished transaction: when it returns, or at the latest with the end of those
        that other writers had begun in the same partitions).

        A commit of nothing does nothing, and need not notice a fence.

        After any exception the outcome is unknown and the writer must be closed, never used again: open a new one
        (which fences this one) and start over from the log.

        Raises:
            FencedError: a newer writer of this name was opened; from then on nothing of this call becomes visible.
            NotFoundError: no such topic or partition; nothing of this call is or will become visible.
            TooLargeError: a record is larger than the log takes; nothing of this call is or will become visible.
            UnavailableError: the broker did not answer, or not with an answer: it may while a newer writer is opened.
        """
        ...

    async def close(self) -> None: ...


class Broker(Protocol):
    """A log. Made by the factory `open_broker(url, **options)` its entry point (group `streamsched.brokers`) names."""

    @property
    def capabilities(self) -> Capabilities: ...

    async def create_topics(self, specs: Sequence[TopicSpec]) -> None:
        """Creates what is missing and takes over another retention; idempotent, safe when several processes call it
        together.

        Raises:
            ConfigurationError: a topic exists in another shape (partitions or cleanup); its message names both.
        """
        ...

    async def append(self, records: Sequence[Outgoing]) -> None:
        """Appends plainly: durable when it returns, in order within each partition. A failure may have appended any
        prefix; the caller retries and the events' ids are recognised downstream.

        Raises:
            NotFoundError: no such topic or partition.
            TooLargeError: a record is larger than the log takes; nothing was appended.
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
        """A reader of these partitions from these positions; one before the oldest kept record reads from that one.

        Raises:
            NotFoundError: no such topic or partition.
            UnavailableError: the broker did not answer.
        """
        ...

    async def writer(self, name: str) -> Writer:
        """Opens the writer of this name and fences every older one: after this returns, nothing an older writer
        commits becomes visible, and what it committed before is visible to readers.

        Raises:
            UnavailableError: the broker did not answer.
        """
        ...

    async def report(self, name: str, positions: Mapping[TopicPartition, int]) -> None:
        """Shows the log's own tools how far a reader called `name` has come, where they have a place for that. A
        courtesy: nobody reads it back, it may be dropped, and it raises nothing.
        """
        ...

    async def maintain(self) -> None:
        """One pass of cleaning: compaction and retention. Idempotent, may run in several processes.

        Of a compacted topic the newest record of each key stays, in order and at its offset. A tombstone stays until
        everyone who may have read what it covers has had time to come by.

        Raises:
            UnavailableError: the broker did not answer.
        """
        ...

    async def close(self) -> None: ...
