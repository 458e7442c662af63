"""Replays a schedule in error: a signal asks its home to replay the parked signals in a turn (`domain.fold.halt`)."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from streamsched.catalog.catalog import PATIENCE
from streamsched.catalog.outbox_ack import wait_for_ack
from streamsched.domain.errors import ConflictError
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signals.signal import Replay
from streamsched.log.control import outbox_record
from streamsched.ports.notifier import Notifier
from streamsched.store.catalog.catalog_reader import CatalogReader
from streamsched.store.catalog.outbox import PostgresOutbox
from streamsched.store.catalog.records import ScheduleStatus
from streamsched.store.server.probe import OutboxRepair

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleReplay:
    """The request is a signal in the log, so it is ordered with events and definitions. Idempotent."""

    reader: CatalogReader
    mending: OutboxRepair
    acks: PostgresOutbox
    notifier: Notifier
    patience: float = PATIENCE

    async def replay(self, ref: ScheduleRef) -> ScheduleStatus:
        """Returns the schedule's former status once the log has the request. The outcome appears in the schedule's
        `halt` shortly after: removed, or with one more attempt.

        Raises:
            NotFoundError: no such schedule.
            ConflictError: it is not in error, or it was changed concurrently.
            UnavailableError: PostgreSQL is unreachable and nothing happened; or the log has not acknowledged the
                request yet.
        """
        status = await self.reader.schedule(ref)
        if status.halt is None:
            raise ConflictError(f"schedule '{ref}' is not in error: there is nothing to replay")
        generation = status.record.generation
        request = outbox_record(Replay(ref, generation), status.record.affinity)
        written = await self.mending.mend(ref, generation, [request])
        if not written:
            raise ConflictError(f"schedule '{ref}' was changed concurrently: check its state and try again")
        await wait_for_ack(written, acks=self.acks, notifier=self.notifier, patience=self.patience)
        log.info("schedule.replay_requested", schedule=str(ref), parked=status.halt.parked)
        return status
