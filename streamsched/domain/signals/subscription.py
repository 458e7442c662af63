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
from streamsched.domain.signals.signal import Subscribe, Unsubscribe


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
