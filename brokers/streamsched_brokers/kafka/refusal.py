"""What Kafka refused for its size, in the port's words."""

from __future__ import annotations

from collections.abc import Sequence

from streamsched.domain.errors import TooLargeError
from streamsched.ports.broker import Outgoing, TopicPartition
from streamsched_brokers.kafka import administration
from streamsched_brokers.kafka.link import Link


async def too_large(link: Link, records: Sequence[Outgoing], at: TopicPartition) -> TooLargeError:
    """Of records of which a batch for `at` was refused. Somebody has made the topic take less than ours take: the
    largest record, or all that went there together.

    Raises:
        KafkaError: nobody tells how much it takes.
    """
    topic = link.address.prefix + at.topic
    limit = int((await administration.settings(link, [topic]))[topic]["max.message.bytes"])
    sizes = [len(each.key or b"") + len(each.value or b"") for each in records if each[:2] == at]
    if max(sizes) > limit:
        return TooLargeError(at.topic, max(sizes), limit)
    return TooLargeError(at.topic, sum(sizes), limit, together=True)
