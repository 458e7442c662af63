"""A cluster: shards on a log, and the few words a test needs to write to it and read from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from streamsched.codec.records import signal as signal_codec
from streamsched.codec.records import wakeup as wakeup_codec
from streamsched.domain.events.event import Event, Partition, PartitionsAdded
from streamsched.domain.events.lateness import Late
from streamsched.domain.fold.effect import Wake
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.names import DatasetRef, ScheduleRef
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Drop, Put, Signal, Subscribe, Unsubscribe, Woken
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import Trigger, event_keys
from streamsched.log.topics import DEAD_LETTER, SIGNALS, WAKEUPS
from streamsched.ports.broker import Broker, Chunk, Outgoing, Record
from streamsched.stream.agents.event_home import EventHome
from streamsched.stream.poison_search import PoisonSearch
from streamsched.stream.shards.shard import Shard, ShardSettings
from streamsched.stream.shards.shard_runner import BackOff, ShardRunner
from streamsched.testing.shards import Shards

NOON: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)


class ShardCluster(Shards):
    """One installation's log with its shards, without workers or PostgreSQL."""

    def __init__(self, broker: Broker, count: int = 3) -> None:
        super().__init__(broker, count)
        self._woken: dict[bytes, Wake] = {}

    @asynccontextmanager
    async def tended(self, settings: ShardSettings | None = None) -> AsyncIterator[None]:
        """Every shard in a tenure, as workers have them: one whose turn fails starts over from the log, at once."""
        poison_searches = [PoisonSearch() for _ in range(self.count)]
        at_once = BackOff(first=0.001, most=0.001)

        def made(number: int) -> Shard:
            self.shards[number] = Shard(self.broker, number, settings, poison_search=poison_searches[number])
            return self.shards[number]

        def runner(number: int) -> ShardRunner:
            return ShardRunner(lambda: made(number), number=number, back_off=at_once)

        self.shards = [Shard(self.broker, number, settings) for number in range(self.count)]
        runners = [runner(number) for number in range(self.count)]
        running = [asyncio.create_task(each.run()) for each in runners]
        try:
            yield
        finally:
            for each in runners:
                each.end()
            await asyncio.wait(running)
            self.shards = []

    async def signal(self, *signals: Signal, affinity: int | None = None) -> None:
        """Appends control as the relay would, in order, of a schedule of this affinity."""
        records = [signal_codec.encode(signal, affinity) for signal in signals]
        await self.broker.append([Outgoing(SIGNALS, home(key, self.count), key, value) for key, value in records])

    async def put(
        self,
        ref: ScheduleRef,
        trigger: Trigger,
        generation: int = 1,
        *,
        enabled: bool = True,
        consumption: Consumption = Consumption.CUMULATIVE,
        keep: bool = False,
        late: Late | None = None,
    ) -> None:
        """A schedule, as creating or updating it would."""
        await self.signal(
            *(Subscribe(key, ref, generation) for key in sorted(event_keys(trigger))),
            Put(ref, generation, enabled, trigger, consumption, keep, late),
        )

    async def wake(self) -> int:
        """Answers the wake-ups that schedules wait for, as the timers would when their time has come; how many."""
        asked: dict[bytes, Wake] = {}
        for record in await self.records(WAKEUPS):
            if record.key is not None and record.value is not None:
                asked[record.key] = wakeup_codec.decode(record.value)
        due = [wake for key, wake in asked.items() if wake.at is not None and self._woken.get(key) != wake]
        self._woken |= asked
        await self.signal(
            *(Woken(wake.schedule, wake.generation, wake.cell, wake.at) for wake in due if wake.at is not None)
        )
        return len(due)

    async def drop(self, ref: ScheduleRef, trigger: Trigger, generation: int) -> None:
        """Deletes a schedule."""
        await self.signal(
            *(Unsubscribe(key, ref, generation) for key in sorted(event_keys(trigger))), Drop(ref, generation)
        )

    async def dead_letters(self) -> list[dict[str, Any]]:
        return [orjson.loads(record.value) for record in await self.records(DEAD_LETTER) if record.value is not None]


def process_signals(home: EventHome, signals: Sequence[Signal], time_ms: int = 0) -> None:
    """Has an event home process these signals as one chunk of log time `time_ms`."""
    records = [Record(offset, *signal_codec.encode(signal), time_ms) for offset, signal in enumerate(signals)]
    for record in records:
        home.process(Chunk(SIGNALS, 0, records, len(records)), record)
    home.store()


def schedule(name: str = "s") -> ScheduleRef:
    """A schedule's name in an app of its own."""
    return ScheduleRef("default", "town", name)


def landed(number: int, dataset: str = "flights", *, source: str = "test", keys: int = 1) -> Event:
    """Event `number` of a dataset: `keys` partitions landed. The same arguments give the same event."""
    partitions = tuple(Partition(f"n={number}/k={key}", {"n": str(number), "k": str(key)}) for key in range(keys))
    return Event(f"{dataset}-{number}", source, NOON, PartitionsAdded(DatasetRef("default", dataset), partitions, keys))


def schedule_name(job: ReadyJob) -> str:
    """The name of the schedule that was satisfied."""
    assert job.schedule is not None
    return job.schedule.name


def event_ids(job: ReadyJob) -> list[str]:
    """The events a job is given, leaf by leaf, in order of arrival."""
    return [event.id for contribution in job.contributions for event in contribution.events]
