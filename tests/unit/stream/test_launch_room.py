"""A worker takes backlogs as fast as the jobs that come of them are stored."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.log.topics import LAUNCH, topic_specs
from streamsched.ports.broker import Outgoing
from streamsched.stream.shards.fair_reader import LARGEST
from streamsched.stream.shards.launch_room import FIRST_RATE, LONGEST_S, LaunchRoom
from streamsched.testing.clock import SettableClock

#: Of which the topic may hold at the most.
ROOM = int(FIRST_RATE * LONGEST_S)


class Intake:
    """Jobs in topic `launch`, of which `FIRST_RATE` a second are stored."""

    def __init__(self, clock: SettableClock) -> None:
        self.broker = MemoryBroker(MemoryLog())
        self.room = LaunchRoom(self.broker, self._positions, clock)
        self.stored = self.jobs = 0
        self._clock = clock

    async def _positions(self, topic: str, partitions: int) -> Mapping[int, int]:
        assert (topic, partitions) == (LAUNCH, 2)
        return {0: self.stored} if self.stored else {}

    async def look(self, *, records: int, jobs: int, stored: int = int(FIRST_RATE) // 10) -> None:
        """A tenth of a second later, in which a turn has made these jobs of these records."""
        self.stored = min(self.jobs, self.stored + stored)
        self._clock.advance(timedelta(seconds=0.1))
        self.jobs += jobs
        self.room.record_turn(records, jobs)
        await self.broker.append([Outgoing(LAUNCH, 0, b"j", b"{}")] * jobs)
        await self.room.run_once()


@pytest.fixture
async def intake(clock: SettableClock) -> Intake:
    found = Intake(clock)
    await found.broker.create_topics(topic_specs(2, timedelta(days=1)))
    return found


async def test_shards_share_what_room_there_is(intake: Intake) -> None:
    assert [intake.room.grant() for _ in range(3)] == [ROOM // 2, ROOM // 4, ROOM // 8]
    await intake.look(records=100, jobs=100)
    assert intake.room.grant() == (ROOM - 100) // 2
    await intake.look(records=200, jobs=200)
    assert intake.room.grant() == 0, "200 wait"
    await intake.look(records=0, jobs=0)
    assert intake.room.grant() == (ROOM - 100) // 2


async def test_what_makes_few_jobs_is_not_held_up(intake: Intake) -> None:
    for _ in range(40):
        await intake.look(records=1_000, jobs=1)
    assert intake.room.grant() == LARGEST
    for _ in range(10):
        await intake.look(records=1_000, jobs=1_000)
    assert intake.room.grant() == 0


async def test_the_rate_is_measured_while_jobs_wait(intake: Intake) -> None:
    await intake.look(records=25_000, jobs=25_000)
    for _ in range(50):
        await intake.look(records=0, jobs=0, stored=500)

    assert intake.room.grant() == pytest.approx(5 * ROOM / 2, rel=0.1)
