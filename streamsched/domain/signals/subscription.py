"""Subscriptions at an event key's home: the schedules to which an event is forwarded.

A control signal with a generation older than the known subscription changes nothing, so a redelivery is harmless and a
late `Unsubscribe` does not remove a newer subscription. Removed listeners are not remembered; the order of the log (one
relay, one partition) prevents an older `Subscribe` after an `Unsubscribe`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, assert_never

from streamsched.domain.names import ScheduleRef
from streamsched.domain.signals.signal import Subscribe, Unsubscribe


class SubscribedSchedule(NamedTuple):
    """A schedule that listens: its generation when it subscribed, and its affinity (`domain.signals.home`)."""

    generation: int
    affinity: int | None = None


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """The schedules listening to one event key; never empty, in order of subscription."""

    key: str
    listeners: Mapping[ScheduleRef, SubscribedSchedule]


def change_subscription(known: SubscribedSchedule | None, change: Subscribe | Unsubscribe) -> SubscribedSchedule | None:
    """One schedule as a listener after a change; None: it does not listen. `known`: before it."""
    if known is not None and known.generation > change.generation:
        return known
    match change:
        case Subscribe(generation=generation, affinity=affinity):
            return SubscribedSchedule(generation, affinity)
        case Unsubscribe():
            return None
        case _:
            assert_never(change)
