"""Shards' tables as their changelogs have them: what a shard would read back if it were taken over now.

Reading fences nobody and disturbs nobody. A shard that runs goes on meanwhile, so tables of different topics are read
at slightly different moments.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final

from streamsched.domain.errors import UnavailableError
from streamsched.ports.broker import Broker, Record, TopicPartition
from streamsched.ports.topics import POSITION_KEY, RESERVED, TRIGGERS_CHANGELOG
from streamsched.stream.turn import Positions, decode_positions

#: Seconds without a record before the log is said to stand still.
_STANDS_STILL: Final = 10.0
_BATCH: Final = 10_000
#: How far back from the end a position is looked for first, in records.
_REACH: Final = 256


async def records(broker: Broker, at: TopicPartition, start: int, end: int) -> AsyncIterator[Record]:
    """The records of a partition from `start` up to `end`, an end that was asked for before.

    Raises:
        NotFoundError: no such topic or partition.
        UnavailableError: the broker is away, or the partition stops before that end.
    """
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


async def table(broker: Broker, topic: str, shard: int) -> dict[bytes, bytes]:
    """The table of a shard, without what the shard keeps of itself.

    Raises:
        NotFoundError, UnavailableError: as `records`.
    """
    at = TopicPartition(topic, shard)
    end = (await broker.ends([at]))[at]
    entries: dict[bytes, bytes] = {}
    async for record in records(broker, at, 0, end):
        if record.key is None or record.key.startswith(RESERVED):
            continue
        if record.value is None:
            entries.pop(record.key, None)
        else:
            entries[record.key] = record.value
    return entries


async def positions(broker: Broker, shard: int) -> Positions:
    """Where the next turn of a shard starts, for each of its sources; empty when it never ended one.

    Raises:
        NotFoundError, UnavailableError: as `records`.
    """
    at = TopicPartition(TRIGGERS_CHANGELOG, shard)
    end = (await broker.ends([at]))[at]
    reach = _REACH
    while True:
        start = max(0, end - reach)
        found: Positions | None = None
        async for record in records(broker, at, start, end):
            if record.key == POSITION_KEY and record.value is not None:
                found = decode_positions(record.value)
        if found is not None or start == 0:
            return found or {}
        reach *= 64


async def lags(broker: Broker, shards: int) -> Mapping[int, Mapping[TopicPartition, int]]:
    """How many records (by offsets) each shard has not taken yet, for each source it has ever taken anything of."""
    found: dict[int, dict[TopicPartition, int]] = {}
    for shard in range(shards):
        reached = await positions(broker, shard)
        ends = await broker.ends(list(reached)) if reached else {}
        found[shard] = {source: max(0, ends[source] - at) for source, at in reached.items()}
    return found
