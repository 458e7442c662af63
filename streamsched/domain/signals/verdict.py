"""Verdicts on events. Every event has at least one, and one of each schedule it was forwarded to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Self


class Verdict(StrEnum):
    """At an event's home: duplicate, no listener; at a schedule's home: one of the others; anywhere: dead-lettered."""

    #: It counted in a leaf.
    COUNTED = "counted"
    #: All its partitions had counted since the last satisfaction: it replaces the older commits and adds nothing.
    REPLACED = "replaced"
    #: It came for keys whose jobs were made before, and corrects their data; `why` says whether it makes a job.
    CORRECTION = "correction"
    #: The schedule listens to its key, but no leaf accepted it (a filter, an order, no correlation key).
    UNMATCHED = "unmatched"
    #: The same id from the same source was seen within the dedupe horizon.
    DUPLICATE = "duplicate"
    #: It arrived later than the schedule's policy for late events allows.
    LATE = "late"
    #: No schedule listens to its key.
    NO_LISTENER = "no_listener"
    #: The schedule was disabled or deleted, or the definition that subscribed to it was replaced.
    DISABLED = "disabled"
    #: It would open more correlation keys than the schedule allows, or too many at once; it is a dead letter.
    REFUSED = "refused"
    #: The schedule is halted; the event waits for a replay.
    PARKED = "parked"
    #: It could not be read; it is in topic `dead-letter`.
    DEAD_LETTERED = "dead_lettered"


#: Most correlation keys named in a verdict; `JudgedEvent.why` has their number.
CELLS_NAMED: Final = 100


@dataclass(frozen=True, slots=True)
class JudgedEvent:
    """The verdict of one schedule on one event.

    Attributes:
        leaves: ids of the leaves in which it counted or replaced something, left to right.
        cells: the first `CELLS_NAMED` correlation keys it counted under; empty for a schedule that does not correlate.
        why: a remark: why it was refused or has no key, how many keys it counted under, which were dropped for it; may
            be empty.
    """

    verdict: Verdict
    leaves: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
    why: str = ""

    def with_remarks(self, *remarks: str) -> Self:
        """The same verdict, for which these are said; empty ones are left out."""
        return replace(self, why="; ".join(filter(None, remarks)))

    @property
    def is_kept(self) -> bool:
        """Whether the event is part of the accumulation, and so of a job."""
        return self.verdict in (Verdict.COUNTED, Verdict.REPLACED) or bool(
            self.verdict is Verdict.CORRECTION and self.leaves
        )
