"""A Faust transport on the broker port (ADR 1).

The app has one fixed assignment for its lifetime: no rebalance, no commits, no recovery. One Faust message is one
chunk. Faust's own records of acks, gaps, committed offsets and buffered sends are bypassed by the overrides below:
nothing would ever clear them, because Faust never commits.

Written against faust-streaming 0.15.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Protocol

from faust.assignor.client_assignment import ClientAssignment
from faust.transport import base, consumer, producer
from faust.types import TP, AppT
from faust.types.tuples import ConsumerMessage
from yarl import URL

from streamsched.ports.broker import Chunk, TopicPartition

_GENERATION = 1


class Feed(Protocol):
    """The source of chunks: a shard."""

    @property
    def sources(self) -> frozenset[TopicPartition]:
        """The partitions the app reads; constant."""
        ...

    async def fetch(self) -> Sequence[Chunk]:
        """Commits the previous turn, then returns the chunks of the next; may be empty."""
        ...

    def fail(self, reason: BaseException) -> None:
        """Called when a service of the app crashed; `fetch` will not be called again."""
        ...


class ShardConsumer(consumer.Consumer):
    """Delivers the chunks of each fetch to the agents."""

    logger = logging.getLogger("faust.transport")
    consumer_stopped_errors = ()
    transport: ShardTransport
    _assigning: asyncio.Task[None] | None = None

    # -- one assignment, made here instead of by a group coordinator

    async def subscribe(self, topics: Iterable[str]) -> None:
        if self._assigning is None:  # awaiting it here would deadlock the conductor, which calls this method
            self._assigning = asyncio.create_task(self._assign())

    async def _assign(self) -> None:
        self.app.on_rebalance_start()
        tps = self.assignment()
        actives: dict[str, list[int]] = {}
        for tp in tps:
            actives.setdefault(tp.topic, []).append(tp.partition)
        self.app.consumer_generation_id = _GENERATION
        self.app.assignor._assignment = ClientAssignment(actives=actives, standbys={})  # type: ignore[attr-defined]
        await self.on_partitions_assigned(tps, _GENERATION)

    def assignment(self) -> set[TP]:
        return {TP(topic, partition) for topic, partition in self.transport.feed.sources}

    # -- chunks instead of records

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, ConsumerMessage]]:  # type: ignore[override]
        if not self.flow_active:
            await self.wait(self.can_resume_flow)  # type: ignore[arg-type]
        for chunk in await self.transport.feed.fetch():
            tp = TP(chunk.topic, chunk.partition)
            yield (
                tp,
                ConsumerMessage(
                    topic=chunk.topic,
                    partition=chunk.partition,
                    offset=chunk.next_position - 1,
                    timestamp=0.0,
                    timestamp_type=0,
                    headers=(),  # type: ignore[arg-type]
                    key=None,
                    value=chunk,  # type: ignore[arg-type]
                    checksum=None,
                    serialized_key_size=0,
                    serialized_value_size=0,
                    tp=tp,
                    generation_id=_GENERATION,
                ),
            )

    def _to_message(self, tp: TP, record: Any) -> ConsumerMessage:
        raise NotImplementedError  # called only by the `getmany` replaced above

    async def _getmany(self, active_partitions: set[TP] | None, timeout: float) -> Any:
        raise NotImplementedError

    # -- no seeks, no commits: positions are committed in the turn's transaction

    async def perform_seek(self) -> None:
        self._read_offset.clear()

    async def seek_to_committed(self) -> Mapping[TP, int]:
        return {}

    async def seek_wait(self, partitions: Mapping[TP, int]) -> None: ...

    async def _seek(self, partition: TP, offset: int) -> None: ...

    async def commit(self, topics: Any = None, start_new_transaction: bool = True) -> bool:
        return True

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        return True

    def ack(self, message: Any) -> bool:  # Faust would keep each offset until its own commit
        message.acked = True
        return True

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None: ...

    # -- no recovery: the shard restores the tables before the app starts

    async def highwaters(self, *partitions: TP) -> dict[TP, int]:
        return dict.fromkeys(partitions, 0)

    async def earliest_offsets(self, *partitions: TP) -> dict[TP, int]:
        return dict.fromkeys(partitions, 0)

    async def position(self, tp: TP) -> int | None:
        return 0

    def highwater(self, tp: TP) -> int:
        return 0

    # -- topics are created by the installation

    async def create_topic(self, *args: Any, **kwargs: Any) -> None: ...

    def topic_partitions(self, topic: str) -> int | None:
        return None

    def key_partition(self, topic: str, key: bytes | None, partition: int | None = None) -> int | None:
        return partition

    def _new_topicpartition(self, topic: str, partition: int) -> TP:
        return TP(topic, partition)

    def close(self) -> None: ...


class ShardProducer(producer.Producer):
    """Sends nothing: agents emit through the turn."""

    logger = logging.getLogger("faust.transport")

    async def send(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("agents emit through the turn, not through Faust's producer")

    async def flush(self) -> None: ...

    async def create_topic(self, *args: Any, **kwargs: Any) -> None: ...

    def key_partition(self, topic: str, key: bytes) -> TP:
        raise NotImplementedError


class ShardTransport(base.Transport):
    """The transport of one shard's app."""

    Consumer = ShardConsumer
    Producer = ShardProducer
    default_port = 0
    driver_version = "streamsched"

    def __init__(self, app: AppT, feed: Feed) -> None:
        super().__init__([URL("streamsched://")], app)
        self.feed = feed
