"""A town on a log in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.testing.clock import SettableClock
from streamsched.testing.town import NOON, Town


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(NOON)


@pytest.fixture
async def town(clock: SettableClock) -> AsyncIterator[Town]:
    made = await Town.found(MemoryBroker(MemoryLog(clock)))
    yield made
    await made.stop()
