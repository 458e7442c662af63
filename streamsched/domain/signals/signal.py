"""Signals: the records of topic `signals`, each addressed by its record key to one home.

To an event key's home: `Subscribe`, `Unsubscribe`, `Occurred`. To a schedule's home (`domain.signals.home`): `Put`,
`Drop`, `Woken`, `Replay`, `Occurred` (forwarded by an event key's home, or a tick from the timers). Control travels in
the same partition as the events it governs, so the order of the log decides which definition judges which event
(promise G4).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from streamsched.domain.events.event import Event
from streamsched.domain.events.lateness import Late
from streamsched.domain.names import ScheduleRef
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import Trigger

IN_TIME: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class Put:
    """Replaces the schedule's definition. Idempotent: a generation not above the known one changes nothing, except that
    `started` may raise the sequence.

    Attributes:
        enabled: a trigger that holds makes a job.
        keep: keep the compatible part of the accumulation. Not enabled and keeping is a pause: events count, nothing
            fires until an enabled definition.
        late: the policy for late events; None counts them.
        draining: of a pause that keeps: events do not count.
        backlog: of a pause that makes jobs (enabled): each waits by itself, and there are at most `MOST_BACKLOG`.
        started: highest sequence number of this generation's jobs known to exist, whatever the state says; the next
            job has a higher one.
    """

    schedule: ScheduleRef
    generation: int
    enabled: bool
    trigger: Trigger
    consumption: Consumption = Consumption.CUMULATIVE
    keep: bool = False
    late: Late | None = None
    started: int = 0
    draining: bool = False
    backlog: bool = False


@dataclass(frozen=True, slots=True)
class Drop:
    """The schedule is deleted, and its accumulation with it."""

    schedule: ScheduleRef
    generation: int


@dataclass(frozen=True, slots=True)
class Subscribe:
    """The schedule, which has this affinity, listens to `key` from here on."""

    key: str
    schedule: ScheduleRef
    generation: int
    affinity: int | None = None


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """The schedule no longer listens to `key`; one older than the known subscription changes nothing."""

    key: str
    schedule: ScheduleRef
    generation: int


class Occurred(NamedTuple):
    """An event happened.

    Attributes:
        delay: time between the event and its append to the log, in whole milliseconds; 0 when less than a second.
        statistics: the commit has been signalled before, without bytes and rows; only totals count it now.
        logged_ms: when the log took the event, in milliseconds since the epoch; 0: not known, as of a tick.
    """

    event: Event
    delay: timedelta = IN_TIME
    statistics: bool = False
    logged_ms: int = 0


@dataclass(frozen=True, slots=True)
class Woken:
    """The wake-up a fold requested. Late, repeated or cancelled ones are harmless: the fold knows its deadlines, and
    evaluates them at the later of log time and `due_at`.

    Attributes:
        cell: the correlation key that requested it; "" for a schedule that does not correlate.
        due_at: the requested time (UTC).
    """

    schedule: ScheduleRef
    generation: int
    cell: str
    due_at: datetime


@dataclass(frozen=True, slots=True)
class Replay:
    """Folds the parked signals of a halted schedule again (`domain.fold.halt`); otherwise no effect."""

    schedule: ScheduleRef
    generation: int


class ArrivalTime(NamedTuple):
    """The time by which signals are put in order: that of the log, and within its millisecond that of the event, which
    its source has said; a signal without one comes after those with one.
    """

    logged_ms: int
    happened_us: int


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
#: After every time of an event.
_LAST: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND + 1


def arrival_time(signal: Signal, record_ms: int) -> ArrivalTime:
    """When a signal arrived whose record has this time. A late event says nothing about the moment of its arrival."""
    if not isinstance(signal, Occurred) or not signal.logged_ms:
        return ArrivalTime(record_ms, _LAST)
    late = signal.delay > IN_TIME
    return ArrivalTime(signal.logged_ms, _LAST if late else (signal.event.time - _EPOCH) // _MICROSECOND)


Signal = Put | Drop | Subscribe | Unsubscribe | Occurred | Woken | Replay
