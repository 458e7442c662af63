"""A turn: the chunks of one read, folded in memory and committed by one fenced transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any

import orjson

from streamsched.codec.json.scalar import loads
from streamsched.domain.errors import DecodeError
from streamsched.log.topics import PUBLIC, SIGNALS
from streamsched.ports.broker import Broker, Outgoing, TopicPartition

#: Where each source partition's next chunk starts.
Positions = dict[TopicPartition, int]

#: `Outgoing._make` without its Python frame: about three are made per event.
_outgoing: Callable[[Iterable[Any]], Outgoing] = partial(tuple.__new__, Outgoing)


class Turn:
    """All output of a shard in its turn: signals, launches, dead letters, and the changelogs of its tables."""

    def __init__(self) -> None:
        self._outgoing: list[Outgoing] = []

    def emit(self, topic: str, partition: int, key: bytes | None, value: bytes | None) -> None:
        """Adds a record to the turn's transaction. Within a partition, records keep the order of the calls."""
        self._outgoing.append(_outgoing((topic, partition, key, value)))

    def take(self) -> list[Outgoing]:
        """The records to commit, in order; afterwards there are none."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing


async def sources(broker: Broker, shard: int) -> Sequence[TopicPartition]:
    """The partitions a shard reads: its partition of `signals` first, then its public partitions."""
    shards = await broker.partitions(SIGNALS)
    public = [
        TopicPartition(topic, partition)
        for topic in PUBLIC
        for partition in range(shard, await broker.partitions(topic), shards)
    ]
    return [TopicPartition(SIGNALS, shard), *public]


def positions_to_json(positions: Mapping[TopicPartition, int]) -> Mapping[str, Mapping[str, int]]:
    """`{topic: {partition: position}}`."""
    by_topic: MutableMapping[str, dict[str, int]] = {}
    for (topic, partition), position in sorted(positions.items()):
        by_topic.setdefault(topic, {})[str(partition)] = position
    return by_topic


def positions_from_json(found: Any) -> Positions:
    """What `positions_to_json` made.

    Raises:
        DecodeError: the value is not that.
    """
    try:
        return {
            TopicPartition(topic, int(partition)): int(position)
            for topic, partitions in found.items()
            for partition, position in partitions.items()
        }
    except (ValueError, AttributeError, TypeError) as exc:
        raise DecodeError("$", f"not the positions of a shard: {str(found)[:80]!r}") from exc


def encode_positions(positions: Mapping[TopicPartition, int]) -> bytes:
    """Positions as JSON (`positions_to_json`)."""
    return orjson.dumps(positions_to_json(positions))


def decode_positions(raw: bytes) -> Positions:
    """The positions `encode_positions` wrote.

    Raises:
        DecodeError: the bytes are not such a document.
    """
    return positions_from_json(loads(raw))
