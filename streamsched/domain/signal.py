"""Signals: what travels on topic `signals`, each addressed by its record key to one home.

To an event key's home: `Subscribe`, `Unsubscribe`, `Occurred`. To a schedule's home (`schedule:<ref>`): `Put`, `Drop`,
`Occurred` (forwarded by an event key's home, or a tick from the timers). Control travels in the same partition as the
events it governs, so the order of the log decides which definition judges which event (promise G4).
"""

from __future__ import annotations

from dataclasses import dataclass

from streamsched.domain.consumption import Consumption
from streamsched.domain.event import Event
from streamsched.domain.names import ScheduleRef
from streamsched.domain.trigger import Trigger


@dataclass(frozen=True, slots=True)
class Put:
    """From here on this definition judges. Idempotent: a generation not above the known one changes nothing."""

    schedule: ScheduleRef
    generation: int
    enabled: bool
    trigger: Trigger
    consumption: Consumption = Consumption.CUMULATIVE


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


@dataclass(frozen=True, slots=True)
class Occurred:
    """An event happened."""

    event: Event


Signal = Put | Drop | Subscribe | Unsubscribe | Occurred
