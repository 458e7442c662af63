"""The rules of an event key's home: who listens, and so to whom an event goes on.

Generations decide: a control signal older than the known subscription changes nothing, so a redelivery is harmless and
a late `Unsubscribe` never takes away what a newer definition asked for. A removed listener leaves no trace; the order
of the log (one relay, one partition) is what keeps an older `Subscribe` from coming back after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from streamsched.domain.names import ScheduleRef
from streamsched.domain.signal import Drop, Occurred, Put, Replay, Signal, Subscribe, Unsubscribe, Woken


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Who listens to one event key, each with the generation that asked; never empty, in order of first asking."""

    key: str
    listeners: Mapping[ScheduleRef, int]


def route(subscriptions: Subscriptions | None, signal: Signal) -> Subscriptions | None:
    """Applies one signal to the subscriptions of its key: the very object that came in when nothing changed, None when
    nobody listens. Total; an event, or a signal of a schedule's home, changes nothing.
    """
    match signal:
        case Subscribe(key=key, schedule=schedule, generation=generation):
            listeners = {} if subscriptions is None else subscriptions.listeners
            if listeners.get(schedule, -1) >= generation:
                return subscriptions
            return Subscriptions(key, {**listeners, schedule: generation})
        case Unsubscribe(schedule=schedule, generation=generation):
            if subscriptions is None or subscriptions.listeners.get(schedule, generation + 1) > generation:
                return subscriptions
            left = {ref: known for ref, known in subscriptions.listeners.items() if ref != schedule}
            return Subscriptions(subscriptions.key, left) if left else None
        case Put() | Drop() | Occurred() | Woken() | Replay():
            return subscriptions
        case _:
            assert_never(signal)
