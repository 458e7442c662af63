"""Reports a shard's positions to the broker's own tools, in the background: turns never wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from streamsched.ports.broker import Broker, TopicPartition
from streamsched.process.cancellation import cancel


class PositionReporter:
    """Makes one report at a time, at least `every_s` seconds apart, and none of unchanged positions."""

    def __init__(self, broker: Broker, name: str, *, every_s: float) -> None:
        self._broker = broker
        self._name = name
        self._every_s = every_s
        self._reported: Mapping[TopicPartition, int] = {}
        self._next = 0.0
        self._report: asyncio.Task[None] | None = None

    def report_due(self, positions: Mapping[TopicPartition, int]) -> None:
        """Starts a report if one is due. Call it before every read, also when the shard is idle, so that the positions
        of the last turn are reported.
        """
        now = asyncio.get_running_loop().time()
        if positions is self._reported or now < self._next or (self._report is not None and not self._report.done()):
            return
        self._reported, self._next = positions, now + self._every_s
        self._report = asyncio.create_task(self._broker.report(self._name, positions), name="streamsched-report")

    async def close(self) -> None:
        """Cancels a report in progress."""
        if self._report is not None:
            await cancel(self._report)
