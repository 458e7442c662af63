"""Verdicts: what became of an event. Every event ends in at least one, and each schedule it went to gives its own."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """At an event's home: duplicate, no listener; at a schedule's home: one of the others; anywhere: dead-lettered."""

    #: It counted in a leaf.
    COUNTED = "counted"
    #: The schedule listens to its key, but no leaf accepted it (a filter, an order, an unknown correlation key).
    UNMATCHED = "unmatched"
    #: The same id from the same source was seen within the dedupe horizon.
    DUPLICATE = "duplicate"
    #: It came later than the schedule's policy for late events allows.
    LATE = "late"
    #: No schedule listens to its key.
    NO_LISTENER = "no_listener"
    #: The schedule was disabled or gone, or the definition that asked for it was replaced.
    DISABLED = "disabled"
    #: The schedule is in error; it waits to be replayed.
    PARKED = "parked"
    #: It could not be read; it is in topic `dead-letter`.
    DEAD_LETTERED = "dead_lettered"


@dataclass(frozen=True, slots=True)
class Judged:
    """What one schedule made of one event.

    Attributes:
        leaves: ids of the leaves it counted in, left to right.
        cells: the correlation keys it counted under; empty for a schedule that does not correlate.
    """

    verdict: Verdict
    leaves: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
