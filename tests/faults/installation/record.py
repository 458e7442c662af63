"""What the log holds: the signals of each home in its order, and what was launched."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from streamsched.codec.records import launch as launch_codec
from streamsched.codec.records import signal as signal_codec
from streamsched.domain.jobs.job import ReadyJob
from streamsched.log.topics import DEAD_LETTER, LAUNCH, SIGNALS
from streamsched.ports.broker import Record, TopicPartition
from tests.faults.following import FollowedLog
from tests.faults.installation.site import SHARDS
from tests.support.rerun import Stamped

_TOPICS: Final = (SIGNALS, LAUNCH, DEAD_LETTER)


@dataclass(slots=True)
class Log(FollowedLog):
    """What is worth judging.

    Attributes:
        homes: record key → its signals, of the trial at hand.
        jobs: what was launched, of the trial at hand.
        launched: job id → how often it is on its way, of all trials.
        letters: what was put aside as unreadable.
    """

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

    def take(self, topic: str, record: Record) -> None:
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
