"""Periodic maintenance of the log, such as the deletion of records past their retention that have been read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from streamsched.log.topics import LAUNCH, PUBLIC, SIGNALS, WAKEUPS
from streamsched.ports.broker import Broker, TopicPartition
from streamsched.ports.clock import Clock
from streamsched.process.run_forever import run_forever

#: Seconds between two calls.
_EVERY: Final = 60.0
#: Topics of which nothing may be lost, and whose readers store their positions.
_READ: Final = (*PUBLIC, SIGNALS, LAUNCH, WAKEUPS)


class LogMaintenance:
    """Belongs to one task."""

    def __init__(
        self, broker: Broker, clock: Clock, positions: Callable[[], Awaitable[Mapping[TopicPartition, int]]]
    ) -> None:
        """`positions`: how far shards and intakes have read; one without a position has read nothing."""
        self._broker = broker
        self._clock = clock
        self._positions = positions

    async def run(self) -> None:
        """Maintains until cancelled; retries while the log or PostgreSQL is unavailable."""
        await run_forever(self.step, called="log_cleaning", ending_by=self._clock)

    async def step(self) -> float:
        """One pass. Returns the seconds until the next.

        Raises:
            UnavailableError: the log or PostgreSQL is unavailable; nothing unread was deleted.
        """
        read = await self._positions()
        await self._broker.maintain(
            {
                (at := TopicPartition(topic, partition)): read.get(at, 0)
                for topic in _READ
                for partition in range(await self._broker.partitions(topic))
            }
        )
        return _EVERY
