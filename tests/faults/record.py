"""What the log holds in the end: which events came home, and what was launched."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import orjson

from streamsched.codec.records import launch as launch_codec
from streamsched.log.topics import LAUNCH, SIGNALS
from streamsched.ports.broker import Record, TopicPartition
from tests.faults.following import FollowedLog
from tests.faults.trial import SHARDS


@dataclass(slots=True)
class Log(FollowedLog):
    """Event ids with the time they came home, and launches, by schedule."""

    at: dict[TopicPartition, int] = field(
        default_factory=lambda: {TopicPartition(topic, n): 0 for topic in (SIGNALS, LAUNCH) for n in range(SHARDS)}
    )
    arrived: dict[str, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    launched: dict[str, list[tuple[int, list[str]]]] = field(default_factory=lambda: defaultdict(list))
    jobs: list[str] = field(default_factory=list)

    def take(self, topic: str, record: Record) -> None:
        (self._signal if topic == SIGNALS else self._launch)(record)

    def _signal(self, record: Record) -> None:
        assert record.key is not None and record.value is not None  # noqa: PT018
        said = orjson.loads(record.value)
        if record.key.startswith(b"schedule:") and "signal" not in said:
            name = record.key.decode().rpartition(".")[2]
            self.arrived[name].append((said["id"], record.time_ms))

    def _launch(self, record: Record) -> None:
        job = launch_codec.decode(record.value or b"")
        ids = dict.fromkeys(event.id for each in job.contributions for event in each.events)
        self.launched[job.schedule.name].append((job.sequence, list(ids)))
        self.jobs.append(job.id)
