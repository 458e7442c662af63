"""Splits rows into commits that fit the transaction limits of every log driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from streamsched.ports.broker import Outgoing


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Limits of one commit; a larger record is committed alone."""

    records: int
    bytes: int

    def fit(self, rows: Sequence[Outgoing]) -> bool:
        """Whether the rows fit into one commit."""
        return self.allow(len(rows), _size(rows))

    def allow(self, records: int, size: int) -> bool:
        """Whether this many records of this total size in bytes fit into one commit."""
        return records <= self.records and size <= self.bytes


#: Half of what Kafka accepts within its shortest transaction timeout.
LIMITS: Final = BatchLimits(1000, 8 << 20)


def batches(groups: Iterable[Sequence[Outgoing]], limits: BatchLimits = LIMITS) -> Iterator[list[Outgoing]]:
    """The rows in order, one list per commit. A group is not split if it fits into one commit."""
    batch: list[Outgoing] = []
    size = 0
    for group in groups:
        for rows in (group,) if limits.fit(group) else ([row] for row in group):
            added = _size(rows)
            if batch and not limits.allow(len(batch) + len(rows), size + added):
                yield batch
                batch, size = [], 0
            batch.extend(rows)
            size += added
    if batch:
        yield batch


def _size(rows: Sequence[Outgoing]) -> int:
    return sum(len(row.key or b"") + len(row.value or b"") for row in rows)
