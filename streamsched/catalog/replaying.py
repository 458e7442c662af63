"""Replaying a schedule that is in error: its home in the log is told, and does it in a turn (`domain.halt`)."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from streamsched.catalog.catalog import PATIENCE
from streamsched.catalog.control import addressed
from streamsched.catalog.receipt import acknowledged
from streamsched.domain.errors import ConflictError
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signal import Replay
from streamsched.ports.bell import Bell
from streamsched.ports.catalog import CatalogReader, ScheduleStatus
from streamsched.ports.outbox import Mending, Receipts

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaying:
    """Told in band, so a replay never meets an event or a definition out of order; twice is harmless."""

    reader: CatalogReader
    mending: Mending
    receipts: Receipts
    bell: Bell
    patience: float = PATIENCE

    async def replay(self, ref: ScheduleRef) -> ScheduleStatus:
        """Returns, with the schedule as it stood before, when the log has the request; what comes of it shows in the
        schedule's `halt` a moment later: gone, or one attempt more.

        Raises:
            NotFoundError: no such schedule.
            ConflictError: it is not in error, or it was changed just now.
            UnavailableError: PostgreSQL is away and nothing happened; or the log has not taken the request yet.
        """
        status = await self.reader.schedule(ref)
        if status.halt is None:
            raise ConflictError(f"schedule '{ref}' is not in error: there is nothing to replay")
        generation = status.record.generation
        told = await self.mending.mend(ref, generation, [addressed(Replay(ref, generation))])
        if not told:
            raise ConflictError(f"schedule '{ref}' was changed just now: look at it again")
        await acknowledged(told, receipts=self.receipts, bell=self.bell, patience=self.patience)
        log.info("schedule.replay_asked", schedule=str(ref), parked=status.halt.parked)
        return status
