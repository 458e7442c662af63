"""The memory log keeps the broker contract; what it does beyond it."""

from __future__ import annotations

import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.testing.broker_contract import BrokerContract, OpenBroker


class TestMemoryBroker(BrokerContract):
    @pytest.fixture
    def broker(self) -> OpenBroker:
        log = MemoryLog()

        async def open_broker() -> MemoryBroker:
            return MemoryBroker(log)

        return open_broker
