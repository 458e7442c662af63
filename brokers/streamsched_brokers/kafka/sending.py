"""Producers: opened, made to send batches, and shut in any state they may be in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaProducer
from aiokafka import errors as kafka

from streamsched.ports.broker import Outgoing, TopicPartition
from streamsched_brokers.kafka.address import Address
from streamsched_brokers.kafka.batches import BATCH_BYTES, filled
from streamsched_brokers.kafka.failure import patiently

_T = TypeVar("_T")

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
            await shut(producer)
            raise
        return producer

    return await patiently(attempt)


async def send(
    producer: AIOKafkaProducer, records: Sequence[Outgoing], address: Address
) -> Mapping[TopicPartition, int]:
    """Sends in order within each partition; returns when Kafka has it all: the last offset of each partition.

    Raises:
        KafkaError: some may have been sent.
    """
    batches: Mapping[TopicPartition, list[Any]] = filled(records, producer.create_batch)

    async def send_to(at: TopicPartition, mine: Sequence[Any]) -> int:
        sent = [await producer.send_batch(batch, address.prefix + at.topic, partition=at.partition) for batch in mine]
        appended = _unless_failed(await asyncio.gather(*sent, return_exceptions=True))
        return appended[-1].offset + mine[-1].record_count() - 1

    last = await asyncio.gather(*(send_to(*each) for each in batches.items()), return_exceptions=True)
    return dict(zip(batches, _unless_failed(last), strict=True))


def _unless_failed(outcomes: Sequence[_T | BaseException]) -> list[_T]:
    """The outcomes, when all are well; every one has ended, and the first failure is raised."""
    well = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    if len(well) < len(outcomes):
        raise next(outcome for outcome in outcomes if isinstance(outcome, BaseException))
    return well


async def shut(producer: AIOKafkaProducer) -> None:
    """Closes it whatever it was doing; what it had not sent yet is dropped after a moment."""
    if producer._txn_manager is not None and (end := producer._txn_manager.wait_for_transaction_end()) is not None:
        end.add_done_callback(_heard)
    with suppress(*_ENDS):
        async with asyncio.timeout(_GOODBYE_SECONDS):
            await producer.stop()
            return
    producer._message_accumulator.fail_all(kafka.ProducerClosed())
    with suppress(*_ENDS):
        async with asyncio.timeout(_GOODBYE_SECONDS):
            await producer._sender.close()
    await producer.client.close()


def _heard(end: asyncio.Future[Any]) -> None:
    """Whoever committed has been told why it failed; that this future knows it too need trouble nobody."""
    if not end.cancelled():
        end.exception()


_ENDS: Final = (TimeoutError, kafka.KafkaError, OSError, AssertionError)
