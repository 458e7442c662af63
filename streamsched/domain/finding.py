"""Findings: what one station found about one event, kept so that anybody can ask what became of it.

The home of an event's key finds repeats and what nobody listens to; each schedule it is forwarded to has a verdict of
its own; whoever cannot read a record finds a dead letter. So an event has one finding or several, never none. Ticks
are made inside and have none: their jobs tell of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from streamsched.domain.lateness import OnLate
from streamsched.domain.names import ScheduleRef
from streamsched.domain.verdict import Judged, Verdict

#: An event is known by so many characters of its id and source; nobody needs more, and indexes and messages have ends.
KNOWN_BY: Final = 1000


@dataclass(frozen=True, slots=True)
class AtSchedule:
    """A schedule's own: counted, unmatched, late, disabled or parked.

    Attributes:
        generation: of the definition that judged; 0 where there was none.
        next_job: the number of the schedule's next job at that moment: this one took the event, or a later one did.
        late: the policy that was applied, when the event came late: accepted it is counted like any other.
    """

    schedule: ScheduleRef
    generation: int
    next_job: int
    judged: Judged
    late: OnLate | None = None


@dataclass(frozen=True, slots=True)
class Repeated:
    """The home of its key had seen the same id from the same source."""

    key: str


@dataclass(frozen=True, slots=True)
class Unheard:
    """No schedule listened to its key."""

    key: str


@dataclass(frozen=True, slots=True)
class Unread:
    """A dead letter: the record at `place` (`topic/partition/offset`) says something nobody understands at `path`."""

    place: str
    path: str
    reason: str


Ground = AtSchedule | Repeated | Unheard | Unread


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one event, and its ground.

    Attributes:
        event, source: the event's, at most `KNOWN_BY` characters; of a dead letter as far as they could be told, else
            `log:<place>` and "".
        at: when it was found, by the log (UTC).
        since: of a repeat, when it was seen first; of a late event, when it happened; None of the others.
    """

    event: str
    source: str
    at: datetime
    ground: Ground
    since: datetime | None = None

    @property
    def verdict(self) -> Verdict:
        return verdict_of(self.ground)


def verdict_of(ground: Ground) -> Verdict:
    """The verdict that a ground comes to."""
    match ground:
        case AtSchedule(judged=judged):
            return judged.verdict
        case Repeated():
            return Verdict.DUPLICATE
        case Unheard():
            return Verdict.NO_LISTENER
        case Unread():
            return Verdict.DEAD_LETTERED
