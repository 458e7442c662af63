"""Wake-ups that folds ask for, from topic `wakeups` into their table (`streamsched.intake` says how)."""

from __future__ import annotations

from datetime import UTC, datetime

from streamsched.codec import wakeup
from streamsched.intake import TopicIntake
from streamsched.ports.broker import Broker, Record
from streamsched.ports.clock import Clock
from streamsched.ports.intake import IntakeStore
from streamsched.ports.topics import WAKEUPS
from streamsched.ports.wakes import WakeRequest


class WakeIntake(TopicIntake[WakeRequest]):
    """Stores the newest request of each accumulation; belongs to one task."""

    def __init__(
        self, broker: Broker, store: IntakeStore[WakeRequest], clock: Clock, *, max_records: int = 2000
    ) -> None:
        super().__init__(WAKEUPS, _request, broker=broker, store=store, clock=clock, max_records=max_records)


def _request(record: Record) -> WakeRequest:
    return WakeRequest(wakeup.decode(record.value or b""), datetime.fromtimestamp(record.time_ms / 1000, UTC))
