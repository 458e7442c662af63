"""Opens producers, sends batches, and closes producers in any state."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka import errors as kafka

from streamsched.ports.broker import Outgoing, TopicPartition
from streamsched_brokers.futures import retrieve_exception
from streamsched_brokers.kafka.address import Address
from streamsched_brokers.kafka.batches import BATCH_BYTES, fill_batches
from streamsched_brokers.kafka.failure import retry
from streamsched_brokers.kafka.wire import detect_dead_connections

#: Seconds that closing a producer may take, and seconds until a cancelled sender has queued its batches again.
_CLOSE_SECONDS: Final = 2.0
_REQUEUE_SECONDS: Final = 0.2


async def open_producer(address: Address, *, transactional_id: str | None = None) -> AIOKafkaProducer:
    """An idempotent producer. With a `transactional_id`, older producers of that id are fenced when this returns, and
    their transactions are decided. Raises Kafka's errors.
    """

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
        detect_dead_connections(producer.client)
        try:
            async with asyncio.timeout(address.transaction_seconds):
                await producer.start()
        except BaseException:
            await abandon(producer)
            raise
        return producer

    return await retry(attempt)


async def begin(producer: AIOKafkaProducer) -> None:
    """Begins a transaction."""
    await producer.begin_transaction()
    assert producer._txn_manager is not None
    ends: Any = producer._txn_manager.wait_for_transaction_end()
    ends.add_done_callback(retrieve_exception)


class OversizedError(kafka.KafkaError):
    """Kafka refused a batch for partition `at` because of its size: the topic's limit is below `max_record_bytes`."""

    def __init__(self, at: TopicPartition) -> None:
        super().__init__(f"{at.topic}/{at.partition} accepts no batch of this size")
        self.at = at


async def send(
    producer: AIOKafkaProducer, records: Sequence[Outgoing], address: Address
) -> Mapping[TopicPartition, int]:
    """Sends the records, in order within each partition, and waits for the acknowledgements. Returns the last offset of
    each partition.

    Raises:
        OversizedError: a batch was refused because of its size; others may have been appended.
        KafkaError: some records may have been appended.
    """
    batches: Mapping[TopicPartition, list[Any]] = fill_batches(records, producer.create_batch)
    sent: dict[TopicPartition, list[asyncio.Future[Any]]] = {at: [] for at in batches}
    for nth in range(max(map(len, batches.values()), default=0)):
        for at, mine in batches.items():
            if nth < len(mine):
                future = await producer.send_batch(mine[nth], address.real_name(at.topic), partition=at.partition)
                future.add_done_callback(retrieve_exception)
                sent[at].append(future)
    _retrieve_exceptions(producer)
    try:
        await asyncio.gather(*(future for mine in sent.values() for future in mine))
    except _OVERSIZED as exc:
        raise OversizedError(next(at for at, mine in sent.items() if any(map(_is_oversized, mine)))) from exc
    return {at: mine[-1].result().offset + batches[at][-1].record_count() - 1 for at, mine in sent.items()}


async def shut(producer: AIOKafkaProducer) -> None:
    """Closes a producer that has no batches in progress."""
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await producer.stop()
    except _ENDS:
        await abandon(producer)


async def abandon(producer: AIOKafkaProducer) -> None:
    """Closes a producer in any state and drops its unsent batches. All requests of its tasks are made to fail, so that
    they end now: otherwise they would wait for an unavailable broker and be destroyed while pending.
    """
    producer._closed = True
    client, sender, accumulator = producer.client, producer._sender, producer._message_accumulator
    _retrieve_exceptions(producer)
    client.send = client.ready = client.coordinator_lookup = _refuse  # type: ignore[method-assign]
    client.force_metadata_update = client._maybe_wait_metadata = _no_update  # type: ignore[method-assign]
    with suppress(*_ENDS):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await client.close()
    if client._md_update_fut is not None and not client._md_update_fut.done():
        client._md_update_fut.set_result(False)
    if (task := sender.sender_task) is not None:
        task.remove_done_callback(sender._fail_all)  # it fails when nothing was sent
        task.add_done_callback(retrieve_exception)
        task.cancel()
        await asyncio.wait((task,), timeout=_REQUEUE_SECONDS)
        queued = list(chain.from_iterable(accumulator._batches.values()))
        accumulator._pending_batches.update(queued)  # the end of a batch that was sent before removes it from there
        _retrieve_exceptions(producer)
        accumulator.fail_all(kafka.ProducerClosed())
        await asyncio.wait((task,), timeout=_CLOSE_SECONDS)


def sender_failure(producer: AIOKafkaProducer) -> kafka.KafkaError:
    """The error that ended a producer's sender task."""
    sender = producer._sender.sender_task
    cause = sender.exception() if sender is not None and sender.done() and not sender.cancelled() else None
    return cause if isinstance(cause, kafka.KafkaError) else kafka.KafkaError("the producer has ended")


def _retrieve_exceptions(producer: AIOKafkaProducer) -> None:
    """Retrieves the exceptions of batches that have no awaiter, so that asyncio does not log them."""
    accumulator = producer._message_accumulator
    for batch in (*accumulator._pending_batches, *chain.from_iterable(accumulator._batches.values())):
        batch.future.add_done_callback(retrieve_exception)
        batch._drain_waiter.add_done_callback(retrieve_exception)


async def _refuse(*_: Any, **__: Any) -> Any:
    raise kafka.ProducerClosed


def _no_update() -> asyncio.Future[bool]:
    done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    done.set_result(False)
    return done


def _is_oversized(end: asyncio.Future[Any]) -> bool:
    return end.done() and not end.cancelled() and isinstance(end.exception(), _OVERSIZED)


_OVERSIZED: Final = (kafka.MessageSizeTooLargeError, kafka.RecordListTooLargeError)
_ENDS: Final = (TimeoutError, kafka.KafkaError, OSError)
