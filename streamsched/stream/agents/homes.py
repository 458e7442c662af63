"""The homes of a shard: each signal goes to the one that its key names, in the order of the log, and each event of a
public topic through the ingest agent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from streamsched.codec.records.barrier import PREFIX as BARRIER_PREFIX
from streamsched.domain.signals.home import SCHEDULE_PREFIX
from streamsched.log.topics import SIGNALS
from streamsched.ports.broker import Chunk, Record
from streamsched.stream.agents.arrival_order import ArrivalOrder
from streamsched.stream.agents.barriers import Barriers
from streamsched.stream.agents.event_home import EventHome
from streamsched.stream.agents.ingest import Ingest
from streamsched.stream.agents.schedule_home import ScheduleHome
from streamsched.stream.agents.signal_delivery import SignalDelivery

#: Seconds of folding, or of writing rows, before control returns to the event loop. One fold is never divided.
STEP_S: Final = 0.1


class Homes:
    """The home of a shard's event keys, that of its schedules, and the barriers between those of all shards; and the
    ingest agent, whose events may have their homes here.
    """

    def __init__(
        self,
        *,
        ingest: Ingest,
        events: EventHome,
        schedules: ScheduleHome,
        order: ArrivalOrder,
        barriers: Barriers,
        delivery: SignalDelivery,
    ) -> None:
        self.events = events
        self.schedules = schedules
        self.barriers = barriers
        self.delivery = delivery
        self._ingest = ingest
        self._order = order

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
        await self.schedules.read_large()

    def process_in_steps(self, chunk: Chunk) -> Iterator[None]:
        """Processes the chunk's records in steps of about `STEP_S` seconds. The caller returns control to the event
        loop between steps.
        """
        waiting = iter(chunk.records)
        if chunk.topic == SIGNALS:
            while self._step(chunk, waiting, self._process_signal):
                yield
            self.delivery.position = chunk.next_position
        else:
            self.delivery.begin_events(self._ingest.begin())
            while self._step(chunk, waiting, self._ingest.process):
                yield

    def store_in_steps(self) -> Iterator[None]:
        """Writes each state that changed in this turn once, in such steps too."""
        self.events.store()
        yield from self.schedules.store_in_steps(STEP_S)

    def _step(self, chunk: Chunk, waiting: Iterator[Record], process: Callable[[Chunk, Record], None]) -> bool:
        """Processes records for `STEP_S` seconds; whether there may be more."""
        until = time.monotonic() + STEP_S
        with self.schedules.limit.arm():
            for record in waiting:
                process(chunk, record)
                if time.monotonic() > until:
                    return True
        return False

    def _process_signal(self, chunk: Chunk, record: Record) -> None:
        key = record.key
        self.delivery.pass_signal(record.offset, record.time_ms)
        if key is not None and key.startswith(SCHEDULE_PREFIX):
            self.delivery.pass_schedule_signal(key, record.value)
            self._order.process(key, chunk, record)
        elif key is not None and key.startswith(BARRIER_PREFIX):
            self.barriers.process(chunk, record)
        else:
            self.events.process(chunk, record)
