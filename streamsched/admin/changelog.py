"""Shards' tables as their changelogs have them: what a shard would read back if it were taken over now.

Reading fences nobody and disturbs nobody. A shard that runs goes on meanwhile, so tables of different topics are read
at slightly different moments.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamsched.ports.broker import Broker, TopicPartition
from streamsched.ports.records import newest, records
from streamsched.ports.topics import POSITION_KEY, RESERVED, TRIGGERS_CHANGELOG
from streamsched.stream.turn import Positions, decode_positions, sources


async def table(broker: Broker, topic: str, shard: int) -> dict[bytes, bytes]:
    """The table of a shard, without what the shard keeps of itself.

    Raises:
        NotFoundError, UnavailableError: as `records`.
    """
    entries: dict[bytes, bytes] = {}
    async for record in records(broker, TopicPartition(topic, shard)):
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
    found = await newest(broker, TopicPartition(TRIGGERS_CHANGELOG, shard), POSITION_KEY)
    return {} if found is None else decode_positions(found)


async def starts(broker: Broker, shard: int) -> Positions:
    """As `positions`, of every source: one that nothing was ever taken from starts at its beginning.

    Raises:
        NotFoundError, UnavailableError: as `records`.
    """
    return dict.fromkeys(await sources(broker, shard), 0) | await positions(broker, shard)


async def lags(broker: Broker, shards: int) -> Mapping[int, Mapping[TopicPartition, int]]:
    """How many records (by offsets) each shard has not taken yet, for each source."""
    found: dict[int, dict[TopicPartition, int]] = {}
    for shard in range(shards):
        reached = await starts(broker, shard)
        ends = await broker.ends(list(reached))
        found[shard] = {source: max(0, ends[source] - at) for source, at in reached.items()}
    return found
