"""Effects: what a fold asks the shell to do. They are committed together with the state that forgets them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from streamsched.domain.event import Event
from streamsched.domain.job import ReadyJob
from streamsched.domain.names import ScheduleRef


@dataclass(frozen=True, slots=True)
class Launch:
    """The schedule is satisfied: append the job to topic `launch`."""

    job: ReadyJob


@dataclass(frozen=True, slots=True)
class Wake:
    """Send `Woken` at an instant; of one schedule and cell the newest request stands alone. `at` None: no more."""

    schedule: ScheduleRef
    generation: int
    cell: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Aside:
    """A late event that counts nowhere: append it to topic `late`."""

    event: Event


Effect = Launch | Wake | Aside
