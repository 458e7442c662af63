"""Signals: what travels on topic `signals`, each addressed by its record key to one home.

To an event key's home: `Subscribe`, `Unsubscribe`, `Occurred`. To a schedule's home (`schedule:<ref>`): `Put`, `Drop`,
`Woken`, `Replay`, `Occurred` (forwarded by an event key's home, or a tick from the timers). Control travels in the same
partition as the events it governs, so the order of the log decides which definition judges which event (promise G4).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from streamsched.domain.consumption import Consumption
from streamsched.domain.event import Event
from streamsched.domain.lateness import Late
from streamsched.domain.names import ScheduleRef
from streamsched.domain.trigger import Trigger

IN_TIME: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class Put:
    """From here on this definition judges. Idempotent: a generation not above the known one changes nothing
    but how many jobs are known.

    Attributes:
        keep: what still fits of the former generation's accumulation goes on. Not enabled and keeping is a pause:
            events go on counting, nothing fires until a definition that is enabled.
        late: what becomes of late events; None counts them like any other.
        started: so many jobs of this generation are known to have gone out already, whatever its state says; the next
            one has a higher number. The only part of a repeated `Put` that counts.
    """

    schedule: ScheduleRef
    generation: int
    enabled: bool
    trigger: Trigger
    consumption: Consumption = Consumption.CUMULATIVE
    keep: bool = False
    late: Late | None = None
    started: int = 0


@dataclass(frozen=True, slots=True)
class Drop:
    """The schedule is gone; its accumulation goes with it."""

    schedule: ScheduleRef
    generation: int


@dataclass(frozen=True, slots=True)
class Subscribe:
    """The schedule listens to `key` from here on."""

    key: str
    schedule: ScheduleRef
    generation: int


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """The schedule no longer listens to `key`; one older than the known subscription changes nothing."""

    key: str
    schedule: ScheduleRef
    generation: int


class Occurred(NamedTuple):
    """An event happened.

    Attributes:
        delay: how long after it happened the log had it, to the millisecond; none where it is less than a second.
    """

    event: Event
    delay: timedelta = IN_TIME


@dataclass(frozen=True, slots=True)
class Woken:
    """Time has passed: the wake-up a fold asked for. Late or repeated it is harmless, as is one asked for no more: the
    fold knows its own deadlines, and judges them by the log's time or what the wake-up was due at, whichever is later.

    Attributes:
        cell: which accumulation of the schedule asked; "" in one that does not correlate.
        due_at: what it asked for.
    """

    schedule: ScheduleRef
    generation: int
    cell: str
    due_at: datetime


@dataclass(frozen=True, slots=True)
class Replay:
    """What is parked of this schedule may be folded again (`domain.halt`); of one that is well it changes nothing."""

    schedule: ScheduleRef
    generation: int


Signal = Put | Drop | Subscribe | Unsubscribe | Occurred | Woken | Replay
