"""A view of the log for one generation of an installation (ADR 5).

Topics whose partitions are homes (`signals`, the changelogs) and the shards' writers belong to a generation. In
generation 1 they have their plain names; later generations append the number: `signals.2`. Callers always use the plain
names. All other topics are the same in every generation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from streamsched.codec.records import layout as layout_codec
from streamsched.domain.errors import ConfigurationError, NotFoundError
from streamsched.domain.signals.layout import Layout
from streamsched.log.drivers import open_broker
from streamsched.log.records import newest
from streamsched.log.topics import APP_ID, KEYED, LAYOUT, LAYOUT_KEY
from streamsched.ports.broker import (
    NOTHING_UNREAD,
    Broker,
    Capabilities,
    CatchUpRead,
    Chunk,
    Outgoing,
    Reader,
    TopicPartition,
    TopicSpec,
    Writer,
)
from streamsched.ports.clock import Clock
from streamsched.ports.topic_settings import TopicSettings


async def open_log(url: str, *, shards: int) -> tuple[Broker, Layout]:
    """Opens the log in its current generation, and returns it with its layout: the one published by the last reshard,
    or, if it was never resharded, generation 1 with `shards` shards.

    Raises:
        ConfigurationError: no driver, a wrong URL, or the installation was resharded to another number.
        UnavailableError: the log is unavailable.
    """
    broker = await open_broker(url)
    try:
        found = await read_layout(broker)
        if found is not None and found.shards != shards:
            raise ConfigurationError(f"the installation has {found.shards} shards: set STREAMSCHED_SHARDS to that")
    except BaseException:
        await broker.close()
        raise
    layout = found or Layout(1, shards, shards)
    return of_generation(broker, layout.generation), layout


async def read_layout(broker: Broker) -> Layout | None:
    """The newest published layout; None when the installation was never resharded.

    Raises:
        UnavailableError: the log is unavailable.
    """
    try:
        found = await newest(broker, TopicPartition(LAYOUT, 0), LAYOUT_KEY)
    except NotFoundError:
        return None
    return None if found is None else layout_codec.decode(found)


def of_generation(broker: Broker, number: int) -> Broker:
    """The log with the topic names of a generation. Closing it closes `broker`."""
    return broker if number == 1 else Generation(broker, number)


class Generation:
    """A `Broker` that translates between plain names and the names of a later generation."""

    def __init__(self, broker: Broker, number: int) -> None:
        self._broker = broker
        self._number = number
        self._named = {topic: f"{topic}.{number}" for topic in KEYED}
        self._plain = {named: topic for topic, named in self._named.items()}

    @property
    def capabilities(self) -> Capabilities:
        return self._broker.capabilities

    def keep_time(self, clock: Clock) -> None:
        self._broker.keep_time(clock)

    async def create_topics(self, specs: Sequence[TopicSpec]) -> None:
        named = self._named
        await self._broker.create_topics([replace(spec, name=named.get(spec.name, spec.name)) for spec in specs])

    async def append(self, records: Sequence[Outgoing]) -> None:
        await self._broker.append(self._generation_records(records))

    async def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        found = await self._broker.ends([self._at(at) for at in partitions])
        return {at: found[self._at(at)] for at in partitions}

    async def partitions(self, topic: str) -> int:
        return await self._broker.partitions(self._named.get(topic, topic))

    async def reader(self, positions: Mapping[TopicPartition, int]) -> Reader:
        reader = await self._broker.reader({self._at(at): position for at, position in positions.items()})
        return _Reader(reader, self._named, self._plain)

    async def writer(self, name: str) -> Writer:
        of_shard = name.startswith(f"{APP_ID}-")
        return _Writer(await self._broker.writer(f"{name}.{self._number}" if of_shard else name), self)

    async def report(self, name: str, positions: Mapping[TopicPartition, int]) -> None:
        await self._broker.report(name, {self._at(at): position for at, position in positions.items()})

    async def topic_fault(self, topic: str) -> str:
        """See `ports.topic_settings.TopicSettings`; of a log without settings nothing is wrong."""
        broker = self._broker
        return await broker.topic_fault(self._named.get(topic, topic)) if isinstance(broker, TopicSettings) else ""

    async def maintain(self, unread: Mapping[TopicPartition, int] = NOTHING_UNREAD) -> None:
        await self._broker.maintain({self._at(at): position for at, position in unread.items()})

    async def close(self) -> None:
        await self._broker.close()

    def _at(self, at: TopicPartition) -> TopicPartition:
        return TopicPartition(self._named.get(at.topic, at.topic), at.partition)

    def _generation_records(self, records: Sequence[Outgoing]) -> list[Outgoing]:
        named = self._named
        return [
            Outgoing(named[topic], partition, key, value) if topic in named else Outgoing(topic, partition, key, value)
            for topic, partition, key, value in records
        ]


class _Reader:
    """A `Reader` whose chunks have plain topic names."""

    def __init__(self, reader: Reader, named: Mapping[str, str], plain: Mapping[str, str]) -> None:
        self._reader = reader
        self._named = named
        self._plain = plain

    async def read(self, *, max_records: int, timeout: float) -> list[Chunk]:
        return self._plain_chunks(await self._reader.read(max_records=max_records, timeout=timeout))

    async def catch_up(self, partition: TopicPartition, *, max_records: int, timeout: float) -> CatchUpRead:
        read = await self._reader.catch_up(self._at(partition), max_records=max_records, timeout=timeout)
        return read._replace(chunks=self._plain_chunks(read.chunks))

    def seek(self, partition: TopicPartition, position: int) -> None:
        self._reader.seek(self._at(partition), position)

    async def close(self) -> None:
        await self._reader.close()

    def _at(self, at: TopicPartition) -> TopicPartition:
        return TopicPartition(self._named.get(at.topic, at.topic), at.partition)

    def _plain_chunks(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        return [chunk._replace(topic=self._plain.get(chunk.topic, chunk.topic)) for chunk in chunks]


class _Writer:
    """A `Writer` of records with plain topic names."""

    def __init__(self, writer: Writer, generation: Generation) -> None:
        self._writer = writer
        self._generation = generation

    async def commit(self, records: Sequence[Outgoing]) -> None:
        await self._writer.commit(self._generation._generation_records(records))

    async def close(self) -> None:
        await self._writer.close()
