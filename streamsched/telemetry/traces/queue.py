"""Where spans are sent: a bounded queue of them in memory, and the loop that empties it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, Protocol

from streamsched.domain.jobs.spans import TraceSpan
from streamsched.telemetry.metrics import Metrics
from streamsched.telemetry.traces.settings import TraceSettings

#: Seconds for the spans that are left when the process ends.
_LAST_S: Final = 2.0


class SpanSender(Protocol):
    """Sends spans to a receiver of OpenTelemetry."""

    async def send(self, spans: Sequence[TraceSpan]) -> bool:
        """Whether the receiver accepted them. Takes at most as long as its timeout, and never raises for a receiver
        that is away.
        """
        ...


class SpanQueue:
    """`put` never waits: what does not fit is dropped and counted. While the receiver is away the spans stay."""

    def __init__(self, sender: SpanSender, settings: TraceSettings, metrics: Metrics) -> None:
        self._sender = sender
        self._settings = settings
        self._metrics = metrics
        self._spans: deque[TraceSpan] = deque()
        self._failures = 0

    def put(self, spans: Iterable[TraceSpan]) -> None:
        """Adds spans as far as there is room."""
        for span in spans:
            if len(self._spans) < self._settings.capacity:
                self._spans.append(span)
            else:
                self._metrics.add("spans_dropped_total", why="queue full")

    async def run(self) -> None:
        """Sends until cancelled, then once more for a moment."""
        try:
            while True:
                pause = await self.run_once()
                await asyncio.sleep(pause)
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_S):
                    await self.run_once()

    async def run_once(self) -> float:
        """Sends one batch. Returns the seconds until the next call."""
        every = self._settings.every.total_seconds()
        batch = list(islice(self._spans, self._settings.batch))
        if not batch:
            return every
        if not await self._sender.send(batch):
            self._failures += 1
            return self._settings.pause(self._failures)
        self._failures = 0
        for _ in batch:
            self._spans.popleft()
        self._metrics.add("spans_sent_total", len(batch))
        return 0.0 if len(self._spans) >= self._settings.batch else every
