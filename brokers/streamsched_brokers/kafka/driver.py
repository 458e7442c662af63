"""The broker port on Apache Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from streamsched.domain.events.topic_growth import TopicSize
from streamsched.ports.broker import NOTHING_UNREAD, Capabilities, Outgoing, TopicPartition, TopicSpec
from streamsched.ports.clock import Clock
from streamsched_brokers.kafka.address import Address
from streamsched_brokers.kafka.appender import KafkaAppender
from streamsched_brokers.kafka.batches import OVERHEAD, check_sizes
from streamsched_brokers.kafka.catalog import KafkaTopicCatalog
from streamsched_brokers.kafka.failure import translate_errors
from streamsched_brokers.kafka.groups import ConsumerGroups
from streamsched_brokers.kafka.link import CommitPoint, KafkaConnection
from streamsched_brokers.kafka.reader import KafkaReader
from streamsched_brokers.kafka.sending import open_producer
from streamsched_brokers.kafka.sizes.topic_sizes import topic_size
from streamsched_brokers.kafka.writer import KafkaWriter

#: Seconds that opening retries; callers that can wait longer call again, so that a terminal user gets an error soon.
OPENING_SECONDS: Final = 2.0
CAPABILITIES = Capabilities(fenced=True, transactional=True, durable=True, compaction=True, shared=True)


async def open_broker(url: str) -> KafkaBroker:
    """Opens the log at a `kafka://` URL; its options are the fields of `Address`.

    Raises:
        ConfigurationError: the URL is wrong, or Kafka refuses this client.
        UnavailableError: no broker answers.
    """
    address = Address.parse(url)
    with translate_errors():
        return KafkaBroker(await KafkaConnection.open(address, patience_seconds=OPENING_SECONDS))


class KafkaBroker:
    """One process's connections to the log. Every reader and every writer has its own connections."""

    def __init__(self, link: KafkaConnection) -> None:
        self._link = link
        self._address = link.address
        self._catalog = KafkaTopicCatalog(link)
        self._appender = KafkaAppender(link)
        self._groups = ConsumerGroups(link)
        self._opened: set[KafkaReader | KafkaWriter] = set()

    @property
    def capabilities(self) -> Capabilities:
        return replace(CAPABILITIES, largest_record=self._address.max_record_bytes - OVERHEAD)

    def keep_time(self, clock: Clock) -> None:
        """Does nothing: records have the time of Kafka's brokers (LogAppendTime)."""

    async def create_topics(self, specs: Sequence[TopicSpec]) -> None:
        with translate_errors():
            await self._catalog.create(specs)

    async def append(self, records: Sequence[Outgoing]) -> None:
        if not records:
            return
        with translate_errors():
            await self._catalog.check(records)
        check_sizes(records, self._address.max_record_bytes)
        await self._appender.append(records)

    async def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        with translate_errors():
            await self._catalog.check(partitions)
            return await self._link.offsets(partitions, CommitPoint.END)

    async def partitions(self, topic: str) -> int:
        with translate_errors():
            return await self._catalog.partitions(topic)

    async def topic_fault(self, topic: str) -> str:
        """See `ports.topic_settings.TopicSettings`."""
        with translate_errors():
            return await self._catalog.fault(topic)

    async def topic_size(self, topic: str, *, sizes: bool) -> TopicSize:
        """See `ports.topic_sizes.TopicSizes`."""
        with translate_errors():
            return await topic_size(self._link, topic, sizes=sizes)

    async def reader(self, positions: Mapping[TopicPartition, int]) -> KafkaReader:
        with translate_errors():
            await self._catalog.check(positions)
            link = await KafkaConnection.open(self._address)
            await link.follow({at.topic for at in positions})
        reader = KafkaReader(link, positions, closed=self._opened.discard)
        self._opened.add(reader)
        return reader

    async def writer(self, name: str) -> KafkaWriter:
        with translate_errors():
            producer = await open_producer(self._address, transactional_id=f"{self._address.prefix}streamsched/{name}")
        writer = KafkaWriter(name, producer, self._link, self._catalog, closed=self._opened.discard)
        self._opened.add(writer)
        return writer

    async def report(self, name: str, positions: Mapping[TopicPartition, int]) -> None:
        """Commits the positions as offsets of group `name`: `kafka-consumer-groups --describe` shows the lag."""
        await self._groups.commit(name, positions)

    async def maintain(self, unread: Mapping[TopicPartition, int] = NOTHING_UNREAD) -> None:
        """Does nothing: Kafka cleans its logs itself, by the settings of their topics."""

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in list(self._opened)))
        await self._appender.close()
        await self._link.close()
