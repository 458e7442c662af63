"""How long the steps of a start take."""

from __future__ import annotations

import asyncio


class Stopwatch:
    """Seconds between laps by the event loop's clock, rounded to milliseconds for the log."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._at = self._loop.time()

    def lap(self) -> float:
        """Seconds since the last call, or since it was made."""
        before, self._at = self._at, self._loop.time()
        return round(self._at - before, 3)
