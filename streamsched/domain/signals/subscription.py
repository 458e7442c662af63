"""Subscriptions at an event key's home: the schedules to which an event is forwarded.

A control signal with a generation older than the known subscription changes nothing, so a redelivery is harmless and a
late `Unsubscribe` does not remove a newer subscription. Removed listeners are not remembered; the order of the log (one
relay, one partition) prevents an older `Subscribe` after an `Unsubscribe`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from streamsched.domain.names import ScheduleRef
from streamsched.domain.signals.signal import Drop, Occurred, Put, Replay, Signal, Subscribe, Unsubscribe, Woken


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """The schedules listening to one event key, with their generations; never empty, in order of subscription."""

    key: str
    listeners: Mapping[ScheduleRef, int]


def subscribed_generation(known: int | None, change: Subscribe | Unsubscribe) -> int | None:
    """The generation with which one schedule listens after a change; None: it does not listen. `known`: before it."""
    match change:
        case Subscribe(generation=generation):
            return generation if known is None else max(known, generation)
        case Unsubscribe(generation=generation):
            return known if known is not None and known > generation else None
        case _:
            assert_never(change)


def route(subscriptions: Subscriptions | None, signal: Signal) -> Subscriptions | None:
    """Applies one signal to the subscriptions of its key. Returns the same object when nothing changed, None when there
    is no listener left. Total; an event, or a signal to a schedule's home, changes nothing.
    """
    match signal:
        case Subscribe(key=key, schedule=schedule) | Unsubscribe(key=key, schedule=schedule):
            listeners = {} if subscriptions is None else dict(subscriptions.listeners)
            before = listeners.get(schedule)
            after = subscribed_generation(before, signal)
            if after == before:
                return subscriptions
            if after is None:
                del listeners[schedule]
            else:
                listeners[schedule] = after
            return Subscriptions(key, listeners) if listeners else None
        case Put() | Drop() | Occurred() | Woken() | Replay():
            return subscriptions
        case _:
            assert_never(signal)
