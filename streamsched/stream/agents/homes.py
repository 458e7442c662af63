"""The homes of a shard: each signal goes to the one that its key names, in the order of the log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from streamsched.ports.broker import Chunk, Record
from streamsched.stream.agents.event_home import EventHome
from streamsched.stream.agents.schedule_home import SCHEDULE_PREFIX, ScheduleHome

#: Seconds of folding, or of writing rows, before control returns to the event loop. One fold is never divided.
STEP_S: Final = 0.1


class Homes:
    """The home of a shard's event keys and that of its schedules."""

    def __init__(self, events: EventHome, schedules: ScheduleHome) -> None:
        self.events = events
        self.schedules = schedules

    async def prepare(self) -> None:
        """Call it once when the tables have been restored, before the first chunk.

        Raises:
            ConfigurationError: the log was written before release 0.1.0.
        """
        self.schedules.check_release()
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
        events, schedules, until = self.events, self.schedules, time.monotonic() + STEP_S
        with schedules.limit.armed():
            for record in waiting:
                key = record.key
                if key is not None and key.startswith(SCHEDULE_PREFIX):
                    schedules.process(key, chunk, record)
                else:
                    events.process(chunk, record)
                if time.monotonic() > until:
                    return True
        return False
