"""How much of backlogs a worker takes: what waits behind them in topic `launch` waits for their jobs (ADR 42)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Final, NamedTuple

import structlog

from streamsched.domain.errors import UnavailableError
from streamsched.log.topics import LAUNCH
from streamsched.ports.broker import Broker, TopicPartition
from streamsched.ports.clock import Clock
from streamsched.stream.shards.fair_reader import LARGEST

#: Seconds that jobs in the topic may wait to be stored, by what is there and what will come of granted records.
LONGEST_S: Final = 0.2
#: Jobs stored a second before that is known.
FIRST_RATE: Final = 1_000.0
#: Seconds between two looks, and the weight of the last one in what is measured.
_EVERY_S: Final = 0.1
_WEIGHT: Final = 0.2
#: Jobs of a record at the least: what counts a thousand events for each job is held up by nothing.
_LEAST: Final = 0.001

log = structlog.get_logger()


class _Look(NamedTuple):
    """How many jobs of the topic were stored, and how many waited."""

    at: datetime
    stored: int
    waiting: int


class LaunchRoom:
    """Of one worker. It looks only while backlogs are taken."""

    def __init__(
        self, broker: Broker, stored: Callable[[str, int], Awaitable[Mapping[int, int]]], clock: Clock
    ) -> None:
        """`stored`: the positions of a topic, by partition, before which all jobs are stored."""
        self._broker = broker
        self._stored = stored
        self._clock = clock
        self._rate = FIRST_RATE
        self._jobs_per_record = 1.0
        self._room = LONGEST_S * FIRST_RATE
        #: Since the last look.
        self._records = self._jobs = 0
        self._last: _Look | None = None
        self._asked = asyncio.Event()

    def grant(self) -> int:
        """The most records of backlogs in the next turn of a shard: half of the room that is left."""
        self._asked.set()
        self._room /= 2
        return min(LARGEST, int(self._room / self._jobs_per_record))

    def record_turn(self, records: int, jobs: int) -> None:
        """Call it when a turn of a shard was committed."""
        self._records += records
        self._jobs += jobs

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                await self.run_once()
            except UnavailableError as error:
                log.warning("shard.launch_room_unknown", reason=str(error))
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
        self._measure(sum(stored.values()), waiting)
        self._room = max(0.0, LONGEST_S * self._rate - waiting)

    def _measure(self, stored: int, waiting: int) -> None:
        before, self._last = self._last, _Look(self._clock.now(), stored, waiting)
        if before is not None and (passed_s := (self._last.at - before.at).total_seconds()) > 0:
            rate = (stored - before.stored) / passed_s
            if stored - before.stored < before.waiting:  # the intake was never without some
                self._rate = max(1.0, self._rate + _WEIGHT * (rate - self._rate))
            else:
                self._rate = max(self._rate, rate)
        if self._records:
            found = self._jobs / self._records
            self._jobs_per_record = max(_LEAST, self._jobs_per_record + _WEIGHT * (found - self._jobs_per_record))
            self._records = self._jobs = 0
