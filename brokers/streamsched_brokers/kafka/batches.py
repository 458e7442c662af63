"""Converts records to the batches of a producer, and fetched bytes to committed records. No I/O."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any, Final, NamedTuple, Protocol

from aiokafka.errors import CorruptRecordException
from aiokafka.record.memory_records import MemoryRecords

from streamsched.domain.errors import TooLargeError
from streamsched.ports.broker import Outgoing, Record, TopicPartition

#: The size at which a batch is closed; a larger record has its own batch.
BATCH_BYTES: Final = 1 << 20
#: The most bytes that a batch and a record add to key and value.
OVERHEAD: Final = 128
_MARKER: Final = struct.Struct(">hh")
_ABORTED: Final = 0
_TRACEPARENT: Final = "traceparent"

#: `Record._make` without its Python frame.
_record: Callable[[Iterable[Any]], Record] = partial(tuple.__new__, Record)


class RecordBatch(Protocol):
    """The part of aiokafka's `BatchBuilder` that is used."""

    def append(self, *, timestamp: int | None, key: bytes | None, value: bytes | None) -> object | None:
        """Adds a record; None when the batch is full. `timestamp`: milliseconds, None is now."""
        ...

    def record_count(self) -> int:
        """How many records were added."""
        ...


class Fetched(NamedTuple):
    """The result of a fetch from `start`: the committed records, and the position after the last fetched offset."""

    start: int
    records: Sequence[Record]
    next_position: int


def check_sizes(records: Sequence[Outgoing], limit: int, *, together: float = inf) -> None:
    """Checks that no record has more than `limit` bytes, and all of them not more than `together`.

    Raises:
        TooLargeError: a record exceeds `limit`, or all of them exceed `together`.
    """
    total = 0
    for topic, _, key, value in records:
        size = len(key or b"") + len(value or b"") + OVERHEAD
        total += size
        if size > limit:
            raise TooLargeError(topic, size, limit)
    if total > together:
        by_topic: Counter[str] = Counter()
        for topic, _, key, value in records:
            by_topic[topic] += len(key or b"") + len(value or b"")
        raise TooLargeError(max(by_topic, key=by_topic.__getitem__), total, int(together), together=True)


def fill_batches(
    records: Sequence[Outgoing], empty: Callable[[], RecordBatch]
) -> Mapping[TopicPartition, list[RecordBatch]]:
    """The records as batches by partition; order within a partition is kept."""
    batches: dict[TopicPartition, list[RecordBatch]] = {}
    for topic, partition, key, value in records:
        at = TopicPartition(topic, partition)
        mine = batches.get(at)
        if mine is None:
            mine = batches[at] = [empty()]
        if mine[-1].append(timestamp=None, key=key, value=value) is None:
            mine.append(empty())
            mine[-1].append(timestamp=None, key=key, value=value)
    return batches


def committed_records(raw: bytes, aborted: Iterable[tuple[int, int]], start: int) -> Fetched:
    """The records in fetched bytes from `start` on, without control records and without aborted transactions.

    Kafka returns the records of aborted transactions too, and `aborted`: (producer id, first offset) of each. From that
    offset up to its abort marker, the transactional records of that producer are dropped.

    Raises:
        CorruptRecordException: a batch's checksum is wrong.
    """
    waiting = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
    void: set[int] = set()
    found: list[Record] = []
    position = start
    batches = MemoryRecords(raw)
    while batches.has_next():
        batch: Any = batches.next_batch()
        assert batch is not None
        if not batch.validate_crc():
            raise CorruptRecordException(f"a batch at {batch.base_offset} has a wrong checksum")
        while waiting and waiting[-1][1] < batch.next_offset:
            void.add(waiting.pop()[0])
        if batch.is_control_batch:
            for marker in batch:
                if _MARKER.unpack_from(marker.key)[1] == _ABORTED:
                    void.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in void):
            found.extend(
                _record((record.offset, record.key, record.value, record.timestamp, _traceparent(record.headers)))
                for record in batch
                if record.offset >= start
            )
        position = max(position, batch.next_offset)
    return Fetched(start, found, position)


def _traceparent(headers: Sequence[tuple[str, bytes | None]]) -> bytes | None:
    """The header of W3C Trace Context; of several the last, as Kafka's clients choose it."""
    return next((value for name, value in reversed(headers) if name == _TRACEPARENT), None) if headers else None
