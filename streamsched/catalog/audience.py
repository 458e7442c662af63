"""Who listens to an event, for the answer to its emitter: a hint, never a judgement. That is made in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from streamsched.domain.errors import StreamschedError
from streamsched.ports.clock import Clock
from streamsched.ports.verdicts import Trails

#: How long a key that was heard is taken as heard without asking again. One that was not is asked for every time.
_TRUST: Final = timedelta(seconds=5)
#: As many keys as are asked for at once, and as are remembered.
_ASKED: Final = 100
_REMEMBERED: Final = 50_000
#: Seconds an emitter may be kept waiting for a hint.
_PATIENCE: Final = 0.5


class Audience:
    """Says which event keys nobody listens to. It is right about those it names; it may leave some out."""

    def __init__(self, trails: Trails, clock: Clock) -> None:
        self._trails = trails
        self._clock = clock
        self._heard_until: dict[str, datetime] = {}

    async def unheard(self, keys: Iterable[str]) -> list[str] | None:
        """Those of the keys that no schedule listens to now, in order; None when nobody can tell in time."""
        now = self._clock.now()
        asked = sorted(key for key in set(keys) if self._heard_until.get(key, now) <= now)[:_ASKED]
        if not asked:
            return []
        try:
            async with asyncio.timeout(_PATIENCE):
                found = await self._trails.listeners(asked)
        except (TimeoutError, StreamschedError):  # the event is in the log, and that is what counts
            return None
        heard = {key for key, standings in found.items() if any(each.record.listens for each in standings)}
        if len(self._heard_until) > _REMEMBERED:
            self._heard_until.clear()
        self._heard_until |= dict.fromkeys(heard, now + _TRUST)
        return [key for key in asked if key in found and key not in heard]
