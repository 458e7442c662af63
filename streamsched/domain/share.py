"""A leaf's share of an event: of a commit, the partitions it asked for. The envelope stays, so an event keeps its name
wherever parts of it go.
"""

from __future__ import annotations

from dataclasses import replace

from streamsched.domain.event import Event, PartitionsAdded
from streamsched.domain.match import Match
from streamsched.domain.trigger import Measure


def narrowed(event: Event, fact: PartitionsAdded, match: Match) -> tuple[Event, PartitionsAdded]:
    """The event and its fact with the partitions that match; the very same objects when all do.

    Partitions that are counted without being named can match nothing, so only the empty match keeps them.
    """
    if not match:
        return event, fact
    some = tuple(partition for partition in fact.partitions if match.accepts(partition.values))
    if len(some) == fact.count:
        return event, fact
    less = PartitionsAdded(fact.dataset, some, len(some))
    return replace(event, fact=less), less


def measured(fact: PartitionsAdded, measure: Measure | None) -> int:
    """How much a commit adds: bytes or rows as far as they are known, or its partitions."""
    match measure:
        case None:
            return fact.count
        case Measure.BYTES:
            return sum(partition.bytes or 0 for partition in fact.partitions)
        case Measure.ROWS:
            return sum(partition.rows or 0 for partition in fact.partitions)
