"""The log on PostgreSQL keeps the broker contract; what it does beyond it."""

from __future__ import annotations

import pytest
from streamsched_brokers.postgres.compaction import Housekeeping
from streamsched_brokers.postgres.driver import PostgresBroker, open_broker

from streamsched.testing.broker_contract import BrokerContract, OpenBroker

pytestmark = pytest.mark.postgres


class TestPostgresBroker(BrokerContract):
    @pytest.fixture
    def broker(self, empty_database: str) -> OpenBroker:
        async def opens() -> PostgresBroker:
            return await open_broker(empty_database, connections=4, housekeeping=Housekeeping(least=1))

        return opens
