"""A turn: the chunks of one fetch, folded in memory and committed by one fenced transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import orjson

from streamsched.domain.errors import DecodeError
from streamsched.log.topics import PUBLIC, SIGNALS
from streamsched.ports.broker import Broker, Chunk, Outgoing, TopicPartition

#: Where each source partition's next chunk starts.
Positions = dict[TopicPartition, int]

#: `Outgoing._make` without its Python frame: about three are made per event.
_outgoing: Callable[[Iterable[Any]], Outgoing] = partial(tuple.__new__, Outgoing)


class Turn:
    """The one turn in flight of a shard: collects what its agents emit and waits until all of them are done.

    All output of the shard passes through `emit`: signals, launches, dead letters, and the changelogs of its tables.
    It is collected in memory; `finished` returns it for the shard's writer to commit.
    """

    def __init__(self, agents: Mapping[str, int], on_progress: Callable[[], object] = lambda: None) -> None:
        """`agents`: how many agents process each topic. `on_progress`: called between the steps of a long turn."""
        self.on_progress = on_progress
        self._agents = agents
        self._outgoing: list[Outgoing] = []
        self._reached: Positions = {}
        self._open = 0
        self._done = asyncio.Event()
        self._failure: BaseException | None = None

    def begin(self, chunks: Sequence[Chunk], *, by_agents: bool = True) -> None:
        """Opens a turn of these chunks; the previous turn must be finished. With `by_agents=False` no agent processes
        them: the caller emits what is to be committed.
        """
        self._done.clear()
        self._open = sum(self._agents[chunk.topic] for chunk in chunks) if by_agents else 0
        if not self._open:
            self._done.set()
        self._reached = {TopicPartition(chunk.topic, chunk.partition): chunk.next_position for chunk in chunks}

    def emit(self, topic: str, partition: int, key: bytes | None, value: bytes | None) -> None:
        """Adds a record to the turn's transaction. Within a partition, records keep the order of the calls."""
        self._outgoing.append(_outgoing((topic, partition, key, value)))

    @contextmanager
    def processing(self) -> Iterator[None]:
        """Encloses one agent's work on one chunk. An exception inside fails the whole turn."""
        try:
            yield
        except BaseException as failure:
            self._failure = failure
            self._done.set()
            raise
        self._open -= 1
        if self._open == 0:
            self._done.set()

    async def finished(self) -> tuple[list[Outgoing], Positions]:
        """Waits until every agent has processed every chunk. Returns the records to commit and the positions reached.

        Raises:
            BaseException: the first exception of an agent. The tables are then ahead of the log, so the shard must
                restart from the log.
        """
        await self._done.wait()
        if self._failure is not None:
            raise self._failure
        outgoing, self._outgoing = self._outgoing, []
        return outgoing, self._reached


async def sources(broker: Broker, shard: int) -> Sequence[TopicPartition]:
    """The partitions a shard reads: its partition of `signals` first, then its public partitions."""
    shards = await broker.partitions(SIGNALS)
    public = [
        TopicPartition(topic, partition)
        for topic in PUBLIC
        for partition in range(shard, await broker.partitions(topic), shards)
    ]
    return [TopicPartition(SIGNALS, shard), *public]


def encode_positions(positions: Mapping[TopicPartition, int]) -> bytes:
    """Positions as JSON: `{topic: {partition: position}}`."""
    by_topic: MutableMapping[str, dict[str, int]] = {}
    for (topic, partition), position in sorted(positions.items()):
        by_topic.setdefault(topic, {})[str(partition)] = position
    return orjson.dumps(by_topic)


def decode_positions(raw: bytes) -> Positions:
    """The positions `encode_positions` wrote.

    Raises:
        DecodeError: the bytes are not such a document.
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
