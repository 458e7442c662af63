"""Reports positions to Kafka's own tools as committed offsets of a group. The driver never reads them."""

from __future__ import annotations

from collections.abc import Mapping

import structlog
from aiokafka import errors as kafka
from aiokafka.client import CoordinationType
from aiokafka.protocol.commit import OffsetCommitRequest

from streamsched.ports.broker import TopicPartition
from streamsched_brokers.kafka.failure import AWAY
from streamsched_brokers.kafka.link import KafkaConnection, group_pairs

log = structlog.get_logger()

_NO_GENERATION = -1
_NO_MEMBER = ""
_BROKER_DEFAULT_RETENTION = -1


class ConsumerGroups:
    """Groups without members: any client may commit an offset; the newest is shown."""

    def __init__(self, link: KafkaConnection) -> None:
        self._link = link
        self._coordinators: dict[str, int] = {}

    async def commit(self, group: str, positions: Mapping[TopicPartition, int]) -> None:
        """Makes one attempt; a failure is logged, the next report has newer positions."""
        name = self._link.address.prefix + group
        topics = group_pairs((self._link.real(at).topic, (at.partition, to, "")) for at, to in positions.items())
        try:
            node = self._coordinators.get(name)
            if node is None:
                node = await self._link.client.coordinator_lookup(CoordinationType.GROUP, name)
                self._coordinators[name] = node
            request = OffsetCommitRequest(name, _NO_GENERATION, _NO_MEMBER, _BROKER_DEFAULT_RETENTION, topics)
            answer = await self._link.client.send(node, request)
            for _, partitions in answer.topics:
                for _, error in partitions:
                    if error:
                        raise kafka.for_code(error)
        except AWAY as failure:
            self._coordinators.pop(name, None)
            log.debug("log.position_report_failed", group=name, reason=str(failure))
