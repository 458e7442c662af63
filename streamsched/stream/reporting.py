"""Tells the log's own tools now and then how far a shard has come; beside the turns, which never wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from streamsched.cancellation import cancel
from streamsched.ports.broker import Broker, TopicPartition


class Reporting:
    """One report at a time, `every_s` seconds apart at least, and none of what was told before."""

    def __init__(self, broker: Broker, name: str, *, every_s: float) -> None:
        self._broker = broker
        self._name = name
        self._every_s = every_s
        self._told: Mapping[TopicPartition, int] = {}
        self._next = 0.0
        self._telling: asyncio.Task[None] | None = None

    def reached(self, positions: Mapping[TopicPartition, int]) -> None:
        """Reports them soon, if it is time. Called between turns, also idle ones, so that the last turn is told of."""
        now = asyncio.get_running_loop().time()
        if positions is self._told or now < self._next or (self._telling is not None and not self._telling.done()):
            return
        self._told, self._next = positions, now + self._every_s
        self._telling = asyncio.create_task(self._broker.report(self._name, positions), name="streamsched-report")

    async def close(self) -> None:
        """Gives up a report under way."""
        if self._telling is not None:
            await cancel(self._telling)
