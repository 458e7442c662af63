"""What the log holds in the end: which events came home, and what was launched."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field

import orjson

from streamsched.codec import launch as launch_codec
from streamsched.domain.errors import UnavailableError
from streamsched.ports.broker import Broker, Record, TopicPartition
from streamsched.ports.topics import LAUNCH, SIGNALS
from tests.faults.trial import SHARDS

#: How long the log may be away.
AWAY_S = 60.0


@dataclass(slots=True)
class Log:
    """What the log holds, read on from where the last look ended."""

    broker: Broker
    at: dict[TopicPartition, int] = field(
        default_factory=lambda: {TopicPartition(topic, n): 0 for topic in (SIGNALS, LAUNCH) for n in range(SHARDS)}
    )
    arrived: dict[str, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    launched: dict[str, list[tuple[int, list[str]]]] = field(default_factory=lambda: defaultdict(list))
    jobs: list[str] = field(default_factory=list)

    async def look(self, quiet_s: float) -> None:
        """Reads until nothing has come for that long; while the log is away it is asked again."""
        deadline = time.monotonic() + AWAY_S
        while True:
            try:
                return await self._look(quiet_s)
            except UnavailableError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.2)

    async def _look(self, quiet_s: float) -> None:
        reader = await self.broker.reader(self.at)
        try:
            while chunks := await reader.read(max_records=20_000, timeout=quiet_s):
                for chunk in chunks:
                    self.at[TopicPartition(chunk.topic, chunk.partition)] = chunk.next_position
                    for record in chunk.records:
                        (self._signal if chunk.topic == SIGNALS else self._launch)(record)
        finally:
            await reader.close()

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
