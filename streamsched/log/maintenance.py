"""Periodic maintenance of the log, such as the deletion of records past their retention."""

from __future__ import annotations

from typing import Final

from streamsched.ports.broker import Broker
from streamsched.ports.clock import Clock
from streamsched.process.run_forever import run_forever

#: Seconds between two calls.
_EVERY: Final = 60.0


class LogMaintenance:
    """Belongs to one task."""

    def __init__(self, broker: Broker, clock: Clock) -> None:
        self._broker = broker
        self._clock = clock

    async def run(self) -> None:
        """Maintains until cancelled; retries while the log is unavailable."""
        await run_forever(self._step, called="log_cleaning", ending_by=self._clock)

    async def _step(self) -> float:
        await self._broker.maintain()
        return _EVERY
