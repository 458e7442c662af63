"""Producers: opened, made to send batches, and shut in any state they may be in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka import errors as kafka

from streamsched.ports.broker import Outgoing, TopicPartition
from streamsched_brokers.kafka.address import Address
from streamsched_brokers.kafka.batches import BATCH_BYTES, filled
from streamsched_brokers.kafka.failure import patiently

#: How long a producer that is shut may take to say goodbye.
_GOODBYE_SECONDS: Final = 2.0


async def open_producer(address: Address, *, transactional_id: str | None = None) -> AIOKafkaProducer:
    """An idempotent producer; with a `transactional_id` every older one of that id is fenced when this returns, and
    what it had begun is decided. Raises Kafka's own errors."""

    async def attempt() -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            **address.client_options(),
            acks="all",
            enable_idempotence=True,
            linger_ms=0,
            max_batch_size=BATCH_BYTES,
            max_request_size=address.max_record_bytes,
            compression_type=address.compression or None,
            transactional_id=transactional_id,
            transaction_timeout_ms=int(address.transaction_seconds * 1000),
        )
        try:
            async with asyncio.timeout(address.transaction_seconds):
                await producer.start()
        except BaseException:
            await abandon(producer)
            raise
        return producer

    return await patiently(attempt)


async def begin(producer: AIOKafkaProducer) -> None:
    """Begins a transaction."""
    await producer.begin_transaction()
    assert producer._txn_manager is not None
    ends: Any = producer._txn_manager.wait_for_transaction_end()
    ends.add_done_callback(heard)


async def send(producer: AIOKafkaProducer, records: Sequence[Outgoing], prefix: str) -> Mapping[TopicPartition, int]:
    """Sends in order within each partition; returns when Kafka has it all: the last offset of each partition.

    Raises:
        KafkaError: some may have been sent.
    """
    batches: Mapping[TopicPartition, list[Any]] = filled(records, producer.create_batch)
    sent: dict[TopicPartition, list[asyncio.Future[Any]]] = {at: [] for at in batches}
    for nth in range(max(map(len, batches.values()), default=0)):
        for at, mine in batches.items():
            if nth < len(mine):
                future = await producer.send_batch(mine[nth], prefix + at.topic, partition=at.partition)
                future.add_done_callback(heard)
                sent[at].append(future)
    for waiting in producer._message_accumulator._batches.values():
        for batch in waiting:
            batch._drain_waiter.add_done_callback(heard)
    await asyncio.gather(*(future for mine in sent.values() for future in mine))
    return {at: mine[-1].result().offset + batches[at][-1].record_count() - 1 for at, mine in sent.items()}


async def shut(producer: AIOKafkaProducer) -> None:
    """Closes one that has nothing left to do."""
    try:
        async with asyncio.timeout(_GOODBYE_SECONDS):
            await producer.stop()
    except _ENDS:
        await abandon(producer)


async def abandon(producer: AIOKafkaProducer) -> None:
    """Closes one whatever it is doing; what it has not sent is dropped."""
    producer._closed = True
    with suppress(*_ENDS):
        async with asyncio.timeout(_GOODBYE_SECONDS):
            await producer._sender.close()
    await producer.client.close()


def heard(end: asyncio.Future[Any]) -> None:
    """Whoever waits has been told why it failed; that this future knows it too need trouble nobody."""
    if not end.cancelled():
        end.exception()


_ENDS: Final = (TimeoutError, kafka.KafkaError, OSError)
