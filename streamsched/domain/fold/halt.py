"""A halt: a schedule that processes no signals because one of them failed. Shown as the schedule's error.

A signal whose fold raises (a bug) halts that schedule alone. The signal and those after it are parked, in order, until
they are replayed or a change makes them obsolete:

| signal              | effect                                                                                        |
|---------------------|-----------------------------------------------------------------------------------------------|
| an event, a wake-up | is parked                                                                                     |
| `Replay`            | folds the parked signals, in order, each at its own time, up to one that raises               |
| `Put` that keeps    | takes effect at once, and judges the parked signals as if they arrived then                   |
| `Put` that resets   | takes effect at once; parked signals are dropped like the accumulation                        |
| `Drop`              | everything is dropped                                                                         |
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from streamsched.domain.events.event import Ticked
from streamsched.domain.signals.signal import Drop, Occurred, Put, Replay, Signal, Subscribe, Unsubscribe, Woken

#: Most parked signals of one schedule; they are in the memory of its shard. Further ones become dead letters.
MOST_PARKED: Final = 100_000
#: Characters of a message that are kept.
_MESSAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class Halt:
    """Attributes:
    kind, message: of the exception.
    signal: description of the signal that failed.
    at: log time of that signal (UTC).
    generation: the newest definition received; older ones have no effect.
    first: number of the first parked signal; they are numbered in order.
    parked: number of parked signals.
    attempts: failed replays.
    release: the scheduler release that failed; another release retries with the next signal.
    judged_from: log time since which a replaced definition is in effect; None when it was not replaced.
    """

    kind: str
    message: str
    signal: str
    at: datetime
    generation: int
    release: str
    first: int = 0
    parked: int = 0
    attempts: int = 0
    judged_from: datetime | None = None

    @property
    def next_number(self) -> int:
        """The number of the next signal to be parked."""
        return self.first + self.parked

    @property
    def reason(self) -> str:
        """The exception in one line."""
        return f"{self.kind}: {self.message}" if self.message else self.kind


def begin_halt(failure: BaseException, signal: str, *, at: datetime, generation: int, release: str) -> Halt:
    """A halt by this exception, with nothing parked. `signal` is its description."""
    message = str(failure)[:_MESSAGE].replace("\0", "\ufffd").encode(errors="backslashreplace").decode()
    return Halt(type(failure).__name__, message, signal, at, generation, release)


def describe_signal(signal: Signal) -> str:
    """A readable description of a signal, with its id.

    >>> from streamsched.domain.names import ScheduleRef
    >>> describe_signal(Drop(ScheduleRef("default", "flights", "weekly"), 7))
    'the deletion of generation 7'
    """
    match signal:
        case Occurred(event=event) if isinstance(event.fact, Ticked):
            return f"tick {event.id}"
        case Occurred(event=event):
            return f"event {event.id} of {event.source}"
        case Woken(cell=cell, due_at=due_at):
            return f"the wake-up due at {due_at.isoformat()}" + (f" for {cell}" if cell else "")
        case Put(generation=generation):
            return f"the definition of generation {generation}"
        case Drop(generation=generation):
            return f"the deletion of generation {generation}"
        case Replay():
            return "a replay"
        case Subscribe(key=key) | Unsubscribe(key=key):
            return f"a subscription to {key}"
