"""A pulse: whether what a process works with still answers it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta

import structlog

from streamsched.domain.errors import UnavailableError

log = structlog.get_logger()


class Pulse:
    """Asks one question again and again. A process that gets no answer any more, cut off from the log but not from the
    leases, holds what others could do: it must not go on claiming it.
    """

    def __init__(self, question: Callable[[], Awaitable[object]], *, every: timedelta, patience: timedelta) -> None:
        """`question` may take its time to fail; it is `lost` when the last answer is older than `patience`, or up to
        a third more: those who are cut off together shall not all leave together, for the last one stays.
        """
        self._question = question
        self._every = every.total_seconds()
        self._patience = patience.total_seconds() * random.uniform(1.0, 4 / 3)
        self._loop = asyncio.get_running_loop()
        self._answered = self._loop.time()

    @property
    def silent_s(self) -> float:
        """Seconds since the last answer."""
        return self._loop.time() - self._answered

    @property
    def lost(self) -> bool:
        return self.silent_s > self._patience

    async def run(self) -> None:
        """Asks until cancelled; one question at a time, so an answer that is late is an answer."""
        while True:
            try:
                await self._question()
            except UnavailableError as error:
                log.debug("pulse.missed", reason=str(error), silent_s=round(self.silent_s, 1))
            else:
                self._answered = self._loop.time()
            await asyncio.sleep(self._every)
