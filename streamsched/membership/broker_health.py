"""Whether the log still answers this process."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta

import structlog

from streamsched.domain.errors import UnavailableError

log = structlog.get_logger()


class BrokerHealth:
    """Repeats one request. A process that is cut off from the log, but not from PostgreSQL, would keep renewing leases
    for work it cannot do; while the log is lost it must leave that work to others.
    """

    def __init__(self, request: Callable[[], Awaitable[object]], *, every: timedelta, patience: timedelta) -> None:
        """`request`: may take any time to fail. The log counts as lost when the last answer is older than `patience`
        times a random factor of up to 4/3: of processes cut off together, not all leave at once, and the last one
        stays.
        """
        self._request = request
        self._every = every.total_seconds()
        self._patience = patience.total_seconds() * random.uniform(1.0, 4 / 3)
        self._loop = asyncio.get_running_loop()
        self._answered = self._loop.time()

    @property
    def silent_s(self) -> float:
        """Seconds since the last answer."""
        return self._loop.time() - self._answered

    @property
    def is_lost(self) -> bool:
        """Whether the log has not answered for longer than the patience."""
        return self.silent_s > self._patience

    async def run(self) -> None:
        """Repeats the request until cancelled, one at a time; a late answer counts as an answer."""
        while True:
            try:
                await self._request()
            except UnavailableError as error:
                log.debug("broker_health.no_answer", reason=str(error), silent_s=round(self.silent_s, 1))
            else:
                self._answered = self._loop.time()
            await asyncio.sleep(self._every)
