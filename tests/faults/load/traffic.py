"""The events of one trial: of every kind, some of them twice, some from long ago."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from streamsched.domain.events.event import Outcome
from tests.faults.load.generated_schedules import CUSTOMERS, DAYS, PLACES, PROGRAMS, REGIONS, SELDOM, STREAMS

Json = Mapping[str, Any]


@dataclass(slots=True)
class Traffic:
    """Attributes:
    emitted: event id → event, in native JSON.
    sent_at: event id → when it was given to an emitter first, in seconds since the epoch.
    after: event id → how many changes had returned by then.
    """

    name: str
    rng: random.Random
    emitted: dict[str, Json] = field(default_factory=dict)
    sent_at: dict[str, float] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)
    levels: dict[int, int] = field(default_factory=dict)

    def event(self, *, changes: int) -> Json:
        """A new event, or one of the last hundred again. `changes`: how many have returned."""
        if self.emitted and self.rng.random() < 0.1:
            return self.emitted[self.rng.choice(list(self.emitted)[-100:])]
        event = self._fresh(len(self.emitted))
        self.emitted[event["id"]] = event
        self.sent_at[event["id"]] = time.time()
        self.after[event["id"]] = changes
        return event

    def _fresh(self, number: int) -> Json:
        rng, place = self.rng, self.rng.randrange(PLACES)
        data: dict[str, Any]
        match rng.choice("pppppppszeeeeexr"):
            case "p":
                kind, data = "partitions.added", {"dataset": f"default.{self.name}d{place}"}
                data["partitions"] = [self._partition(number, n) for n in range(rng.choice((1, 1, 1, 3)))]
            case "s" | "z":
                kind, data = "stream.size", self._size(rng.randrange(STREAMS))
            case "e":
                kind, data = "custom", {"name": f"default.{self.name}e{place}", "attributes": self._values()}
            case "x":
                program = f"default.{self.name}x.p{rng.randrange(PROGRAMS)}"
                outcome = rng.choice(list(Outcome)).value
                kind, data = "program.status", {"program": program, "run": f"r{number}", "outcome": outcome}
            case _:
                kind, data = "custom", {"name": f"default.{self.name}r{rng.randrange(SELDOM)}", "attributes": {}}
        happened = datetime.now(UTC) - (timedelta(hours=1) if rng.random() < 0.05 else timedelta(0))
        return {
            "id": f"{self.name}-{number}",
            "source": "faults",
            "time": happened.isoformat(),
            "type": kind,
            "data": data,
        }

    def _size(self, place: int) -> dict[str, Any]:
        """The first half of the streams say how much they grew, the others how large they are; now and then one is
        emptied."""
        stream, grown = f"default.{self.name}z{place}", self.rng.randint(1, 40)
        if place < STREAMS // 2:
            return {"stream": stream, "bytes": grown, "absolute": False}
        level = 0 if self.rng.random() < 0.05 else self.levels.get(place, 0) + grown
        self.levels[place] = level
        return {"stream": stream, "bytes": level, "absolute": True}

    def _values(self) -> dict[str, str]:
        day = self.rng.choice(DAYS)
        hour = f"{day}T{self.rng.randrange(6):02}"
        return {"customer": self.rng.choice(CUSTOMERS), "region": self.rng.choice(REGIONS), "day": day, "hour": hour}

    def _partition(self, number: int, part: int) -> dict[str, Any]:
        values = {**self._values(), "n": f"{number}-{part}"}
        key = "/".join(f"{name}={value}" for name, value in values.items())
        size = self.rng.randint(1, 200)
        return {"key": key, "values": values, "bytes": size, "rows": size // 2}


def key_of(event: Json) -> str:
    """What an event is about, from its JSON."""
    data = event["data"]
    match event["type"]:
        case "partitions.added":
            return f"partition:{data['dataset']}"
        case "stream.size":
            return f"stream:{data['stream']}"
        case "program.status":
            return f"program:{data['program']}:{data['outcome']}"
        case _:
            return f"event:{data['name']}"
