"""The fenced writer of a name: Kafka's transactions under a transactional id of that name."""

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
from streamsched_brokers.kafka.catalog import Catalog
from streamsched_brokers.kafka.failure import translated
from streamsched_brokers.kafka.link import Link, Place
from streamsched_brokers.kafka.refusal import too_large
from streamsched_brokers.kafka.sending import OversizedError, abandon, begin, death, send, shut

#: How long a commit waits to become visible. Longer only while somebody else's open transaction stands in front of it:
#: then it becomes visible with the end of that one.
VISIBLE_SECONDS: Final = 1.0
_ABORT_SECONDS: Final = 1.0
#: The last one: our transaction was ended, and not by us. A newer writer does that, or Kafka when we stood still.
_FENCED: Final = (kafka.ProducerFenced, kafka.InvalidProducerEpoch, kafka.InvalidTxnState)


class KafkaWriter:
    """One transaction a commit. Kafka calls a writer that stood still for too long fenced as well; it is."""

    def __init__(
        self,
        name: str,
        producer: AIOKafkaProducer,
        link: Link,
        catalog: Catalog,
        *,
        closed: Callable[[KafkaWriter], None],
    ) -> None:
        """`closed` is told when it is."""
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
            raise UnavailableError(f"writer '{self._name}' failed before: open a new one")
        if not records:
            return
        address = self._link.address
        with translated():
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
        """Ends what it had begun, so that it holds up no reader until it times out."""
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
        """Nothing is committed before Kafka has all of it: aiokafka would commit what is left of a failed batch."""
        try:
            await begin(self._producer)
            reached = await send(self._producer, records, self._link.address.prefix)
            await self._producer.commit_transaction()
        except (AssertionError, kafka.IllegalOperation) as exc:  # how aiokafka says that its sender has died
            raise death(self._producer) from exc
        return reached

    async def _visible(self, reached: Mapping[TopicPartition, int]) -> None:
        """Kafka acknowledges a commit once it is certain; readers see it when its markers are written, soon after."""
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + VISIBLE_SECONDS, 0.0005
        waiting = dict(reached)
        while waiting:
            ends = await self._link.offsets(waiting, Place.END)
            waiting = {at: offset for at, offset in waiting.items() if ends[at] <= offset}
            if not waiting or loop.time() >= deadline:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.02)
