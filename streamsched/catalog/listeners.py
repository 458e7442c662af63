"""Which event keys no schedule listens to, as a hint for emitters. The verdict of an event is decided in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from streamsched.domain.errors import StreamschedError
from streamsched.ports.clock import Clock
from streamsched.ports.verdicts import EventTraces

#: How long a key with a listener is cached. A key without one is queried every time.
_TTL: Final = timedelta(seconds=5)
#: Largest number of keys in one query, and in the cache.
_MAX_QUERIED: Final = 100
_MAX_CACHED: Final = 50_000
#: Seconds until a query for a hint is abandoned.
_TIMEOUT: Final = 0.5


class Listeners:
    """Finds event keys without listeners. Keys it returns have none; it may miss some."""

    def __init__(self, traces: EventTraces, clock: Clock) -> None:
        self._traces = traces
        self._clock = clock
        self._cached_until: dict[str, datetime] = {}

    async def without_listeners(self, keys: Iterable[str]) -> list[str] | None:
        """Those of the keys that no schedule listens to now, sorted; None when that cannot be known in time."""
        now = self._clock.now()
        asked = sorted(key for key in set(keys) if self._cached_until.get(key, now) <= now)[:_MAX_QUERIED]
        if not asked:
            return []
        try:
            async with asyncio.timeout(_TIMEOUT):
                found = await self._traces.listeners(asked)
        except (TimeoutError, StreamschedError):  # the event is in the log already; the hint is optional
            return None
        listened = {key for key, schedules in found.items() if any(each.record.listens for each in schedules)}
        if len(self._cached_until) > _MAX_CACHED:
            self._cached_until.clear()
        self._cached_until |= dict.fromkeys(listened, now + _TTL)
        return [key for key in asked if key in found and key not in listened]
