"""What people and emitters do to a cluster: schedules made and changed while events flow, some twice, some astray."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from streamsched.catalog import change
from streamsched.codec import event as event_codec
from streamsched.domain.events.event import CustomHappened, Event, Partition, PartitionsAdded, StreamSize
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, ScheduleRef, StreamRef
from streamsched.domain.schedules.pause import Pause, PauseMode
from streamsched.domain.schedules.schedule import Misfire, Schedule, ScheduleRecord
from streamsched.domain.signals.home import choose_affinity, home, key_hash
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import (
    AllOf,
    AnyOf,
    CustomEvent,
    Every,
    Leaf,
    Partitions,
    Quiet,
    Silence,
    StreamGrowth,
    Then,
    Trigger,
    Unless,
    Within,
    event_keys,
)
from streamsched.log.control import control, outbox_record
from streamsched.log.topics import public_topic
from streamsched.ports.broker import Broker, Outgoing
from streamsched.store.catalog.records import ScheduleChange
from tests.faults.load.user import Returned
from tests.simulation.database import Database
from tests.support.judged_order import Sent

_PLACES: Final = 3


@dataclass(slots=True)
class Reports:
    """What was done to the cluster, for its judge.

    Attributes:
        first_ticks: when a generation that begins anew ticks first.
        next_ticks: when it would have ticked next when the timers were taken away at the end.
        sent: event id → its key, and how many times it was appended.
        times: event id → when it was sent and acknowledged; of those that were sent once.
        after: event id → how many changes had returned when it was appended first.
        returned: the changes of which the log has every record.
        control: (key, value) of every record that a change wrote to the outbox.
    """

    sent: dict[str, tuple[str, int | None]] = field(default_factory=dict)
    times: dict[str, Sent] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)
    returned: list[Returned] = field(default_factory=list)
    control: list[tuple[bytes, bytes]] = field(default_factory=list)
    first_ticks: dict[tuple[ScheduleRef, int], datetime] = field(default_factory=dict)
    next_ticks: dict[tuple[ScheduleRef, int], datetime] = field(default_factory=dict)


class Traffic:
    """Drives one cluster; everything it does is drawn from its random numbers."""

    def __init__(self, rng: random.Random, broker: Broker, database: Database, *, shards: int, events: int) -> None:
        self._rng = rng
        self._broker = broker
        self._database = database
        self._shards = shards
        self._events = events
        self._sent: list[Event] = []
        self._busy: set[ScheduleRef] = set()
        self.reported = Reports()

    async def run(self) -> None:
        """Makes the schedules, then emits events while others change them; at the end no timer is left."""
        refs = [ScheduleRef("default", "town", f"s{number}") for number in range(self._rng.randint(3, 7))]
        await asyncio.gather(*(self._create(ref) for ref in refs))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._emit())
            group.create_task(self._meddle(refs))
        await asyncio.sleep(self._rng.uniform(0, 3))
        timers = self._database.timers.values()
        self.reported.next_ticks = {(timer.schedule, timer.generation): timer.due_at for timer in timers}
        self._database.timers.clear()

    # -- definitions

    async def _create(self, ref: ScheduleRef) -> None:
        before, now = self._database.schedules.get(ref), self._database.clock.now()
        made = change.create_schedule(before, self._definition(ref), enabled=True, reason="", now=now)
        await self._apply(replace(made, after=replace(made.after, affinity=_affinity(made.after.definition))))

    async def _meddle(self, refs: list[ScheduleRef]) -> None:
        for _ in range(self._rng.randint(2, 8)):
            await asyncio.sleep(self._rng.expovariate(1.5))
            await self._apply(self._changed(self._database.schedules[self._rng.choice(refs)]))

    def _changed(self, before: ScheduleRecord) -> ScheduleChange:
        definition, now = self._definition(before.definition.ref), self._database.clock.now()
        if not before.exists:
            return change.create_schedule(before, definition, enabled=True, reason="", now=now)
        mode = Pause(self._rng.choice(list(PauseMode)))
        if not before.enabled:
            if self._rng.random() < 0.3:
                return change.pause_schedule(before, mode, now=now)
            return change.enable_schedule(before, reason="", now=now)
        keep = self._rng.random() < 0.3
        match self._rng.randrange(6):
            case 0:
                return change.delete_schedule(before, reason="", now=now)
            case 1 | 2:
                return change.pause_schedule(before, mode, now=now)
            case _:
                return change.update_schedule(before, definition, keep=keep, reason="", now=now)

    async def _apply(self, wanted: ScheduleChange) -> None:
        """A transaction: ids first, visible a moment later; the change returns when the log has it."""
        signals = control(wanted.before, wanted.after)
        rows = self._database.numbered([outbox_record(each, wanted.after.affinity) for each in signals])
        await asyncio.sleep(self._rng.expovariate(200))
        self._database.change(wanted, rows)
        if not wanted.keeps:
            ref, generation = wanted.after.definition.ref, wanted.after.generation
            for due_at in wanted.timers.values():
                self.reported.first_ticks[ref, generation] = due_at
        self.reported.control += [(row.key.encode(), row.value) for row in rows]
        while any(row.id in self._database.outbox for row in rows):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        name, now = wanted.after.definition.ref.name, self._database.clock.now()
        self.reported.returned.append(Returned(name, wanted.after.generation, now, not wanted.keeps))

    def _definition(self, ref: ScheduleRef) -> Schedule:
        found = [self._leaf() for _ in range(self._rng.choice((1, 1, 2, 3)))]
        leaves = tuple(dict.fromkeys(found))
        group: Trigger = leaves[0]
        if len(leaves) > 1:
            group = AllOf(leaves) if self._rng.random() < 0.6 else AnyOf(leaves)
        consumption = self._rng.choice(list(Consumption))
        match self._rng.randrange(9):
            case 0:
                group, consumption = Quiet(group, timedelta(seconds=1), None), Consumption.CUMULATIVE
            case 1:
                group, consumption = Within(group, timedelta(seconds=2)), Consumption.CUMULATIVE
            case 2:
                group = Every(timedelta(seconds=1))
            case 3:
                silent = CustomEvent(EventName("default", f"e{self._rng.randrange(_PLACES)}"))
                group = AllOf((Silence(silent, timedelta(seconds=1)), self._leaf()))
                consumption = Consumption.CUMULATIVE
            case 4 | 5 if len(leaves) > 1:
                group, consumption = Then(leaves[0], leaves[1], timedelta(seconds=2)), Consumption.CUMULATIVE
            case 6 if len(leaves) > 1:
                group, consumption = Unless(leaves[0], leaves[1], timedelta(seconds=1)), Consumption.CUMULATIVE
            case _:
                pass
        return Schedule(ref, ProgramRef("default", "town", "p"), group, consumption=consumption, misfire=Misfire.ALL)

    def _leaf(self) -> Leaf:
        place = self._rng.randrange(_PLACES)
        match self._rng.randrange(4):
            case 0:
                return StreamGrowth(StreamRef("default", f"z{place}"), self._rng.randint(50, 300))
            case 1:
                return CustomEvent(EventName("default", f"e{place}"), self._rng.randint(1, 4))
            case _:
                return Partitions(DatasetRef("default", f"d{place}"), self._rng.randint(1, 6))

    # -- events

    async def _emit(self) -> None:
        while len(self._sent) < self._events:
            await asyncio.sleep(self._rng.expovariate(self._events / 8))
            batch = [self._event() for _ in range(self._rng.choice((1, 1, 1, 4)))]
            changes, sent_at = len(self.reported.returned), self._database.clock.now()
            await self._broker.append([self._addressed(event) for event in batch])
            times = Sent(sent_at, self._database.clock.now())
            for event in batch:
                if event.id in self.reported.sent:
                    self.reported.times.pop(event.id, None)
                else:
                    self.reported.times[event.id] = times
                self.reported.after.setdefault(event.id, changes)
                _, copies = self.reported.sent.get(event.id, ("", 0))
                self.reported.sent[event.id] = event.key, (copies or 0) + 1

    def _event(self) -> Event:
        """A new one, or one of the last thirty again."""
        if self._sent and self._rng.random() < 0.15:
            return self._rng.choice(self._sent[-30:])
        number, place = len(self._sent), self._rng.randrange(_PLACES)
        match self._rng.randrange(4):
            case 0:
                fact = StreamSize(StreamRef("default", f"z{place}"), self._rng.randint(10, 100), absolute=False)
            case 1:
                fact = CustomHappened(EventName("default", f"e{place}"), {})
            case _:
                keys = self._rng.choice((1, 1, 3))
                parts = tuple(
                    Partition(f"n={number}/k={key}", {"n": str(number), "k": str(key)}) for key in range(keys)
                )
                fact = PartitionsAdded(DatasetRef("default", f"d{place}"), parts, keys)
        event = Event(f"n{number}", "simulation", self._database.clock.now(), fact)
        self._sent.append(event)
        return event

    def _addressed(self, event: Event) -> Outgoing:
        astray = self._rng.random() < 0.2
        partition = self._rng.randrange(self._shards) if astray else home(event.key, self._shards)
        return Outgoing(public_topic(event.fact), partition, event.key.encode(), event_codec.encode(event))


def _affinity(definition: Schedule) -> int | None:
    """Of two schedules in three that of an event key: the others live at homes of their own."""
    if key_hash(str(definition.ref)) % 3 == 0:
        return None
    return choose_affinity(event_keys(definition.trigger), Counter())
