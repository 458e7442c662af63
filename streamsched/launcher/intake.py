"""Ready jobs from topic `launch` into the table of jobs (`streamsched.intake` says how)."""

from __future__ import annotations

from streamsched.codec import launch
from streamsched.domain.job import job_id
from streamsched.intake import TopicIntake
from streamsched.ports.broker import Broker, Record
from streamsched.ports.clock import Clock
from streamsched.ports.intake import IntakeStore, Satisfaction
from streamsched.ports.topics import LAUNCH


class Intake(TopicIntake[Satisfaction]):
    """Stores each ready job once; belongs to one task."""

    def __init__(
        self, broker: Broker, store: IntakeStore[Satisfaction], clock: Clock, *, max_records: int = 2000
    ) -> None:
        super().__init__(LAUNCH, _satisfaction, broker=broker, store=store, clock=clock, max_records=max_records)


def _satisfaction(record: Record) -> Satisfaction:
    value = record.value or b""
    ref, generation, sequence, satisfied_at = launch.peek(value)
    return Satisfaction(job_id(ref, generation, sequence), str(ref), generation, sequence, satisfied_at, value.decode())
