"""How much of backlogs a worker takes: what waits behind them in topic `launch` waits for their jobs (ADR 42)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog

from streamsched.domain.errors import UnavailableError
from streamsched.log.topics import LAUNCH
from streamsched.ports.broker import Broker, TopicPartition
from streamsched.stream.shards.fair_reader import LARGEST

#: Jobs in the topic that are not stored: with more than that the room becomes smaller, with fewer than a third larger.
MOST: Final = 1_000
FIRST: Final = 250
#: Seconds between two looks.
_EVERY_S: Final = 0.2

log = structlog.get_logger()


class LaunchRoom:
    """Of one worker. It looks only while backlogs are taken."""

    def __init__(self, broker: Broker, stored: Callable[[str, int], Awaitable[Mapping[int, int]]]) -> None:
        """`stored`: the positions of a topic, by partition, before which all jobs are stored."""
        self._broker = broker
        self._stored = stored
        self._room = FIRST
        self._asked = asyncio.Event()

    def records(self) -> int:
        """The most records of backlogs in the next turn of a shard."""
        self._asked.set()
        return self._room

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                await self.run_once()
            except UnavailableError as error:
                log.warning("shard.launch_room_unknown", reason=str(error))
                self._room = FIRST
            await asyncio.sleep(_EVERY_S)

    async def run_once(self) -> None:
        """Looks how many jobs wait in the topic.

        Raises:
            UnavailableError: the broker or PostgreSQL is.
        """
        partitions = await self._broker.partitions(LAUNCH)
        ends = await self._broker.ends([TopicPartition(LAUNCH, number) for number in range(partitions)])
        stored = await self._stored(LAUNCH, partitions)
        waiting = sum(max(0, end - stored.get(at.partition, 0)) for at, end in ends.items())
        if waiting > MOST:
            self._room = 0 if waiting > 2 * MOST else self._room // 2
        elif waiting < MOST // 3:
            self._room = min(LARGEST, max(FIRST, 2 * self._room))
