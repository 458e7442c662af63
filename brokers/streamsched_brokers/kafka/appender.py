"""Plain appends, grouped: what arrives while one is under way goes out as the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from aiokafka import AIOKafkaProducer

from streamsched.domain.errors import TooLargeError
from streamsched.ports.broker import Outgoing
from streamsched_brokers.kafka.failure import PATIENCE_SECONDS, translated
from streamsched_brokers.kafka.link import Link
from streamsched_brokers.kafka.refusal import too_large
from streamsched_brokers.kafka.sending import OversizedError, abandon, open_producer, send, shut

#: A group that has so many records takes no more callers.
GROUP_RECORDS: Final = 4000


class _Group:
    """Records of several callers, and the task that appends them once it is their turn."""

    def __init__(self, appender: Appender) -> None:
        self.calls: list[Sequence[Outgoing]] = []
        self.records = 0
        self.closed = False
        self.sent = asyncio.create_task(appender._send(self), name="streamsched-kafka-append")


class Appender:
    """All plain appends of a broker. Its producer is idempotent: what it repeats inside is appended once.

    A producer that failed is thrown away with what it had not sent, so that nothing is appended after its caller was
    told that it failed, but what was under way already.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._turn = asyncio.Lock()
        self._group: _Group | None = None
        self._producer: AIOKafkaProducer | None = None

    async def append(self, records: Sequence[Outgoing]) -> None:
        """Returns when the records are durable. Once begun it goes on though its caller be cancelled. They name topics
        and partitions that exist, and none is larger than topics of ours take.

        Raises:
            TooLargeError: their topic takes less than topics of ours do; some of them may have been appended.
            UnavailableError: Kafka did not answer; any of them may have been appended.
        """
        group = self._group
        if group is None or group.closed or group.records >= GROUP_RECORDS:
            group = self._group = _Group(self)
        place = len(group.calls)
        group.calls.append(records)
        group.records += len(records)
        refused = await asyncio.shield(group.sent)
        if place in refused:
            raise refused[place]

    async def close(self) -> None:
        """Waits for the appends under way."""
        if self._group is not None:
            await asyncio.wait([self._group.sent])
        if self._producer is not None:
            await shut(self._producer)
            self._producer = None

    async def _send(self, group: _Group) -> Mapping[int, TooLargeError]:
        """The calls that were refused, by their places. When the group was, each call is sent by itself: what of them
        was appended already is there twice then, as when its caller had tried again."""
        async with self._turn:
            group.closed = True
            with translated():
                try:
                    await self._deliver([record for call in group.calls for record in call])
                except OversizedError:
                    return await self._one_by_one(group.calls)
                return {}

    async def _one_by_one(self, calls: Sequence[Sequence[Outgoing]]) -> Mapping[int, TooLargeError]:
        refused: dict[int, TooLargeError] = {}
        for place, call in enumerate(calls):
            try:
                await self._deliver(call)
            except OversizedError as exc:
                refused[place] = await too_large(self._link, call, exc.at)
        return refused

    async def _deliver(self, records: Sequence[Outgoing]) -> None:
        address = self._link.address
        if self._producer is None:
            self._producer = await open_producer(address)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await send(self._producer, records, address.prefix)
        except BaseException:
            producer, self._producer = self._producer, None
            await abandon(producer)
            raise
