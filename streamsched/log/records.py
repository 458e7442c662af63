"""Reads a partition of the log up to a fixed end. Reading fences no writer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from streamsched.domain.errors import UnavailableError
from streamsched.ports.broker import Broker, Record, TopicPartition

#: Seconds without a record, before the end, after which the log counts as unavailable.
_STALLED_S: Final = 10.0
_BATCH: Final = 10_000
#: `newest` first reads this many offsets before the end, then `_GROWTH` times as many, and so on.
_WINDOW: Final = 256
_GROWTH: Final = 64


async def records(
    broker: Broker, at: TopicPartition, *, start: int = 0, end: int | None = None
) -> AsyncIterator[Record]:
    """The records of a partition from `start` up to, not including, `end`; None: the end of the partition now.

    Raises:
        NotFoundError: no such topic or partition.
        UnavailableError: the broker is unavailable, or returns no records before `end`.
    """
    if end is None:
        end = (await broker.ends([at]))[at]
    reader = await broker.reader({at: start})
    try:
        position = start
        while position < end:
            chunks = await reader.read(max_records=_BATCH, timeout=_STALLED_S)
            if not chunks:
                raise UnavailableError(f"{at.topic}/{at.partition} stops at {position}, before its end {end}")
            for chunk in chunks:
                position = chunk.next_position
                for record in chunk.records:
                    if record.offset < end:
                        yield record
    finally:
        await reader.close()


async def newest(broker: Broker, at: TopicPartition, key: bytes) -> bytes | None:
    """The value of the newest record of a key whose value is not None; None when there is none.

    Searches backwards from the end in growing windows: a compacted partition is short, but compaction may be late.

    Raises:
        NotFoundError, UnavailableError: as `records`.
    """
    end = (await broker.ends([at]))[at]
    window = _WINDOW
    while True:
        start = max(0, end - window)
        found: bytes | None = None
        async for record in records(broker, at, start=start, end=end):
            if record.key == key and record.value is not None:
                found = record.value
        if found is not None or start == 0:
            return found
        window *= _GROWTH
