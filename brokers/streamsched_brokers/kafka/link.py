"""One client's connections to the brokers: asks the right one, and looks around again when it was the wrong one."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import IntEnum
from typing import Any, Final, Self

from aiokafka import errors as kafka
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import create_conn
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.structs import TopicPartition as KafkaPartition

from streamsched.ports.broker import TopicPartition
from streamsched_brokers.kafka.address import Address
from streamsched_brokers.kafka.failure import PATIENCE_SECONDS, patiently
from streamsched_brokers.kafka.wire import watchful

_LOOK_SECONDS: Final = 2.0


class Isolation(IntEnum):
    """Which records count."""

    UNCOMMITTED = 0
    COMMITTED = 1


class Place(IntEnum):
    """Places in a partition that Kafka knows by a name."""

    END = -1
    BEGINNING = -2


class Link:
    """A client that follows the leaders of some topics. One long poll keeps a connection busy, so readers have links
    of their own. It raises aiokafka's errors."""

    def __init__(self, address: Address, client: AIOKafkaClient) -> None:
        self.address = address
        self.client = client
        self._followed: frozenset[str] = frozenset()

    @classmethod
    async def open(cls, address: Address, *, patience_seconds: float = PATIENCE_SECONDS) -> Self:
        """Connects, with patience for brokers that are just coming up."""
        client = watchful(AIOKafkaClient(**address.client_options()))
        try:
            await patiently(lambda: _bootstrap(client, address), seconds=patience_seconds)
        except BaseException:
            await client.close()
            raise
        return cls(address, client)

    async def close(self) -> None:
        await self.client.close()

    async def follow(self, topics: Iterable[str]) -> None:
        """Keeps the leaders of these topics in view too; they exist (else some Kafkas would make them)."""
        wanted = self._followed.union(self.address.prefix + topic for topic in topics)
        if wanted != self._followed:
            self._followed = wanted
            await self.client.set_topics(sorted(wanted))

    def look(self) -> None:
        """Begins to ask anew who leads what, and waits for nobody."""
        self.client.force_metadata_update()

    async def look_around(self) -> None:
        """Asks anew who leads what; gives up silently when nobody answers."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                await self.client.force_metadata_update()

    async def anyone(self, request: Any) -> Any:
        """The answer of some broker."""

        async def ask() -> Any:
            node = self.client.get_random_node()
            if node is None:
                raise kafka.NodeNotReadyError("no broker is known")
            return await self.client.send(node, request)

        return await patiently(ask, before_next=self.look_around)

    def by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[Mapping[int, list[TopicPartition]], kafka.LeaderNotAvailableError | None]:
        """The partitions by the broker that leads them; and what is wrong, when one of them has none now."""
        leaderless: kafka.LeaderNotAvailableError | None = None
        led: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        for at in partitions:
            leader = self.client.cluster.leader_for_partition(self.real(at))
            if leader is None or leader < 0:
                leaderless = kafka.LeaderNotAvailableError(f"{at.topic}/{at.partition} has no leader now")
            else:
                led[leader].append(at)
        return led, leaderless

    def real(self, at: TopicPartition) -> KafkaPartition:
        """What Kafka calls this partition."""
        return KafkaPartition(self.address.prefix + at.topic, at.partition)

    async def offsets(
        self, partitions: Iterable[TopicPartition], place: Place, isolation: Isolation = Isolation.COMMITTED
    ) -> dict[TopicPartition, int]:
        """Where that place is in each partition. The committed end is the last stable offset: all before it is decided.
        Patient with partitions that change their leader."""
        asked = list(partitions)

        async def ask() -> dict[TopicPartition, int]:
            by_leader, leaderless = self.by_leader(asked)
            if leaderless is not None:
                raise leaderless
            answers = await asyncio.gather(
                *(self._offsets_of(node, led, place, isolation) for node, led in by_leader.items())
            )
            return {at: offset for answer in answers for at, offset in answer.items()}

        return await patiently(ask, before_next=self.look_around)

    async def _offsets_of(
        self, node: int, partitions: Iterable[TopicPartition], place: Place, isolation: Isolation
    ) -> dict[TopicPartition, int]:
        by_topic = grouped((self.real(at).topic, (at.partition, int(place))) for at in partitions)
        answer = await self.client.send(node, OffsetRequest(-1, int(isolation), by_topic))
        found: dict[TopicPartition, int] = {}
        for topic, parts in answer.topics:
            for partition, error, _time, offset in parts:
                if error:
                    raise kafka.for_code(error)(f"{topic}/{partition}")
                found[TopicPartition(topic.removeprefix(self.address.prefix), partition)] = offset
        return found


def grouped(pairs: Iterable[tuple[str, Any]]) -> list[tuple[str, list[Any]]]:
    """Pairs by their first, as Kafka's requests want them."""
    groups: defaultdict[str, list[Any]] = defaultdict(list)
    for name, value in pairs:
        groups[name].append(value)
    return list(groups.items())


async def _bootstrap(client: AIOKafkaClient, address: Address) -> None:
    """Connects. aiokafka tells a wrong password from a broker that is away in its log only, so we ask once more."""
    try:
        await client.bootstrap()
    except kafka.KafkaConnectionError:
        options = address.client_options()
        host, _, port = options.pop("bootstrap_servers")[0].rpartition(":")
        options.pop("retry_backoff_ms")
        with suppress(*_ONLY_AWAY):
            (await create_conn(host, int(port), **options)).close()
        raise


_ONLY_AWAY: Final = (kafka.KafkaConnectionError, ConnectionError, TimeoutError, kafka.NodeNotReadyError)
