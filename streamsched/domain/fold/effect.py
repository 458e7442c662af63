"""Effects of a fold, executed by its caller and committed in the same transaction as the new state."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from streamsched.domain.events.event import Event
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.names import ScheduleRef


@dataclass(frozen=True, slots=True)
class Launch:
    """The schedule is satisfied: append the job to topic `launch`."""

    job: ReadyJob


@dataclass(frozen=True, slots=True)
class Wake:
    """Send `Woken` at `at` (UTC); replaces any earlier request of the schedule and cell. `at` None cancels it."""

    schedule: ScheduleRef
    generation: int
    cell: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class LateEvent:
    """A late event that is not counted: append it to topic `late`."""

    event: Event


@dataclass(frozen=True, slots=True)
class Refuse:
    """The event is not counted in this schedule: append the signal to the dead-letter topic with this reason."""

    reason: str


Effect = Launch | Wake | LateEvent | Refuse
