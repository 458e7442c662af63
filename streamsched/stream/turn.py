"""A turn: what one fetch brought, folded in memory and made visible by one fenced transaction, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import orjson

from streamsched.domain.errors import DecodeError
from streamsched.ports.broker import Broker, Chunk, Outgoing, TopicPartition
from streamsched.ports.topics import PUBLIC, SIGNALS

#: Where each source partition's next chunk starts.
Positions = dict[TopicPartition, int]


#: `Outgoing._make` without its Python frame: three of them are made for every event.
_outgoing: Callable[[Iterable[Any]], Outgoing] = partial(tuple.__new__, Outgoing)


class Turn:
    """The one turn in flight of a shard: counts its agents in, collects what they emit, and says when all are done.

    Everything the shard makes visible goes through `emit`: signals, launches, dead letters, and the changelog of every
    table. Nothing leaves before `over` has handed it to the shard's writer.
    """

    def __init__(self, agents: Mapping[str, int]) -> None:
        """`agents`: how many agents take the chunks of each topic."""
        self._agents = agents
        self._outgoing: list[Outgoing] = []
        self._reached: Positions = {}
        self._open = 0
        self._done = asyncio.Event()
        self._failure: BaseException | None = None

    def begin(self, chunks: Sequence[Chunk], *, by_agents: bool = True) -> None:
        """Opens the turn of these chunks; the one before must be over. Not `by_agents`: it is done as soon as whoever
        opens it has said what there is to say.
        """
        self._done.clear()
        self._open = sum(self._agents[chunk.topic] for chunk in chunks) if by_agents else 0
        if not self._open:
            self._done.set()
        self._reached = {TopicPartition(chunk.topic, chunk.partition): chunk.next_position for chunk in chunks}

    def emit(self, topic: str, partition: int, key: bytes | None, value: bytes | None) -> None:
        """Adds a record to the turn's transaction; order within a partition is the order of the calls."""
        self._outgoing.append(_outgoing((topic, partition, key, value)))

    @contextmanager
    def part(self) -> Iterator[None]:
        """One agent's work on one chunk. An exception inside ends the whole turn: it is never skipped."""
        try:
            yield
        except BaseException as failure:
            self._failure = failure
            self._done.set()
            raise
        self._open -= 1
        if self._open == 0:
            self._done.set()

    async def over(self) -> tuple[list[Outgoing], Positions]:
        """Waits until every agent has finished every chunk; what to commit, and the positions reached.

        Raises:
            BaseException: what an agent raised; memory is ahead of the log then, and the shard must start over from it.
        """
        await self._done.wait()
        if self._failure is not None:
            raise self._failure
        outgoing, self._outgoing = self._outgoing, []
        return outgoing, self._reached


async def sources(broker: Broker, shard: int) -> Sequence[TopicPartition]:
    """The partitions a shard takes records from, its own of `signals` first."""
    shards = await broker.partitions(SIGNALS)
    public = [
        TopicPartition(topic, partition)
        for topic in PUBLIC
        for partition in range(shard, await broker.partitions(topic), shards)
    ]
    return [TopicPartition(SIGNALS, shard), *public]


def encode_positions(positions: Mapping[TopicPartition, int]) -> bytes:
    """Positions as JSON: topic → partition → position."""
    by_topic: MutableMapping[str, dict[str, int]] = {}
    for (topic, partition), position in sorted(positions.items()):
        by_topic.setdefault(topic, {})[str(partition)] = position
    return orjson.dumps(by_topic)


def decode_positions(raw: bytes) -> Positions:
    """The positions `encode_positions` wrote.

    Raises:
        DecodeError: these bytes are no positions.
    """
    try:
        by_topic = orjson.loads(raw)
        return {
            TopicPartition(topic, int(partition)): int(position)
            for topic, partitions in by_topic.items()
            for partition, position in partitions.items()
        }
    except (ValueError, AttributeError, TypeError) as exc:
        raise DecodeError("$", f"not the positions of a shard: {raw[:80]!r}") from exc
