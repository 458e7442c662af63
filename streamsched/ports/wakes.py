"""Wake-ups that folds asked for (`domain.effect.Wake`), kept until they are due. Times are UTC."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from streamsched.domain.effect import Wake
from streamsched.domain.signal import Woken
from streamsched.ports.outbox import OutboxRecord


@dataclass(frozen=True, slots=True)
class WakeRequest:
    """A request as it came from the log; `logged_at` is the log time of its record.

    Stored (`ports.intake.IntakeStore`) it replaces the one its schedule and cell had; one that asks for none any more
    leaves none. Of a schedule that is unknown or deleted it is obsolete and leaves none either. Requests of former
    generations are kept like any other: the fold knows its own deadlines, and what it kept of a former generation
    may still wait for one.
    """

    wake: Wake
    logged_at: datetime


class WakeStore(Protocol):
    """The durable side of wake-ups; any number of instances may share it."""

    async def fire(self, *, now: datetime, limit: int, record: Callable[[Woken], OutboxRecord]) -> int:
        """Sends up to `limit` wake-ups due at `now`, those due longest first, leaving those another instance has: each
        becomes a `record` in the outbox and is gone, in one transaction. Returns how many that were.

        Raises:
            UnavailableError: PostgreSQL is away; nothing changed, or everything did.
        """
        ...

    async def next_due(self) -> datetime | None:
        """The earliest due time of all, claimed by another instance or not.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ...
