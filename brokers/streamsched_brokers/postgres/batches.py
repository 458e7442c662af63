"""Records to the flat arrays one append carries, and stored batches back to records. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, cast

from streamsched.domain.errors import NotFoundError
from streamsched.ports.broker import Outgoing, Record

#: What one stored batch holds at most: the grain of reading, and what a reader may get beyond `max_records`.
BATCH_RECORDS = 1000
BATCH_BYTES = 1 << 20

#: `Record._make` without its Python frame: half the time of reading went there.
_record: Callable[[Iterable[Any]], Record] = partial(tuple.__new__, Record)


class Topic(NamedTuple):
    """What the driver needs to know of a topic."""

    topic_id: int
    partitions: int


class Append(NamedTuple):
    """What `append_v1` takes: batch i goes to topics[i], partitions[i] and has counts[i] of the keys and values."""

    topics: Sequence[int]
    partitions: Sequence[int]
    counts: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]


def append(records: Sequence[Outgoing], topics: Mapping[str, Topic]) -> Append:
    """The records as batches, ordered by topic and partition (locks are taken in this order), and within a partition
    as they came.

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
    """Into how many records to cut each batch."""
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
    """The records of a stored batch from `position` on."""
    keys, first, times = row["keys"], row["first_offset"], row["times"]
    offsets = row["offsets"] or range(first, first + len(keys))
    out = list(map(_record, zip(offsets, keys, row["values"], times or repeat(row["time_ms"]), strict=False)))
    if first < position:
        return [record for record in out if record.offset >= position]
    return out
