"""Stores ready jobs of topic `launch` in the table of jobs (see `streamsched.log.intake`)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from streamsched.codec.records import launch
from streamsched.domain.jobs.job import job_id
from streamsched.log.intake import TopicIntake
from streamsched.log.topics import LAUNCH
from streamsched.ports.broker import Broker, Record
from streamsched.ports.clock import Clock
from streamsched.ports.intake import IntakeStore, ReadyJobRow
from streamsched.telemetry.metrics import Metrics


class Intake(TopicIntake[ReadyJobRow]):
    """Stores each ready job once; belongs to one task."""

    def __init__(
        self,
        broker: Broker,
        store: IntakeStore[ReadyJobRow],
        clock: Clock,
        metrics: Metrics | None = None,
        *,
        max_records: int = 2000,
    ) -> None:
        self._metrics = metrics or Metrics()
        super().__init__(
            LAUNCH, _row, broker=broker, store=store, clock=clock, max_records=max_records, stored=self._measure
        )

    def _measure(self, rows: Sequence[ReadyJobRow], now: datetime) -> None:
        for row in rows:
            self._metrics.observe("event_to_job_seconds", max(0.0, (now - row.satisfied_at).total_seconds()))


def _row(record: Record) -> ReadyJobRow:
    value = record.value or b""
    ref, generation, sequence, satisfied_at = launch.peek(value)
    return ReadyJobRow(job_id(ref, generation, sequence), str(ref), generation, sequence, satisfied_at, value.decode())
