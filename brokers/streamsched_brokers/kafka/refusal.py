"""The port's error for records that Kafka refused because of their size."""

from __future__ import annotations

from collections.abc import Sequence

from streamsched.domain.errors import TooLargeError
from streamsched.ports.broker import Outgoing, TopicPartition
from streamsched_brokers.kafka import administration
from streamsched_brokers.kafka.link import KafkaConnection


async def too_large(link: KafkaConnection, records: Sequence[Outgoing], at: TopicPartition) -> TooLargeError:
    """The error for records of which a batch for `at` was refused: the topic's limit was set below `max_record_bytes`.
    It names the size of the largest record for `at`, or of all of them together.

    Raises:
        KafkaError: the topic's limit cannot be read.
    """
    topic = link.address.real_name(at.topic)
    limit = int((await administration.settings(link, [topic]))[topic]["max.message.bytes"])
    sizes = [len(each.key or b"") + len(each.value or b"") for each in records if each[:2] == at]
    if max(sizes) > limit:
        return TooLargeError(at.topic, max(sizes), limit)
    return TooLargeError(at.topic, sum(sizes), limit, together=True)
