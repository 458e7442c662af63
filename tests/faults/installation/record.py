"""What the log holds: the signals of each home in its order, and what was launched."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from streamsched.codec import launch as launch_codec
from streamsched.codec import signal as signal_codec
from streamsched.domain.errors import UnavailableError
from streamsched.domain.job import ReadyJob
from streamsched.ports.broker import Broker, Record, TopicPartition
from streamsched.ports.topics import DEAD_LETTER, LAUNCH, SIGNALS
from streamsched.testing.rerun import Stamped
from tests.faults.installation.ground import SHARDS

#: How long the log may be away.
AWAY_S: Final = 60.0
_TOPICS: Final = (SIGNALS, LAUNCH, DEAD_LETTER)


@dataclass(slots=True)
class Log:
    """Read on from where the last look ended.

    Attributes:
        homes: record key → its signals, of the trial at hand.
        jobs: what was launched, of the trial at hand.
        launched: job id → how often it is on its way, of all trials.
        letters: what was put aside as unreadable.
    """

    broker: Broker
    at: dict[TopicPartition, int] = field(
        default_factory=lambda: {TopicPartition(topic, n): 0 for topic in _TOPICS for n in range(SHARDS)}
    )
    homes: dict[str, list[Stamped]] = field(default_factory=lambda: defaultdict(list))
    jobs: list[ReadyJob] = field(default_factory=list)
    launched: Counter[str] = field(default_factory=Counter)
    letters: list[str] = field(default_factory=list)
    _mine: re.Pattern[str] = field(default=re.compile("nothing"))

    def begin(self, name: str) -> None:
        """Another trial; all its names begin with this one."""
        self._mine = re.compile(rf"[a-z]+:default\.{name}(?!\d)")
        self.homes.clear()
        self.jobs.clear()

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
                    for record in chunk.records:
                        self._take(chunk.topic, record)
                    self.at[TopicPartition(chunk.topic, chunk.partition)] = chunk.next_position
        finally:
            await reader.close()

    def _take(self, topic: str, record: Record) -> None:
        key, value = (record.key or b"").decode(), record.value or b""
        match topic:
            case "signals" if self._mine.match(key):
                self.homes[key].append((_instant(record), signal_codec.decode(key.encode(), value)))
            case "launch":
                self.launched[key] += 1
                if self._mine.match(f"schedule:{key}"):
                    self.jobs.append(launch_codec.decode(value))
            case "dead-letter":
                self.letters.append(value.decode(errors="replace"))
            case _:
                pass


def _instant(record: Record) -> datetime:
    return datetime.fromtimestamp(record.time_ms / 1000, UTC)
