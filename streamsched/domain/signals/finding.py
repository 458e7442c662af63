"""Findings: the stored verdicts on an event, with their reasons.

The home of an event's key records duplicates and events without listeners; each schedule the event is forwarded to
records its own verdict; a decoder records dead letters. So an event has at least one finding. Ticks have none: their
jobs record them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from streamsched.domain.events.lateness import OnLate
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signals.verdict import JudgedEvent, Verdict

#: Characters of an event's id and source that are stored; bounds index entries and messages.
KNOWN_BY: Final = 1000


@dataclass(frozen=True, slots=True)
class AtSchedule:
    """The verdict of a schedule: counted, unmatched, late, disabled or parked.

    Attributes:
        generation: of the definition in effect; 0 when there was none.
        next_job: the sequence number of the schedule's next job at that moment; that job or a later one has the event.
        late: the policy applied to a late event; None when it was not late.
    """

    schedule: ScheduleRef
    generation: int
    next_job: int
    judged: JudgedEvent
    late: OnLate | None = None


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The home of its key had seen the same id from the same source."""

    key: str


@dataclass(frozen=True, slots=True)
class NoListener:
    """No schedule listened to its key."""

    key: str


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A dead letter: the record at `place` (`topic/partition/offset`) cannot be decoded at `path`."""

    place: str
    path: str
    reason: str


FindingReason = AtSchedule | Duplicate | NoListener | Undecodable


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one event, and its reason.

    Attributes:
        event, source: the event's id and source, at most `KNOWN_BY` characters; of a dead letter as far as readable,
            otherwise `log:<place>` and "".
        at: log time of the verdict (UTC).
        since: for a duplicate, when the event was first seen; for a late event, when it happened; otherwise None.
    """

    event: str
    source: str
    at: datetime
    reason: FindingReason
    since: datetime | None = None

    @property
    def verdict(self) -> Verdict:
        return verdict_of(self.reason)


def verdict_of(reason: FindingReason) -> Verdict:
    """The verdict that a reason stands for."""
    match reason:
        case AtSchedule(judged=judged):
            return judged.verdict
        case Duplicate():
            return Verdict.DUPLICATE
        case NoListener():
            return Verdict.NO_LISTENER
        case Undecodable():
            return Verdict.DEAD_LETTERED
