"""What a partition of the log holds up to its end, whoever appends meanwhile. Reading fences nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from streamsched.domain.errors import UnavailableError
from streamsched.ports.broker import Broker, Record, TopicPartition

#: Seconds without a record before the log is said to stand still.
_STANDS_STILL: Final = 10.0
_BATCH: Final = 10_000
#: How far back from the end the newest record is looked for first, and how much farther each time it was not there.
_REACH: Final = 256
_FARTHER: Final = 64


async def records(
    broker: Broker, at: TopicPartition, *, start: int = 0, end: int | None = None
) -> AsyncIterator[Record]:
    """The records of a partition from `start` up to `end`, an end that was asked for before; None: as it is now.

    Raises:
        NotFoundError: no such topic or partition.
        UnavailableError: the broker is away, or the partition stops before that end.
    """
    if end is None:
        end = (await broker.ends([at]))[at]
    reader = await broker.reader({at: start})
    try:
        position = start
        while position < end:
            chunks = await reader.read(max_records=_BATCH, timeout=_STANDS_STILL)
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
    """The value of the newest record of a key that has one; None when there is none.

    It is looked for back from the end, ever farther: compaction leaves few records there, but may not have run for
    long.

    Raises:
        NotFoundError, UnavailableError: as `records`.
    """
    end = (await broker.ends([at]))[at]
    reach = _REACH
    while True:
        start = max(0, end - reach)
        found: bytes | None = None
        async for record in records(broker, at, start=start, end=end):
            if record.key == key and record.value is not None:
                found = record.value
        if found is not None or start == 0:
            return found
        reach *= _FARTHER
