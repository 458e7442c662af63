"""A halt: why a schedule stands still. People read it as the schedule's error.

A signal that a schedule's fold cannot take (it raises: a mistake of ours) halts that schedule alone. The signal and
those that come after it are parked, in order, until they are replayed or a change makes them pointless:

| what comes          | what it does                                                                                  |
|---------------------|-----------------------------------------------------------------------------------------------|
| an event, a wake-up | is parked                                                                                     |
| `Replay`            | folds what is parked, in order, each at its own time, up to one that raises                   |
| `Put` that keeps    | is in force at once, and judges what is parked as if it came just then                        |
| `Put` that resets   | is in force at once; what is parked goes, as what had accumulated does                        |
| `Drop`              | all of it goes                                                                                |
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from streamsched.domain.event import Ticked
from streamsched.domain.signal import Drop, Occurred, Put, Replay, Signal, Subscribe, Unsubscribe, Woken

#: As many signals of one schedule are parked at most: they are in the memory of its shard. More become dead letters.
MOST_PARKED: Final = 100_000
#: As many characters of a message are kept.
_MESSAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class Halt:
    """Attributes:
    kind, message: of the exception.
    signal: what could not be folded, in words.
    at: when that signal came, by the log (UTC).
    generation: the newest definition that came; those before it change nothing any more.
    first: number of the first parked signal; they are numbered in order.
    parked: how many there are.
    attempts: how often it was replayed in vain.
    release: of the scheduler that could not; another one tries by itself when the next signal comes.
    judged_from: of a schedule whose definition was replaced meanwhile, since when that is in force.
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
    def after(self) -> int:
        """The number of the next signal to be parked."""
        return self.first + self.parked

    @property
    def why(self) -> str:
        """In one line."""
        return f"{self.kind}: {self.message}" if self.message else self.kind


def halted(failure: BaseException, signal: str, *, at: datetime, generation: int, release: str) -> Halt:
    """A halt by this exception; `signal` in words. Nothing is parked yet."""
    message = str(failure)[:_MESSAGE].replace("\0", "\ufffd").encode(errors="backslashreplace").decode()
    return Halt(type(failure).__name__, message, signal, at, generation, release)


def in_words(signal: Signal) -> str:
    """What a signal is, for people, with the id by which it can be found.

    >>> from streamsched.domain.names import ScheduleRef
    >>> in_words(Drop(ScheduleRef("default", "flights", "weekly"), 7))
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
