"""Triggers: pure values that say when a schedule is satisfied. A trigger never sees a clock, a log or a store.

>>> from streamsched.domain.names import DatasetRef
>>> flights, weather = DatasetRef("default", "flights"), DatasetRef("default", "weather")
>>> str(Partitions(flights, 7) & Partitions(weather, 7))
'7 new partitions of default.flights and 7 new partitions of default.weather'
"""

from __future__ import annotations

from collections.abc import Iterator

from streamsched.domain.composite import AllOf, AnyOf, AtLeast
from streamsched.domain.leaf import (
    At,
    Cron,
    CustomEvent,
    EventLeaf,
    Every,
    Leaf,
    Measure,
    Partitions,
    ProgramStatus,
    StreamGrowth,
    TimeLeaf,
    Total,
    leaf_id,
    leaf_keys,
)

__all__ = [
    "AllOf",
    "AnyOf",
    "At",
    "AtLeast",
    "Composite",
    "Cron",
    "CustomEvent",
    "EventLeaf",
    "Every",
    "Leaf",
    "Measure",
    "Partitions",
    "ProgramStatus",
    "StreamGrowth",
    "TimeLeaf",
    "Total",
    "Trigger",
    "event_keys",
    "leaf_id",
    "leaf_keys",
    "leaves",
]

Composite = AllOf | AnyOf | AtLeast
Trigger = Leaf | Composite


def leaves(trigger: Trigger) -> Iterator[Leaf]:
    """The leaves, left to right; equal ones as often as they occur."""
    match trigger:
        case AllOf(triggers=children) | AnyOf(triggers=children) | AtLeast(triggers=children):
            for child in children:
                yield from leaves(child)
        case _:
            yield trigger


def event_keys(trigger: Trigger) -> frozenset[str]:
    """The event keys a schedule with this trigger subscribes to; time leaves have none."""
    return frozenset(key for leaf in leaves(trigger) for key in leaf_keys(leaf))
