"""What the log holds: the signals of each home in its order, and what was launched."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime
from typing import Final

from streamsched.codec.records import launch as launch_codec
from streamsched.domain.errors import UnavailableError
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Occurred
from streamsched.log.topics import DEAD_LETTER, JUDGED, LAUNCH, SIGNALS
from streamsched.ports.broker import Broker, Record, TopicPartition
from tests.faults.sites.installation_site import SHARDS
from tests.support.judged_order import Arrived, JudgedOrder, judged_order, read_arrived, stamped
from tests.support.rerun import Stamped

#: How long the log may be away.
AWAY_S: Final = 60.0

#: What is read.
TOPICS: Final = (SIGNALS, JUDGED, LAUNCH, DEAD_LETTER)
_EVERY: Final = re.compile("")


class LogContent:
    """What a log has that is worth judging.

    Attributes:
        jobs: what was launched, of the trial at hand.
        launched: job id → how often it is on its way, of all trials.
        letters: what was put aside as unreadable.
    """

    def __init__(self, shards: int) -> None:
        self.jobs: list[ReadyJob] = []
        self.launched: Counter[str] = Counter()
        self.letters: list[str] = []
        self._arrived: dict[str, list[Arrived]] = defaultdict(list)
        self._barriers: dict[int, list[Arrived]] = defaultdict(list)
        #: Schedule without its affinity → its record key.
        self._keys: dict[str, str] = {}
        self._shards = shards
        self._mine = _EVERY

    def begin(self, *names: str) -> None:
        """Another trial; each of its names begins with one of these, which are those of its apps."""
        self._mine = _of(*names)
        self.jobs.clear()
        self._arrived.clear()

    @property
    def homes(self) -> Mapping[str, list[Stamped]]:
        """Record key → its signals as its home has met them, of the trial at hand."""
        return {key: stamped(arrived) for key, arrived in self._arrived.items()}

    def homes_of(self, name: str) -> Mapping[str, list[Stamped]]:
        """The homes of one app and of what it listens to."""
        mine = _of(name)
        return {key: signals for key, signals in self.homes.items() if mine.match(key)}

    def orders(self) -> Mapping[str, JudgedOrder]:
        """What each schedule of the trial has judged, and as of when, in this order."""
        return {
            key: judged_order(arrived, self._barriers[home(self._keys.get(key, key), self._shards)], self._shards)
            for key, arrived in self._arrived.items()
            if key.startswith("schedule:")
        }

    def came_home(self) -> Iterator[tuple[str, datetime]]:
        """The id of each event that came to the home of a schedule, and when."""
        for key, signals in self.homes.items():
            if key.startswith("schedule:"):
                yield from ((signal.event.id, at) for at, signal in signals if isinstance(signal, Occurred))

    def take(self, topic: str, partition: int, record: Record) -> None:
        """One more record; those of a partition come in order, each once. Where its key has not its home, or a schedule
        another affinity than before, a signal is none of that key.
        """
        key, value = (record.key or b"").decode(), record.value or b""
        match topic:
            case "signals" if key.startswith("barrier:"):
                self._barriers[partition].append(read_arrived(topic, record, self._shards))
            case "signals" | "judged" if self._mine.match(key):
                name = without_affinity(key)
                at_home = home(key, self._shards) == partition and self._keys.setdefault(name, key) == key
                known = name if at_home else f"{key} in partition {partition}"
                self._arrived[known].append(read_arrived(topic, record, self._shards))
            case "launch":
                self.launched[key] += 1
                if self._mine.match(f"schedule:{key}"):
                    self.jobs.append(launch_codec.decode(value))
            case "dead-letter":
                self.letters.append(value.decode(errors="replace"))
            case _:
                pass


def without_affinity(key: str) -> str:
    """A record key; that of a schedule without its affinity."""
    return key.partition("@")[0] if key.startswith("schedule:") else key


class Log(LogContent):
    """The log of an installation, read on from where the last look ended. `at`: where that was."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(SHARDS)
        self._broker = broker
        self.at = {TopicPartition(topic, n): 0 for topic in TOPICS for n in range(SHARDS)}

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
        reader = await self._broker.reader(self.at)
        try:
            while chunks := await reader.read(max_records=20_000, timeout=quiet_s):
                for chunk in chunks:
                    for record in chunk.records:
                        self.take(chunk.topic, chunk.partition, record)
                    self.at[TopicPartition(chunk.topic, chunk.partition)] = chunk.next_position
        finally:
            await reader.close()


async def records_up_to(
    broker: Broker, ends: Mapping[TopicPartition, int], start: Mapping[TopicPartition, int]
) -> AsyncIterator[tuple[TopicPartition, Record]]:
    """Those of some partitions from `start`, or the beginning, to where they end."""
    at = {place: start.get(place, 0) for place in ends}
    reader = await broker.reader(at)
    try:
        while any(at[place] < end for place, end in ends.items()):
            for chunk in await reader.read(max_records=5000, timeout=1):
                place = TopicPartition(chunk.topic, chunk.partition)
                at[place] = chunk.next_position
                for record in chunk.records:
                    yield place, record
    finally:
        await reader.close()


async def ends_of(broker: Broker, *topics: str) -> Mapping[TopicPartition, int]:
    """Where all partitions of the topics end."""
    return await broker.ends([TopicPartition(each, n) for each in topics for n in range(await broker.partitions(each))])


def _of(*names: str) -> re.Pattern[str]:
    return re.compile(rf"[a-z]+:default\.({'|'.join(names)})(?!\d)")
