"""Schedules that only count, and events of many kinds, some of them twice: what outages and upgrades are judged by."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

from streamsched.codec.records import signal as signal_codec
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, ScheduleRef, StreamRef
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Put, Subscribe
from streamsched.domain.triggers.trigger import AllOf, AnyOf, CustomEvent, Partitions, StreamGrowth, event_keys
from streamsched.log.topics import EVENTS, PARTITIONS, SIGNALS, STREAM_SIZES
from streamsched.ports.broker import Outgoing
from tests.faults.load.traffic import Json, key_of
from tests.faults.load.user import Returned
from tests.faults.sites.installation_site import SHARDS

SCHEDULES = 200


@dataclass(slots=True)
class PlainLoad:
    """One app of schedules that count events, and the events that were sent.

    Attributes:
        emitted: event id → event, in native JSON.
        sent_at: event id → when it was made, in seconds since the epoch.
        after: event id → how many changes had returned by then.
        returned: changes of which the log has every record.
    """

    number: int
    rng: random.Random
    schedules: dict[str, Schedule] = field(default_factory=dict)
    emitted: dict[str, Json] = field(default_factory=dict)
    sent_at: dict[str, float] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)
    returned: list[Returned] = field(default_factory=list)

    def __post_init__(self) -> None:
        for number in range(SCHEDULES):
            name = f"s{number}"
            leaves = [self._leaf() for _ in range(self.rng.choice((1, 1, 2, 2, 3)))]
            leaves = list({next(iter(event_keys(leaf))): leaf for leaf in leaves}.values())
            every = self.rng.random() < 0.6
            group = AllOf(tuple(leaves)) if every else AnyOf(tuple(leaves))
            trigger = leaves[0] if len(leaves) == 1 else group
            self.schedules[name] = Schedule(
                ScheduleRef("default", self.name, name), ProgramRef("default", self.name, "p"), trigger
            )

    @property
    def name(self) -> str:
        """The app's; all names of the load contain it."""
        return f"t{self.number}"

    @property
    def enabled(self) -> Mapping[str, bool]:
        return dict.fromkeys(self.schedules, True)

    def _leaf(self) -> Partitions | StreamGrowth | CustomEvent:
        place = self.rng.randrange(30)
        match self.rng.choice("pppse"):
            case "p":
                return Partitions(DatasetRef("default", f"t{self.number}d{place}"), self.rng.randint(1, 12))
            case "s":
                return StreamGrowth(StreamRef("default", f"t{self.number}z{place}"), self.rng.randint(100, 5000))
            case _:
                return CustomEvent(EventName("default", f"t{self.number}e{place}"), self.rng.randint(1, 8))

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
        if self.emitted and self.rng.random() < 0.08:
            event = self.emitted[self.rng.choice(list(self.emitted)[-100:])]
        else:
            event = self._fresh()
            self.emitted[event["id"]] = event
            self.sent_at[event["id"]] = time.time()
            self.after[event["id"]] = len(self.returned)
        topic = {"partitions.added": PARTITIONS, "stream.size": STREAM_SIZES}.get(event["type"], EVENTS)
        foreign = self.rng.random() < 0.2
        partition = self.rng.randrange(SHARDS) if foreign else home(key_of(event), SHARDS)
        return Outgoing(topic, partition, None, orjson.dumps(event))

    def _fresh(self) -> Json:
        number, place = len(self.emitted), self.rng.randrange(30)
        kind: str = self.rng.choice(("partitions.added",) * 6 + ("stream.size", "custom"))
        data: dict[str, Any]
        if kind == "partitions.added":
            keys = [f"n={number}/k={k}" for k in range(self.rng.choice((1, 1, 1, 3)))]
            data = {"dataset": f"default.t{self.number}d{place}", "partitions": keys}
        elif kind == "stream.size":
            data = {"stream": f"default.t{self.number}z{place}", "bytes": self.rng.randint(1, 2000), "absolute": False}
        else:
            data = {"name": f"default.t{self.number}e{place}"}
        now = datetime.now(UTC).isoformat()
        return {"id": f"t{self.number}-{number}", "source": "faults", "time": now, "type": kind, "data": data}
