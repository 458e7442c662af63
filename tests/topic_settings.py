"""A Kafka topic's settings, changed as an operator would."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from streamsched_brokers.kafka import administration
from streamsched_brokers.kafka.driver import KafkaBroker


async def settings_of(broker: KafkaBroker, topic: str) -> Mapping[str, str]:
    name = broker._link.address.prefix + topic
    return (await administration.settings(broker._link, [name]))[name]


async def change(broker: KafkaBroker, topic: str, settings: Mapping[str, str]) -> None:
    """Kafka acknowledges a change before every broker has heard of it; this waits until they have."""
    await administration.change(broker._link, broker._link.address.prefix + topic, settings)
    await reported(broker, topic, settings)


async def reported(broker: KafkaBroker, topic: str, settings: Mapping[str, str]) -> Mapping[str, str]:
    """All settings, once these are among them."""
    async with asyncio.timeout(30):
        while not settings.items() <= (found := await settings_of(broker, topic)).items():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return found
