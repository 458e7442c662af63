"""How much a topic of a log has grown between two measurements, although retention deletes its beginning.

A partition has the records `start` to `end` (exclusive) and `size` bytes. Records that were appended: the difference of
the ends. Bytes that were appended, between a measurement and the next one of the same copy:

- the difference of the sizes, when the start is the same and the size has not fallen: nothing was deleted. Exact.
- otherwise the appended records times the mean size of a record, at least the difference of the sizes of one copy. An
  estimate; exact when all records have the same size. The mean is that of what was there first and of exact steps.

So growth is never negative, nothing that was deleted is taken off, and exact steps add up: whatever the number of
checks between two measurements, their sum is the same. Numbers of records count what the log counts: the markers of
transactions and the records of aborted ones too. What compaction removes is not taken off either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: The mean is of about so many of the latest records: above it, both sums are halved.
SAMPLE: Final = 1_000_000
#: `copy` of a partition that was not measured yet.
NO_COPY: Final = -1


@dataclass(frozen=True, slots=True)
class PartitionSize:
    """One measurement of a partition.

    Attributes:
        copy: the broker whose copy was measured, the leader's; sizes of two copies may differ.
        start: offset of the first record that is kept.
        end: offset after the last record.
        size: bytes of that copy on disk, as compressed as they are stored.
    """

    copy: int
    start: int
    end: int
    size: int


@dataclass(frozen=True, slots=True)
class TopicSize:
    """One measurement of a topic.

    Attributes:
        id: a topic that was deleted and created again has another one.
        partitions: number → its measurement.
        away: numbers of the partitions that cannot be measured now.
    """

    id: str
    partitions: Mapping[int, PartitionSize]
    away: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CountedPartition:
    """What has been counted of a partition: its last measurement, and bytes and records that make the mean."""

    last: PartitionSize
    sample_bytes: int = 0
    sample_records: int = 0


NOTHING: Final = CountedPartition(PartitionSize(NO_COPY, 0, 0, 0))


@dataclass(frozen=True, slots=True)
class CountedTopic:
    """What has been counted of a topic, by the number of the partition."""

    id: str
    partitions: Mapping[int, CountedPartition]


@dataclass(frozen=True, slots=True)
class Growth:
    """What was appended since the measurement before.

    Attributes:
        bytes: of one copy.
        estimated: those of `bytes` that were computed from a mean.
        added: partitions that were not there before.
        recreated: whether the topic is another one of the same name.
    """

    bytes: int = 0
    records: int = 0
    estimated: int = 0
    added: tuple[int, ...] = ()
    recreated: bool = False


def begin_count(now: TopicSize, *, at_end: bool) -> CountedTopic:
    """Counts from now on: what the topic holds already is counted (`at_end`), or is growth of the next step."""
    if at_end:
        counted = {
            number: CountedPartition(each, *_add_sample(NOTHING, each.size, each.end - each.start))
            for number, each in now.partitions.items()
        }
        return CountedTopic(now.id, counted)
    empty = {
        number: CountedPartition(PartitionSize(each.copy, each.start, each.start, 0))
        for number, each in now.partitions.items()
    }
    return CountedTopic(now.id, empty)


def measure_growth(had: CountedTopic, now: TopicSize) -> tuple[Growth, CountedTopic]:
    """The growth from what was counted to this measurement, and what is counted then.

    A partition that is away stays as it was counted, so its growth is in a later step. All that was ever appended to a
    partition which was added, and to all partitions of a topic that was created again, is growth.
    """
    recreated = now.id != had.id
    known = {} if recreated else dict(had.partitions)
    size = records = estimated = 0
    added: list[int] = []
    for number, measured in sorted(now.partitions.items()):
        before = known.get(number)
        if before is None:
            before = NOTHING
            added.append(number)
        step, exact, known[number] = _step(before, measured)
        size += step
        estimated += 0 if exact else step
        records += max(0, measured.end - before.last.end)
    growth = Growth(size, records, estimated, () if recreated else tuple(added), recreated)
    return growth, CountedTopic(now.id, known)


def _step(had: CountedPartition, now: PartitionSize) -> tuple[int, bool, CountedPartition]:
    """The bytes appended to a partition, whether they are exact, and what is counted then."""
    last = had.last
    records = max(0, now.end - last.end)
    same = last.copy in (now.copy, NO_COPY)
    more = now.size - last.size
    if same and now.start == last.start and more >= 0:
        return more, True, CountedPartition(now, *_add_sample(had, more, records))
    many, of = had.sample_bytes, had.sample_records
    if not of and now.end > now.start:  # added, and deleted from, since the last measurement
        many, of = now.size, now.end - now.start
    guess = 0 if of == 0 else records * many // of
    return max(guess, more if same else 0), False, CountedPartition(now, many, of)


def _add_sample(had: CountedPartition, size: int, records: int) -> tuple[int, int]:
    """The bytes and records that make the mean, with more of them; halved so that the mean stays what it is."""
    if not records:
        return had.sample_bytes, had.sample_records
    size, records = had.sample_bytes + size, had.sample_records + records
    if records <= SAMPLE:
        return size, records
    half = SAMPLE // 2
    return size * half // records, half
