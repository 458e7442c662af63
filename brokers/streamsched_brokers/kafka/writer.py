"""The fenced writer: one Kafka transaction per commit, under the transactional id of the writer's name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from aiokafka import AIOKafkaProducer
from aiokafka import errors as kafka

from streamsched.domain.errors import FencedError, UnavailableError
from streamsched.ports.broker import Outgoing, TopicPartition
from streamsched_brokers.kafka.batches import check_sizes
from streamsched_brokers.kafka.catalog import KafkaTopicCatalog
from streamsched_brokers.kafka.failure import translate_errors
from streamsched_brokers.kafka.link import CommitPoint, KafkaConnection
from streamsched_brokers.kafka.refusal import too_large
from streamsched_brokers.kafka.sending import OversizedError, abandon, begin, send, sender_failure, shut

#: Seconds a commit waits to become visible. It takes longer only when another writer's open transaction precedes it in
#: a partition; then it becomes visible when that one ends.
VISIBLE_SECONDS: Final = 1.0
_ABORT_SECONDS: Final = 1.0
#: `InvalidTxnState`: the transaction was ended by a newer writer, or by Kafka because it timed out.
_FENCED: Final = (kafka.ProducerFenced, kafka.InvalidProducerEpoch, kafka.InvalidTxnState)


class KafkaWriter:
    """One transaction per commit. A writer whose transaction timed out is fenced too."""

    def __init__(
        self,
        name: str,
        producer: AIOKafkaProducer,
        link: KafkaConnection,
        catalog: KafkaTopicCatalog,
        *,
        closed: Callable[[KafkaWriter], None],
    ) -> None:
        """`closed`: called when the writer is closed."""
        self._name = name
        self._closed = closed
        self._producer = producer
        self._link = link
        self._catalog = catalog
        self._fenced = False
        self._broken = False

    async def commit(self, records: Sequence[Outgoing]) -> None:
        if self._fenced:
            raise FencedError(self._name)
        if self._broken:
            raise UnavailableError(f"writer '{self._name}' failed in an earlier commit: open a new one")
        if not records:
            return
        address = self._link.address
        with translate_errors():
            try:
                await self._catalog.check(records)
                check_sizes(records, address.max_record_bytes, together=address.max_transaction_bytes)
                self._broken = True
                async with asyncio.timeout(address.transaction_seconds):
                    reached = await self._transaction(records)
                self._broken = False
            except OversizedError as exc:
                raise await too_large(self._link, records, exc.at) from exc
            except _FENCED as exc:
                self._fenced = True
                raise FencedError(self._name) from exc
            await self._visible(reached)

    async def close(self) -> None:
        """Aborts an open transaction, which would otherwise block readers until it times out."""
        self._closed(self)
        if self._broken:
            if not self._fenced:
                with suppress(TimeoutError, kafka.KafkaError, kafka.IllegalOperation, AssertionError):
                    async with asyncio.timeout(_ABORT_SECONDS):
                        await self._producer.abort_transaction()
            await abandon(self._producer)
        else:
            await shut(self._producer)

    async def _transaction(self, records: Sequence[Outgoing]) -> Mapping[TopicPartition, int]:
        """Commits only after every batch is acknowledged: aiokafka would commit the rest when a batch has failed."""
        try:
            await begin(self._producer)
            reached = await send(self._producer, records, self._link.address)
            await self._producer.commit_transaction()
        except (AssertionError, kafka.IllegalOperation) as exc:  # raised by aiokafka when its sender task has ended
            raise sender_failure(self._producer) from exc
        return reached

    async def _visible(self, reached: Mapping[TopicPartition, int]) -> None:
        """Waits until readers see the commit: Kafka acknowledges it when it is decided, and writes its markers
        later.
        """
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + VISIBLE_SECONDS, 0.0005
        waiting = dict(reached)
        while waiting:
            ends = await self._link.offsets(waiting, CommitPoint.END)
            waiting = {at: offset for at, offset in waiting.items() if ends[at] <= offset}
            if not waiting or loop.time() >= deadline:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.02)
