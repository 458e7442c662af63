"""What was not there in time, and what came late, as facts for people, events and programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.expectations.expectation import Expectation
from streamsched.domain.names import EventName
from streamsched.domain.time.duration import duration_text

#: Names of the events that are published for a miss, and for what came after one, in the expectation's namespace.
MISSED: Final = "expectation-missed"
MET_LATE: Final = "expectation-met-late"
_SOURCE: Final = "streamsched/expectations"
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class ExpectationMiss:
    """Something was not there when it was due. Times UTC.

    Attributes:
        key: the partition or key that is missing; "": any would have done.
        missing: what is missing, as text.
        why: what is known besides, such as that the schedule is paused; may be empty.
    """

    expectation: Expectation
    due_at: datetime
    key: str
    missing: str
    why: str = ""

    @property
    def reason(self) -> str:
        """One sentence."""
        why = f" ({self.why})" if self.why else ""
        subject, when = self.expectation.subject, self.expectation.due_text
        return f"{subject} was to be there {when}, {_clock(self.due_at)}: {self.missing}{why}"

    @property
    def facts(self) -> Mapping[str, str]:
        """Attributes of the event; arguments, with the prefix `expectation.`, of the program that is started."""
        return {
            "expectation": str(self.expectation.ref),
            self.expectation.kind.value: str(self.expectation.subject),
            "due_at": self.due_at.isoformat(),
            "when": self.expectation.due_text,
            "key": self.key,
            "missing": self.missing,
            "why": self.why,
        }

    def event(self, at: datetime) -> Event:
        """The event to publish; its id depends on the miss only, so a repeat is recognised as a duplicate."""
        return _event(self.expectation, MISSED, self.due_at, at, self.facts)


@dataclass(frozen=True, slots=True)
class LateCame:
    """What was missing has come. Times UTC."""

    expectation: Expectation
    due_at: datetime
    key: str
    came_at: datetime

    @property
    def delay(self) -> timedelta:
        """How late, in whole seconds."""
        return max(timedelta(0), self.came_at - self.due_at) // _SECOND * _SECOND

    @property
    def reason(self) -> str:
        """One sentence."""
        key = f" {self.key}" if self.key else ""
        return f"{self.expectation.subject}{key} came {duration_text(self.delay)} late, at {_clock(self.came_at)}"

    @property
    def facts(self) -> Mapping[str, str]:
        """Attributes of the event."""
        return {
            "expectation": str(self.expectation.ref),
            self.expectation.kind.value: str(self.expectation.subject),
            "due_at": self.due_at.isoformat(),
            "key": self.key,
            "came_at": self.came_at.isoformat(),
            "late": duration_text(self.delay),
        }

    def event(self, at: datetime) -> Event:
        """As `ExpectationMiss.event`."""
        return _event(self.expectation, MET_LATE, self.due_at, at, self.facts)


def _event(expectation: Expectation, name: str, due_at: datetime, at: datetime, facts: Mapping[str, str]) -> Event:
    happened = CustomHappened(EventName(expectation.ref.namespace, name), facts)
    return Event(f"{expectation.ref}:{due_at.isoformat()}:{name}", _SOURCE, at, happened)


def _clock(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}Z"
