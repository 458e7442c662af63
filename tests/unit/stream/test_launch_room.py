"""A worker takes backlogs as fast as the jobs that come of them are stored."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.log.topics import LAUNCH, topic_specs
from streamsched.ports.broker import Outgoing
from streamsched.stream.shards.fair_reader import LARGEST
from streamsched.stream.shards.launch_room import FIRST, MOST, LaunchRoom


class Intake:
    """Jobs in topic `launch`, and how many of them are stored."""

    def __init__(self) -> None:
        self.broker = MemoryBroker(MemoryLog())
        self.room = LaunchRoom(self.broker, self._positions)
        self.stored = 0

    async def _positions(self, topic: str, partitions: int) -> Mapping[int, int]:
        assert (topic, partitions) == (LAUNCH, 2)
        return {0: self.stored} if self.stored else {}

    async def look(self, *, jobs: int) -> int:
        await self.broker.append([Outgoing(LAUNCH, 0, b"j", b"{}")] * jobs)
        await self.room.run_once()
        return self.room.records()


@pytest.fixture
async def intake() -> Intake:
    found = Intake()
    await found.broker.create_topics(topic_specs(2, timedelta(days=1)))
    return found


async def test_the_room_follows_what_waits(intake: Intake) -> None:
    assert intake.room.records() == FIRST
    assert await intake.look(jobs=0) == 2 * FIRST
    assert await intake.look(jobs=MOST // 2) == 2 * FIRST
    assert await intake.look(jobs=MOST) == FIRST
    assert await intake.look(jobs=MOST) == 0
    intake.stored = 5 * MOST // 2
    assert await intake.look(jobs=0) == FIRST


async def test_the_room_is_bounded(intake: Intake) -> None:
    for _ in range(64):
        assert 0 < await intake.look(jobs=0) <= LARGEST
