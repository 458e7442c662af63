"""Schedules that only count, and events that go straight into the log: what outages and upgrades are judged by."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import orjson

from streamsched.codec.records import signal as signal_codec
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Put, Subscribe
from streamsched.domain.triggers.trigger import event_keys
from streamsched.log.topics import EVENTS, PARTITIONS, PROGRAM_STATUS, SIGNALS, STREAM_SIZES
from streamsched.ports.broker import Outgoing
from tests.faults.load.generated_schedules import NO_EVIDENCE, GeneratedSchedules
from tests.faults.load.traffic import Json, Traffic, key_of
from tests.faults.load.user import Returned
from tests.faults.sites.installation_site import SHARDS

SCHEDULES: Final = 200
_TOPICS: Final = {"partitions.added": PARTITIONS, "stream.size": STREAM_SIZES, "program.status": PROGRAM_STATUS}


@dataclass(slots=True)
class PlainLoad:
    """One app, whose schedules are all enabled, and its traffic.

    Attributes:
        returned: changes of which the log has every record.
    """

    number: int
    rng: random.Random
    schedules: Mapping[str, Schedule] = field(init=False)
    traffic: Traffic = field(init=False)
    returned: list[Returned] = field(default_factory=list)

    def __post_init__(self) -> None:
        generated = GeneratedSchedules(AppRef("default", self.name), self.rng, NO_EVIDENCE)
        refs = [ScheduleRef("default", self.name, f"s{number}") for number in range(SCHEDULES)]
        program = ProgramRef("default", self.name, "p")
        self.schedules = {ref.name: Schedule(ref, program, generated.plain()) for ref in refs}
        self.traffic = Traffic(self.name, self.rng)

    @property
    def name(self) -> str:
        """The app's; all names of the load contain it."""
        return f"t{self.number}"

    @property
    def enabled(self) -> Mapping[str, bool]:
        return dict.fromkeys(self.schedules, True)

    def control(self) -> Iterator[Outgoing]:
        """The schedules, as the relay would send them."""
        for schedule in self.schedules.values():
            ref, trigger = schedule.ref, schedule.trigger
            for each in (*(Subscribe(k, ref, 1) for k in sorted(event_keys(trigger))), Put(ref, 1, True, trigger)):
                where, value = signal_codec.encode(each)
                yield Outgoing(SIGNALS, home(where, SHARDS), where, value)

    def acknowledged(self) -> None:
        """The log has all of `control`: every event from here on is judged by it."""
        now = datetime.now(UTC)
        self.returned = [Returned(name, 1, now, anew=True) for name in self.schedules]

    def event(self) -> Outgoing:
        """A new event, or one of the last hundred again; some through a foreign partitioner."""
        event: Json = self.traffic.event(changes=len(self.returned))
        foreign = self.rng.random() < 0.2
        partition = self.rng.randrange(SHARDS) if foreign else home(key_of(event), SHARDS)
        return Outgoing(_TOPICS.get(event["type"], EVENTS), partition, None, orjson.dumps(event))
