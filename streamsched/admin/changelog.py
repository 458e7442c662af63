"""Shards' tables, read from their changelogs: what a takeover of the shard would recover now.

Reading needs no fence. Running shards continue to write, so tables of different topics are read at slightly different
moments.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamsched.log.records import newest, records
from streamsched.log.topics import POSITION_KEY, RESERVED, TRIGGERS_CHANGELOG
from streamsched.ports.broker import Broker, TopicPartition
from streamsched.stream.turn import Positions, decode_positions, sources


async def table(broker: Broker, topic: str, shard: int) -> dict[bytes, bytes]:
    """The table of a shard, without the shard's reserved keys.

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
    """Where the next turn of a shard starts, for each source; empty before its first turn.

    Raises:
        NotFoundError, UnavailableError: as `records`.
    """
    found = await newest(broker, TopicPartition(TRIGGERS_CHANGELOG, shard), POSITION_KEY)
    return {} if found is None else decode_positions(found)


async def starts(broker: Broker, shard: int) -> Positions:
    """Like `positions`, but for every source; 0 for sources that were never read.

    Raises:
        NotFoundError, UnavailableError: as `records`.
    """
    return dict.fromkeys(await sources(broker, shard), 0) | await positions(broker, shard)


async def lags(broker: Broker, shards: int) -> Mapping[int, Mapping[TopicPartition, int]]:
    """How many records (by offsets) each shard has not processed yet, for each source."""
    found: dict[int, dict[TopicPartition, int]] = {}
    for shard in range(shards):
        start = await starts(broker, shard)
        ends = await broker.ends(list(start))
        found[shard] = {source: max(0, ends[source] - at) for source, at in start.items()}
    return found
