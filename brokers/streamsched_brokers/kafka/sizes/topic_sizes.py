"""Measures a topic: ids and leaders from one broker, offsets and sizes on disk from the leader of each partition."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Final

import structlog
from aiokafka import errors as kafka

from streamsched.domain.errors import ConfigurationError, NotFoundError, UnavailableError
from streamsched.domain.events.topic_growth import PartitionSize, TopicSize
from streamsched.ports.broker import TopicPartition
from streamsched_brokers.kafka.failure import AWAY
from streamsched_brokers.kafka.link import CommitPoint, Isolation, KafkaConnection
from streamsched_brokers.kafka.sizes.requests import LogDirsRequest, TopicIdsRequest

log = structlog.get_logger()

#: Attempts to measure sizes while no record is deleted.
_ATTEMPTS: Final = 5
_DENIED: Final = (kafka.TopicAuthorizationFailedError, kafka.ClusterAuthorizationFailedError)


async def topic_size(link: KafkaConnection, topic: str, *, sizes: bool) -> TopicSize:
    """Measures a topic. See `ports.topic_sizes.TopicSizes`; raises Kafka's errors besides."""
    name, led, away = await _leaders(link, topic)
    asked = [_of_leader(link, topic, node, numbers, sizes=sizes) for node, numbers in led.items()]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    found: dict[int, PartitionSize] = {}
    why = "no partition has a leader now"
    for (node, numbers), answer in zip(led.items(), answers, strict=True):
        if isinstance(answer, dict):
            found |= answer
            away += [number for number in numbers if number not in answer]
        elif isinstance(answer, AWAY) and not isinstance(answer, _DENIED):
            why = f"broker {node}: {str(answer) or type(answer).__name__}"
            log.debug("topic.broker_away", topic=topic, broker=node, reason=why)
            away += numbers
        else:
            raise answer
    if away:
        link.request_metadata()  # a new leader may be a broker that this client does not know yet
    if not found:
        raise UnavailableError(f"no partition of topic '{topic}' can be measured now: {why}")
    return TopicSize(name, found, tuple(sorted(away)))


async def _leaders(link: KafkaConnection, topic: str) -> tuple[str, dict[int, list[int]], list[int]]:
    """The topic's id, its partitions by the id of their leader, and those without one.

    Raises:
        NotFoundError: there is no such topic.
        ConfigurationError: Kafka is older than 2.8 and has no ids of topics.
    """
    try:
        answer = await link.any_broker(TopicIdsRequest(link.address.real_name(topic)))
    except NotImplementedError as exc:
        raise ConfigurationError("a topic can be watched in Kafka 2.8 or later: older ones have no topic ids") from exc
    ((error, _name, topic_id, _internal, partitions, *_),) = answer.topics
    if error == kafka.UnknownTopicOrPartitionError.errno:
        raise NotFoundError("topic", topic)
    if error not in {0, kafka.LeaderNotAvailableError.errno}:
        raise kafka.for_code(error)(topic)
    led: defaultdict[int, list[int]] = defaultdict(list)
    away: list[int] = []
    for _error, number, leader, *_ in partitions:
        (led[leader] if leader >= 0 else away).append(number)
    return topic_id.hex(), led, away


async def _of_leader(
    link: KafkaConnection, topic: str, node: int, numbers: list[int], *, sizes: bool
) -> dict[int, PartitionSize]:
    """The measurements of the partitions that a broker leads. The starts are read before and after the sizes, so that
    no deletion is in between; ends are read before the sizes. A partition that is deleted from all the time is absent.
    """
    at = [TopicPartition(topic, number) for number in numbers]
    found: dict[int, PartitionSize] = {}
    for _ in range(_ATTEMPTS):
        starts = await link.offsets_at(node, at, CommitPoint.BEGINNING, Isolation.UNCOMMITTED)
        ends = await link.offsets_at(node, at, CommitPoint.END, Isolation.UNCOMMITTED)
        if not sizes:
            return {each.partition: PartitionSize(node, starts[each], ends[each], 0) for each in at}
        measured = await _sizes(link, topic, node, [each.partition for each in at])
        after = await link.offsets_at(node, at, CommitPoint.BEGINNING, Isolation.UNCOMMITTED)
        settled = [each for each in at if starts[each] == after[each] and each.partition in measured]
        for each in settled:
            found[each.partition] = PartitionSize(node, starts[each], ends[each], measured[each.partition])
        at = [each for each in at if each.partition not in found]
        if not at:
            break
    return found


async def _sizes(link: KafkaConnection, topic: str, node: int, numbers: list[int]) -> dict[int, int]:
    """The bytes of partitions in the folders of a broker; without those that move to another folder.

    Raises:
        ConfigurationError: this client may not read sizes: Kafka answers with no folder then.
    """
    answer = await link.client.send(node, LogDirsRequest({link.address.real_name(topic): numbers}))
    if not answer.folders:
        raise ConfigurationError(
            f"Kafka does not say how large topic '{topic}' is: its sizes need the permission DESCRIBE of the cluster. "
            "Records are counted without it"
        )
    return {
        number: size
        for error, _folder, topics in answer.folders
        if not error
        for _name, partitions in topics
        for number, size, _lag, is_future in partitions
        if not is_future
    }
