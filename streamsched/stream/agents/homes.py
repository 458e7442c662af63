"""The homes of a shard: each signal goes to the one that its key names, in the order of the log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from streamsched.codec.records.barrier import PREFIX as BARRIER_PREFIX
from streamsched.ports.broker import Chunk, Record
from streamsched.stream.agents.arrival_order import ArrivalOrder
from streamsched.stream.agents.barriers import Barriers
from streamsched.stream.agents.event_home import EventHome
from streamsched.stream.agents.schedule_home import SCHEDULE_PREFIX, ScheduleHome

#: Seconds of folding, or of writing rows, before control returns to the event loop. One fold is never divided.
STEP_S: Final = 0.1


class Homes:
    """The home of a shard's event keys, that of its schedules, and the barriers between those of all shards."""

    def __init__(self, events: EventHome, schedules: ScheduleHome, order: ArrivalOrder, barriers: Barriers) -> None:
        self.events = events
        self.schedules = schedules
        self._order = order
        self.barriers = barriers

    async def prepare(self, barriers: bytes | None) -> None:
        """Call it once when the tables have been restored, before the first chunk. `barriers`: what the shard
        remembered of them, if anything.

        Raises:
            ConfigurationError: the log was written before release 0.1.0.
            DecodeError: `barriers` is of an unknown version.
        """
        self.schedules.check_release()
        if barriers is not None:
            self.barriers.restore(barriers)
        await self.events.prepare()

    def process_in_steps(self, chunk: Chunk) -> Iterator[None]:
        """Processes the chunk's signals in steps of about `STEP_S` seconds, then writes each changed state once. The
        caller returns control to the event loop between steps.
        """
        waiting = iter(chunk.records)
        while self._step(chunk, waiting):
            yield
        self.events.store()
        yield from self.schedules.store_in_steps(STEP_S)

    def _step(self, chunk: Chunk, waiting: Iterator[Record]) -> bool:
        """Processes records for `STEP_S` seconds; whether there may be more."""
        events, order, until = self.events, self._order, time.monotonic() + STEP_S
        with self.schedules.limit.armed():
            for record in waiting:
                key = record.key
                if key is not None and key.startswith(SCHEDULE_PREFIX):
                    order.process(key, chunk, record)
                elif key is not None and key.startswith(BARRIER_PREFIX):
                    self.barriers.process(chunk, record)
                else:
                    events.process(chunk, record)
                if time.monotonic() > until:
                    return True
        return False
