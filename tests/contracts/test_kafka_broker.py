"""The log on Kafka keeps the broker contract; what it does beyond it."""

from __future__ import annotations

import pytest
from streamsched_brokers.kafka.driver import KafkaBroker, open_broker

from streamsched.testing.broker_contract import BrokerContract, OpenBroker

pytestmark = pytest.mark.kafka

#: Segments end after a tenth of a second and are cleaned as soon as one record in a hundred may go.
BUSY = "?topic.segment.ms=100&topic.min.cleanable.dirty.ratio=0.01"


class TestKafkaBroker(BrokerContract):
    @pytest.fixture
    def broker(self, kafka: str) -> OpenBroker:
        async def opens() -> KafkaBroker:
            return await open_broker(kafka + BUSY)

        return opens
