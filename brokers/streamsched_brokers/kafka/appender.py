"""Plain appends in groups: calls made while an append is in progress are sent together as the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from aiokafka import AIOKafkaProducer

from streamsched.domain.errors import TooLargeError
from streamsched.ports.broker import Outgoing
from streamsched_brokers.kafka.failure import PATIENCE_SECONDS, translate_errors
from streamsched_brokers.kafka.link import KafkaConnection
from streamsched_brokers.kafka.refusal import too_large
from streamsched_brokers.kafka.sending import OversizedError, abandon, open_producer, send, shut

#: A group with so many records is closed to further callers.
GROUP_RECORDS: Final = 4000


class _Group:
    """Records of several callers, and the task that appends them."""

    def __init__(self, appender: KafkaAppender) -> None:
        self.calls: list[Sequence[Outgoing]] = []
        self.records = 0
        self.closed = False
        self.sent = asyncio.create_task(appender._send(self), name="streamsched-kafka-append")


class KafkaAppender:
    """All plain appends of a broker object. The producer is idempotent: a batch it resends is appended once.

    A producer that failed is discarded with its unsent batches. So after a caller received an error, only requests that
    were already sent may still be appended.
    """

    def __init__(self, link: KafkaConnection) -> None:
        self._link = link
        self._sending = asyncio.Lock()
        self._group: _Group | None = None
        self._producer: AIOKafkaProducer | None = None

    async def append(self, records: Sequence[Outgoing]) -> None:
        """Returns when the records are durable. The append completes even if its caller is cancelled. The caller has
        checked that the partitions exist and that no record exceeds `max_record_bytes`.

        Raises:
            TooLargeError: the topic has a smaller limit than `max_record_bytes`; some records may have been appended.
            UnavailableError: Kafka did not answer; any of the records may have been appended.
        """
        group = self._group
        if group is None or group.closed or group.records >= GROUP_RECORDS:
            group = self._group = _Group(self)
        index = len(group.calls)
        group.calls.append(records)
        group.records += len(records)
        refused = await asyncio.shield(group.sent)
        if index in refused:
            raise refused[index]

    async def close(self) -> None:
        """Waits for appends in progress, then closes the producer."""
        if self._group is not None:
            await asyncio.wait([self._group.sent])
        if self._producer is not None:
            await shut(self._producer)
            self._producer = None

    async def _send(self, group: _Group) -> Mapping[int, TooLargeError]:
        """The refused calls by their index in the group. When the group is refused, each call is sent separately;
        records that were appended with the group are then appended twice, as after a retry of the caller.
        """
        async with self._sending:
            group.closed = True
            with translate_errors():
                try:
                    await self._deliver([record for call in group.calls for record in call])
                except OversizedError:
                    return await self._send_each(group.calls)
                return {}

    async def _send_each(self, calls: Sequence[Sequence[Outgoing]]) -> Mapping[int, TooLargeError]:
        """Not by halves (`domain.failure_isolation`): each attempt would append the calls of its group again."""
        refused: dict[int, TooLargeError] = {}
        for index, call in enumerate(calls):
            try:
                await self._deliver(call)
            except OversizedError as exc:
                refused[index] = await too_large(self._link, call, exc.at)
        return refused

    async def _deliver(self, records: Sequence[Outgoing]) -> None:
        address = self._link.address
        if self._producer is None:
            self._producer = await open_producer(address)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await send(self._producer, records, address)
        except BaseException:
            producer, self._producer = self._producer, None
            await abandon(producer)
            raise
