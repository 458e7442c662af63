"""Converts records to the arrays of one append, and stored batches to records. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, cast

from streamsched.domain.errors import NotFoundError
from streamsched.ports.broker import Outgoing, Record

#: The limits of one stored batch. Reads return whole batches, so they may exceed `max_records` by one batch.
BATCH_RECORDS = 1000
BATCH_BYTES = 1 << 20

#: `Record._make` without its Python frame, which took half the time of reading.
_record: Callable[[Iterable[Any]], Record] = partial(tuple.__new__, Record)


class Topic(NamedTuple):
    """The id of a topic, and its number of partitions."""

    topic_id: int
    partitions: int


class Append(NamedTuple):
    """The first arguments of `append_v1`: batch i is for topics[i], partitions[i] and has counts[i] of the keys and
    values.
    """

    topics: Sequence[int]
    partitions: Sequence[int]
    counts: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]


def append(records: Sequence[Outgoing], topics: Mapping[str, Topic]) -> Append:
    """The records as batches, ordered by topic and partition, in which order locks are taken; within a partition the
    order of `records` is kept.

    Raises:
        NotFoundError: a record names no topic or partition of `topics`.
    """
    groups: dict[tuple[str, int], tuple[list[bytes | None], list[bytes | None]]] = {}
    for topic, partition, key, value in records:
        group = groups.get((topic, partition))
        if group is None:
            group = groups[topic, partition] = ([], [])
        group[0].append(key)
        group[1].append(value)
    flat = Append([], [], [], [], [])
    for (topic_id, partition), (keys, values) in sorted(
        ((locate(topic, partition, topics), group) for (topic, partition), group in groups.items()),
        key=lambda located: located[0],
    ):
        whole = len(keys) <= BATCH_RECORDS and _size(keys) + _size(values) <= BATCH_BYTES  # nearly always
        counts = [len(keys)] if whole else list(split(keys, values))
        cast(list[int], flat.topics).extend(repeat(topic_id, len(counts)))
        cast(list[int], flat.partitions).extend(repeat(partition, len(counts)))
        cast(list[int], flat.counts).extend(counts)
        cast(list[bytes | None], flat.keys).extend(keys)
        cast(list[bytes | None], flat.values).extend(values)
    return flat


def locate(topic: str, partition: int, topics: Mapping[str, Topic]) -> tuple[int, int]:
    """The id of the topic, and the partition.

    Raises:
        NotFoundError: no such topic or partition.
    """
    known = topics.get(topic)
    if known is None:
        raise NotFoundError("topic", topic)
    if not 0 <= partition < known.partitions:
        raise NotFoundError("partition", f"{topic}/{partition}")
    return known.topic_id, partition


def _size(items: Sequence[bytes | None]) -> int:
    return sum(map(len, filter(None, items)))


def split(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Iterable[int]:
    """The number of records of each batch."""
    count = size = 0
    for key, value in zip(keys, values, strict=True):
        grown = size + len(key or b"") + len(value or b"")
        if count == BATCH_RECORDS or (count and grown > BATCH_BYTES):
            yield count
            count, grown = 0, grown - size
        count, size = count + 1, grown
    if count:
        yield count


def records(row: Mapping[str, Any], position: int) -> list[Record]:
    """The records of a stored batch whose offsets are at least `position`."""
    keys, first, times = row["keys"], row["first_offset"], row["times"]
    offsets = row["offsets"] or range(first, first + len(keys))
    columns = zip(offsets, keys, row["values"], times or repeat(row["time_ms"]), repeat(None), strict=False)
    out = list(map(_record, columns))
    if first < position:
        return [record for record in out if record.offset >= position]
    return out
