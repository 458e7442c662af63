"""One client's connections to the brokers: sends requests to partition leaders, and refreshes the cluster metadata."""

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
from streamsched_brokers.kafka.failure import PATIENCE_SECONDS, retry
from streamsched_brokers.kafka.wire import detect_dead_connections

_METADATA_SECONDS: Final = 2.0


class Isolation(IntEnum):
    """Kafka's isolation levels: which records a request sees."""

    UNCOMMITTED = 0
    COMMITTED = 1


class CommitPoint(IntEnum):
    """Kafka's special offsets of a partition."""

    END = -1
    BEGINNING = -2


class KafkaConnection:
    """A client that tracks the leaders of some topics. A long poll occupies a connection, so each reader has its own
    client. Methods raise aiokafka's errors.
    """

    def __init__(self, address: Address, client: AIOKafkaClient) -> None:
        self.address = address
        self.client = client
        self._followed: frozenset[str] = frozenset()

    @classmethod
    async def open(cls, address: Address, *, patience_seconds: float = PATIENCE_SECONDS) -> Self:
        """Connects; retries for `patience_seconds`, since brokers may be starting."""
        client = detect_dead_connections(AIOKafkaClient(**address.client_options()))
        try:
            await retry(lambda: _bootstrap(client, address), seconds=patience_seconds)
        except BaseException:
            await client.close()
            raise
        return cls(address, client)

    async def close(self) -> None:
        await self.client.close()

    async def follow(self, topics: Iterable[str]) -> None:
        """Also tracks the leaders of these topics. They must exist: some Kafka clusters create topics on request."""
        wanted = self._followed.union(map(self.address.real_name, topics))
        if wanted != self._followed:
            self._followed = wanted
            await self.client.set_topics(sorted(wanted))

    def request_metadata(self) -> None:
        """Starts a refresh of the metadata without waiting for it."""
        self.client.force_metadata_update()

    async def refresh_metadata(self) -> None:
        """Refreshes the metadata; returns after a timeout when no broker answers."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_METADATA_SECONDS):
                await self.client.force_metadata_update()

    async def any_broker(self, request: Any) -> Any:
        """The response of any broker."""

        async def ask() -> Any:
            node = self.client.get_random_node()
            if node is None:
                raise kafka.NodeNotReadyError("no broker is known")
            return await self.client.send(node, request)

        return await retry(ask, before_next=self.refresh_metadata)

    def by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[Mapping[int, list[TopicPartition]], kafka.LeaderNotAvailableError | None]:
        """The partitions by the id of their leader, and an error when one of them has no leader now."""
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
        """The partition with the name of its topic in the cluster."""
        return KafkaPartition(self.address.real_name(at.topic), at.partition)

    async def offsets(
        self, partitions: Iterable[TopicPartition], place: CommitPoint, isolation: Isolation = Isolation.COMMITTED
    ) -> dict[TopicPartition, int]:
        """The offset of `place` in each partition. The committed end is the last stable offset: transactions before it
        are decided. Retries while a partition has no leader.
        """
        asked = list(partitions)

        async def ask() -> dict[TopicPartition, int]:
            by_leader, leaderless = self.by_leader(asked)
            if leaderless is not None:
                raise leaderless
            answers = await asyncio.gather(
                *(self.offsets_at(node, led, place, isolation) for node, led in by_leader.items())
            )
            return {at: offset for answer in answers for at, offset in answer.items()}

        return await retry(ask, before_next=self.refresh_metadata)

    async def offsets_at(
        self, node: int, partitions: Iterable[TopicPartition], place: CommitPoint, isolation: Isolation
    ) -> dict[TopicPartition, int]:
        """The offset of `place` in partitions that this broker leads; one attempt."""
        by_topic = group_pairs((self.real(at).topic, (at.partition, int(place))) for at in partitions)
        answer = await self.client.send(node, OffsetRequest(-1, int(isolation), by_topic))
        found: dict[TopicPartition, int] = {}
        for topic, parts in answer.topics:
            for partition, error, _time, offset in parts:
                if error:
                    raise kafka.for_code(error)(f"{topic}/{partition}")
                found[TopicPartition(self.address.own_name(topic), partition)] = offset
        return found


def group_pairs(pairs: Iterable[tuple[str, Any]]) -> list[tuple[str, list[Any]]]:
    """Pairs grouped by their first element, the format of Kafka's requests."""
    groups: defaultdict[str, list[Any]] = defaultdict(list)
    for name, value in pairs:
        groups[name].append(value)
    return list(groups.items())


async def _bootstrap(client: AIOKafkaClient, address: Address) -> None:
    """Connects. aiokafka raises the same error for a wrong password and for an unavailable broker, so a second
    connection is opened directly, whose error says which it is.
    """
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
