"""Copies verdicts from topic `verdicts` into their table (see `streamsched.log.intake`) and deletes old ones. Nothing
waits for this intake.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from streamsched.codec.records import findings
from streamsched.domain.limits import add_duration
from streamsched.log.intake import TopicIntake
from streamsched.log.topics import VERDICTS
from streamsched.ports.broker import Broker, Record
from streamsched.ports.clock import Clock
from streamsched.store.events.verdicts import Page, VerdictStore

log = structlog.get_logger()

#: Records in one read; bounds memory, as each has up to `findings.EVENTS` events.
_BATCH: Final = 50
#: Seconds between reads, so that the records of many small turns are stored together.
_PACE: Final = 0.2
#: How often old verdicts are deleted.
_DELETE_EVERY: Final = timedelta(minutes=10)


class VerdictIntake(TopicIntake[Page]):
    """Stores each verdict once; belongs to one task."""

    def __init__(self, broker: Broker, store: VerdictStore, clock: Clock, *, keep: timedelta) -> None:
        """`keep`: how long verdicts are kept, rounded up by partitions; 0 stores none and deletes existing ones."""
        super().__init__(VERDICTS, _page, broker=broker, store=store, clock=clock, max_records=_BATCH)
        self._verdicts = store
        self._keep = keep
        self._delete_at = datetime.min.replace(tzinfo=UTC)

    async def step(self) -> float:
        """Deletes what is old when due, and stores the records of one read. Returns the seconds until the next call."""
        await self.forget()
        if not self._keep:
            return _DELETE_EVERY.total_seconds()
        await super().step()
        return _PACE

    async def forget(self) -> int:
        """Drops the partitions that are older than `keep`, at most every `_DELETE_EVERY`. Returns how many.

        Raises:
            UnavailableError: PostgreSQL is unreachable.
        """
        now = self._clock.now()
        if now < self._delete_at or self._clock.in_doubt:
            return 0
        parts = await self._verdicts.forget(before=add_duration(now, -self._keep))
        self._delete_at = now + _DELETE_EVERY
        if parts:
            log.info("verdicts.forgotten", parts=parts)
        return parts


def _page(record: Record) -> Page:
    return tuple(findings.decode(record.value or b"", at=record.at))
