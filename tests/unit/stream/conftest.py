"""A cluster on a log in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.testing.clock import SettableClock
from tests.support.shard_cluster import NOON, ShardCluster


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(NOON)


@pytest.fixture
async def cluster(clock: SettableClock) -> AsyncIterator[ShardCluster]:
    made = await ShardCluster.create(MemoryBroker(MemoryLog(clock)))
    yield made
    await made.stop()
