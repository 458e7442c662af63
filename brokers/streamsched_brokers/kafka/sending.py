"""Producers: opened, made to send batches, and shut in any state they may be in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka import errors as kafka

from streamsched.ports.broker import Outgoing, TopicPartition
from streamsched_brokers.futures import heard
from streamsched_brokers.kafka.address import Address
from streamsched_brokers.kafka.batches import BATCH_BYTES, filled
from streamsched_brokers.kafka.failure import patiently
from streamsched_brokers.kafka.wire import watchful

#: How long a producer that is shut may take to say goodbye, and how long until what it was sending is queued again.
_GOODBYE_SECONDS: Final = 2.0
_REQUEUE_SECONDS: Final = 0.2


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
        watchful(producer.client)
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


class OversizedError(kafka.KafkaError):
    """Kafka refused a batch for partition `at` for its size: its topic takes less than topics of ours do."""

    def __init__(self, at: TopicPartition) -> None:
        super().__init__(f"{at.topic}/{at.partition} takes no batch of this size")
        self.at = at


async def send(producer: AIOKafkaProducer, records: Sequence[Outgoing], prefix: str) -> Mapping[TopicPartition, int]:
    """Sends in order within each partition; returns when Kafka has it all: the last offset of each partition.

    Raises:
        OversizedError: a batch was refused for its size; others may have been sent.
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
    _listen(producer)
    try:
        await asyncio.gather(*(future for mine in sent.values() for future in mine))
    except _OVERSIZED as exc:
        raise OversizedError(next(at for at, mine in sent.items() if any(map(_is_oversized, mine)))) from exc
    return {at: mine[-1].result().offset + batches[at][-1].record_count() - 1 for at, mine in sent.items()}


async def shut(producer: AIOKafkaProducer) -> None:
    """Closes one that has nothing left to do."""
    try:
        async with asyncio.timeout(_GOODBYE_SECONDS):
            await producer.stop()
    except _ENDS:
        await abandon(producer)


async def abandon(producer: AIOKafkaProducer) -> None:
    """Closes one whatever it is doing; what it has not sent is dropped. Its tasks end now, for whatever they ask is
    refused: else they would wait for a broker that is away, and be destroyed waiting."""
    producer._closed = True
    client, sender, accumulator = producer.client, producer._sender, producer._message_accumulator
    _listen(producer)
    client.send = client.ready = client.coordinator_lookup = _refused  # type: ignore[method-assign]
    client.force_metadata_update = client._maybe_wait_metadata = _nothing_new  # type: ignore[method-assign]
    with suppress(*_ENDS):
        async with asyncio.timeout(_GOODBYE_SECONDS):
            await client.close()
    if client._md_update_fut is not None and not client._md_update_fut.done():
        client._md_update_fut.set_result(False)
    if (task := sender.sender_task) is not None:
        task.remove_done_callback(sender._fail_all)  # which expects that something was sent
        task.add_done_callback(heard)
        task.cancel()
        await asyncio.wait((task,), timeout=_REQUEUE_SECONDS)
        queued = list(chain.from_iterable(accumulator._batches.values()))
        accumulator._pending_batches.update(queued)  # from where the end of one that was sent before removes it
        _listen(producer)
        accumulator.fail_all(kafka.ProducerClosed())
        await asyncio.wait((task,), timeout=_GOODBYE_SECONDS)


def death(producer: AIOKafkaProducer) -> kafka.KafkaError:
    """Why its sender has ended."""
    sender = producer._sender.sender_task
    cause = sender.exception() if sender is not None and sender.done() and not sender.cancelled() else None
    return cause if isinstance(cause, kafka.KafkaError) else kafka.KafkaError("the producer has ended")


def _listen(producer: AIOKafkaProducer) -> None:
    """Batches that fail when nobody waits for them any more are no surprise."""
    accumulator = producer._message_accumulator
    for batch in (*accumulator._pending_batches, *chain.from_iterable(accumulator._batches.values())):
        batch.future.add_done_callback(heard)
        batch._drain_waiter.add_done_callback(heard)


async def _refused(*_: Any, **__: Any) -> Any:
    raise kafka.ProducerClosed


def _nothing_new() -> asyncio.Future[bool]:
    done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    done.set_result(False)
    return done


def _is_oversized(end: asyncio.Future[Any]) -> bool:
    return end.done() and not end.cancelled() and isinstance(end.exception(), _OVERSIZED)


_OVERSIZED: Final = (kafka.MessageSizeTooLargeError, kafka.RecordListTooLargeError)
_ENDS: Final = (TimeoutError, kafka.KafkaError, OSError)
