"""Verdicts from topic `verdicts` into the table people ask (`streamsched.intake` says how), and out of it again when
they are old. An intake that lags or is away holds nobody up.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from streamsched.codec import findings
from streamsched.intake import TopicIntake
from streamsched.ports.broker import Broker, Record
from streamsched.ports.clock import Clock
from streamsched.ports.topics import VERDICTS
from streamsched.ports.verdicts import Page, VerdictStore

log = structlog.get_logger()

#: Records for one read. Each tells of up to `findings.EVENTS` events, so this bounds the memory.
_BATCH: Final = 50
#: Seconds between reads, so that the records of many small turns are stored together.
_PACE: Final = 0.2
#: How often old days are looked for.
_FORGETS: Final = timedelta(minutes=10)


class VerdictIntake(TopicIntake[Page]):
    """Stores each verdict once; belongs to one task."""

    def __init__(self, broker: Broker, store: VerdictStore, clock: Clock, *, keep: timedelta) -> None:
        """`keep`: how long verdicts are kept, and then until the end of their day; with 0 nothing is taken, and what
        is there is forgotten.
        """
        super().__init__(VERDICTS, _page, broker=broker, store=store, clock=clock, max_records=_BATCH)
        self._kept = store
        self._keep = keep
        self._now = clock.now
        self._forget_at = datetime.min.replace(tzinfo=UTC)

    async def look(self) -> float:
        """Forgets, and takes."""
        await self.forget()
        if not self._keep:
            return _FORGETS.total_seconds()
        await super().look()
        return _PACE

    async def forget(self) -> int:
        """Drops days that are old enough, when it is time to look for some; how many.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        now = self._now()
        if now < self._forget_at:
            return 0
        gone = await self._kept.forget(before=now - self._keep)
        self._forget_at = now + _FORGETS
        if gone:
            log.info("verdicts.forgotten", days=gone)
        return gone


def _page(record: Record) -> Page:
    return tuple(findings.decode(record.value or b"", at=datetime.fromtimestamp(record.time_ms / 1000, UTC)))
