"""A log that is followed from the side, to be judged."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from streamsched.domain.errors import UnavailableError
from streamsched.ports.broker import Broker, Record, TopicPartition

#: How long the log may be away.
AWAY_S: Final = 60.0


@dataclass(slots=True)
class FollowedLog:
    """Read on from where the last look ended (`at`); subclasses say what they keep of it."""

    broker: Broker
    at: dict[TopicPartition, int]

    def take(self, topic: str, record: Record) -> None:
        """Keeps what is worth it. Records of a partition come in order, each once."""
        raise NotImplementedError

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
                        self.take(chunk.topic, record)
                    self.at[TopicPartition(chunk.topic, chunk.partition)] = chunk.next_position
        finally:
            await reader.close()
