"""Measures a topic by the driver for the URL of its log."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from streamsched.domain.errors import ConfigurationError
from streamsched.domain.events.topic_growth import TopicSize
from streamsched.log.drivers import open_broker
from streamsched.ports.topic_sizes import TopicSizes
from streamsched.spark.streaming.topic_position import StreamMeasure


def measure_topic(url: str, topic: str, measure: StreamMeasure) -> TopicSize:
    """Measures a topic over connections of its own: minutes pass between checks, and brokers change meanwhile.

    Raises:
        ConfigurationError: the driver for the URL measures no topics, or refuses.
        NotFoundError, UnavailableError: see `TopicSizes`.
    """
    return asyncio.run(_measure(url, topic, measure))


async def _measure(url: str, topic: str, measure: StreamMeasure) -> TopicSize:
    broker = await open_broker(url)
    try:
        if not isinstance(broker, TopicSizes):
            raise ConfigurationError(f"topics of {urlsplit(url).scheme}:// cannot be watched; those of kafka:// can")
        return await broker.topic_size(topic, sizes=measure is StreamMeasure.BYTES)
    finally:
        await broker.close()
