"""Plain appends, grouped: what arrives while one is under way goes out as the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from aiokafka import AIOKafkaProducer

from streamsched.ports.broker import Outgoing
from streamsched_brokers.kafka.address import Address
from streamsched_brokers.kafka.failure import PATIENCE_SECONDS, translated
from streamsched_brokers.kafka.sending import abandon, open_producer, send, shut

#: A group that has so many records takes no more callers.
GROUP_RECORDS: Final = 4000


class _Group:
    """Records of several callers, and the task that appends them once it is their turn."""

    def __init__(self, appender: Appender) -> None:
        self.records: list[Outgoing] = []
        self.closed = False
        self.sent = asyncio.create_task(appender._send(self), name="streamsched-kafka-append")


class Appender:
    """All plain appends of a broker. Its producer is idempotent: what it repeats inside is appended once.

    A producer that failed is thrown away with what it had not sent, so that nothing is appended after its caller was
    told that it failed, but what was under way already.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._turn = asyncio.Lock()
        self._group: _Group | None = None
        self._producer: AIOKafkaProducer | None = None

    async def append(self, records: Sequence[Outgoing]) -> None:
        """Returns when the records are durable. Once begun it goes on though its caller be cancelled. They name topics
        and partitions that exist, and none is too large.

        Raises:
            UnavailableError: Kafka did not answer; any of them may have been appended.
        """
        group = self._group
        if group is None or group.closed or len(group.records) >= GROUP_RECORDS:
            group = self._group = _Group(self)
        group.records.extend(records)
        await asyncio.shield(group.sent)

    async def close(self) -> None:
        """Waits for the appends under way."""
        if self._group is not None:
            await asyncio.wait([self._group.sent])
        if self._producer is not None:
            await shut(self._producer)
            self._producer = None

    async def _send(self, group: _Group) -> None:
        async with self._turn:
            group.closed = True
            with translated():
                if self._producer is None:
                    self._producer = await open_producer(self._address)
                try:
                    async with asyncio.timeout(PATIENCE_SECONDS):
                        await send(self._producer, group.records, self._address.prefix)
                except BaseException:
                    producer, self._producer = self._producer, None
                    await abandon(producer)
                    raise
